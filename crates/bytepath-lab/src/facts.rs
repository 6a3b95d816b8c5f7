//! The machine's facts as a record keeps them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bytepath::machine::{self, Answer, Call, Machine, Ring, Topology};
use bytepath_report::{Cache, Record};
use serde_json::Value;

/// What is true of this machine, for the record.
pub fn of(machine: &Machine) -> bytepath_report::Machine {
    let (kernel, memory, pipes) = (machine.kernel(), machine.memory(), machine.pipes());
    let psi = machine.pressure();
    bytepath_report::Machine {
        kernel: format!("{} {}", kernel.release, kernel.version),
        command_line: some(&kernel.command_line),
        virtualisation: Some(kernel.virtualisation.to_string()),
        cpu_model: some(&kernel.cpu_model),
        cpus_online: Some(machine.cpus().online().to_string()),
        cpus_allowed: Some(machine.allowed_cpus().to_string()),
        numa_nodes: nodes(machine.cpus()),
        caches: caches(machine.cpus()),
        memory_bytes: Some(memory.total_bytes),
        page_bytes: memory.page_bytes as u64,
        thp_enabled: memory.thp_enabled.clone(),
        thp_defrag: memory.thp_defrag.clone(),
        hugetlb_pages: default_hugetlb_pages(),
        mitigations: kernel.mitigations.iter().cloned().collect::<BTreeMap<_, _>>(),
        governor: some(&kernel.governors.join(", ")),
        pipe_max_size: pipes.max_bytes.map(|bytes| bytes as u64),
        pipe_user_pages_soft: pipes.user_pages_soft,
        memlock_bytes: Some(machine.limits().locked_memory_bytes.soft.unwrap_or(u64::MAX)),
        io_uring: Some(match machine.ring() {
            Ring::Available(_) => "available".to_owned(),
            ring => ring.to_string(),
        }),
        vmsplice_aliases: Some(machine.call(Call::VmspliceAliases) == &Answer::Yes),
        psi: Some(psi.is_yes()),
        file_system: None,
        user_is_root: machine.user().root,
    }
}

/// The settings that say where a run's data are, the nearest first.
const PLACES: [&str; 3] = ["file", "input", "directory"];

/// The parameter in which an arm names the file system of its data.
pub(crate) const FILE_SYSTEM: &str = "file_system";

/// The file systems of a run's data: those that its arms name, or else those of the files, or of the
/// directory, that its settings name. None of devices, which hold their data themselves.
pub(crate) fn file_system(record: &Record) -> Option<String> {
    let of_arm =
        |arm: &bytepath_report::Arm| Some(arm.params.get(FILE_SYSTEM)?.as_str()?.to_owned());
    let mut names: BTreeSet<String> = record.arms.iter().filter_map(of_arm).collect();
    if names.is_empty() {
        let place = PLACES.iter().find_map(|name| record.settings.get(*name));
        // Where the files that it makes of what it was given are.
        let makes_files = record.settings.get("sink").is_some_and(|sink| sink == "file");
        let made = record.settings.get("directory").filter(|_| makes_files);
        let paths_of =
            |place| Value::as_array(place).map_or(std::slice::from_ref(place), Vec::as_slice);
        let paths = place.into_iter().chain(made).flat_map(paths_of);
        let paths = paths.filter_map(Value::as_str).map(Path::new);
        // The data of a device are not where its node is.
        let with_data = paths.filter(|path| path.is_file() || path.is_dir());
        let found = with_data.filter_map(|path| machine::file_system(path).ok());
        names = found.map(|found| found.name).collect();
    }
    some(&names.into_iter().collect::<Vec<_>>().join(", "))
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// The pages of the pool that MAP_HUGETLB takes from unless it is told a size.
fn default_hugetlb_pages() -> Option<u64> {
    std::fs::read_to_string("/proc/sys/vm/nr_hugepages").ok()?.trim().parse().ok()
}

fn nodes(cpus: &Topology) -> Option<u32> {
    let mut nodes: Vec<_> = cpus.cpus.iter().map(|cpu| cpu.node).collect::<Option<_>>()?;
    nodes.sort_unstable();
    nodes.dedup();
    u32::try_from(nodes.len()).ok()
}

/// Each cache once, however many CPUs share it.
fn caches(cpus: &Topology) -> Vec<Cache> {
    let mut caches: Vec<Cache> = Vec::new();
    for cache in cpus.cpus.iter().flat_map(|cpu| &cpu.caches) {
        let cache = Cache {
            level: u32::try_from(cache.level).unwrap_or(0),
            kind: format!("{:?}", cache.kind).to_lowercase(),
            bytes: cache.size_bytes.unwrap_or(0),
            cpus: cache.shared_by.to_string(),
        };
        if !caches.contains(&cache) {
            caches.push(cache);
        }
    }
    caches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_what_the_schema_says_of_them() {
        let machine = Machine::this();
        let facts = of(machine);
        let kernel = machine.kernel();
        assert_eq!(facts.kernel, format!("{} {}", kernel.release, kernel.version));
        for cache in &facts.caches {
            assert!(["data", "instruction", "unified"].contains(&cache.kind.as_str()), "{cache:?}");
        }
        let pools = &machine.memory().huge_pools;
        let is_a_pools = |pages: u64| pools.iter().any(|pool| pool.total_pages == pages);
        assert!(facts.hugetlb_pages.is_none_or(is_a_pools), "{facts:?}");
    }
    #[test]
    fn the_file_systems_are_those_of_arms_or_of_the_nearest_place() {
        let record = |kinds: &[&str], settings: &[(&str, Value)]| {
            let arm = |kind: &&str| {
                let mut arm = bytepath_report::Arm::new(*kind, bytepath_report::Unit::Seconds);
                arm.params.insert(FILE_SYSTEM.to_owned(), (*kind).into());
                arm
            };
            let mut record = crate::experiments::record_of(kinds.iter().map(arm).collect());
            let owned = |(key, value): &(&str, Value)| ((*key).to_owned(), value.clone());
            record.settings = settings.iter().map(owned).collect();
            file_system(&record)
        };
        let of = |path: &str| machine::file_system(Path::new(path)).expect("it is there").name;
        let (root, proc) = (of("/"), of("/proc"));
        assert_ne!(root, proc);
        let directory = ("directory", Value::from("/"));
        assert_eq!(record(&[], &[]), None);
        assert_eq!(record(&[], std::slice::from_ref(&directory)), Some(root.clone()));
        assert_eq!(
            record(&[], &[directory.clone(), ("input", "/proc".into())]),
            Some(proc.clone())
        );
        let files = ("file", Value::from(vec!["/proc", "/proc/version"]));
        assert_eq!(record(&[], &[directory.clone(), files]), Some(proc.clone()));
        assert_eq!(record(&[], &[("file", vec!["/dev/null"].into())]), None);
        let passed = [directory.clone(), ("file", "/proc/version".into())];
        let kept = |sink: &str| record(&[], &[&passed[..], &[("sink", sink.into())]].concat());
        assert_eq!(kept("hash"), Some(proc.clone()));
        let mut both = [proc, root];
        both.sort();
        assert_eq!(kept("file"), Some(both.join(", ")));
        assert_eq!(record(&[], &[("directory", "/no/such".into())]), None);
        let copied = record(&["tmpfs", "ext4", "tmpfs"], &[directory]);
        assert_eq!(copied.as_deref(), Some("ext4, tmpfs"));
    }
}
