//! What holds this machine back from moving bytes: facts, judged, with what they cost where `tune`
//! measured it, and the setting that changes them. The one source of such advice: `tune` shows what of
//! it was measured.
//!
//! Looking changes nothing. A file per field; each makes findings out of [`Here`].

pub mod change;
mod groups;
mod kernel;
mod memory;
mod network;
mod pipes;
mod sight;
mod storage;

use std::path::{Path, PathBuf};

use bytepath::machine::Machine;
use bytepath::profile::Profile;
use bytepath_report::{Finding, Health, numbers};

use crate::tune;
pub use change::Change;
pub use groups::{CpuQuota, cpu_quotas};

/// What is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Here<'a> {
    /// Where /proc and /sys are; `/` for this machine.
    pub root: &'a Path,
    /// The machine's own facts.
    pub machine: &'a Machine,
    /// What `tune` measured on it.
    pub profile: Option<&'a Profile>,
    /// A directory on the file system that is of interest.
    pub place: &'a Path,
}

/// A finding, and how it is changed where that can be done while the machine runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examined {
    /// What was found.
    pub finding: Finding,
    /// What `--apply` does.
    pub change: Option<Change>,
}

/// Looks at everything. Takes a few milliseconds.
pub fn examine(here: &Here<'_>) -> Vec<Examined> {
    let parts = [
        pipes::examine(here),
        memory::examine(here),
        kernel::examine(here),
        groups::examine(here),
        storage::examine(here),
        network::examine(here),
        sight::examine(here),
    ];
    parts.into_iter().flatten().collect()
}

/// What of it `tune` has measured, poor things only: those that it tells beside its figures.
pub fn held_back(machine: &Machine, profile: &Profile) -> Vec<Finding> {
    let here =
        Here { root: Path::new("/"), machine, profile: Some(profile), place: Path::new(".") };
    let measured = [
        pipes::size(&here),
        memory::transparent(&here),
        memory::shared(&here),
        kernel::wake_ups(&here),
        kernel::governor(&here),
    ];
    let poor = |examined: &Examined| examined.finding.verdict == Health::Poor;
    measured.into_iter().filter(poor).map(|examined| examined.finding).collect()
}

impl Here<'_> {
    /// The text of a file below the root, without white space around it.
    fn text(&self, name: &str) -> Option<String> {
        let text = std::fs::read(self.root.join(name)).ok()?;
        Some(String::from_utf8_lossy(&text).trim().to_owned())
    }

    fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        self.text(name)?.parse().ok()
    }

    /// The names in a folder below the root, sorted.
    fn names(&self, name: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.root.join(name)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// What `tune` measured, unless others disturbed it: no advice comes of such figures.
    fn measured(&self) -> Option<&Profile> {
        self.profile.filter(|profile| profile.disturbed.is_none())
    }

    /// A figure that `tune` measured.
    fn cost(&self, name: &str) -> Option<f64> {
        tune::cost(self.measured()?, name).map(|cost| cost.value)
    }

    /// A change that writes to a file below the root.
    fn change(&self, name: &str, to: impl ToString) -> Option<Change> {
        Change::of(self.root, &[(PathBuf::from(name), to.to_string())])
    }
}

impl Examined {
    fn new(name: &str, verdict: Health, found: impl Into<String>, why: impl Into<String>) -> Self {
        let (found, why) = (found.into(), why.into());
        let finding = Finding { name: name.to_owned(), verdict, found, why, ..Finding::default() };
        Examined { finding, change: None }
    }

    fn good(name: &str, found: impl Into<String>, why: impl Into<String>) -> Self {
        Examined::new(name, Health::Good, found, why)
    }

    fn poor(name: &str, found: impl Into<String>, why: impl Into<String>) -> Self {
        Examined::new(name, Health::Poor, found, why)
    }

    fn unknown(name: &str, why: impl Into<String>) -> Self {
        Examined::new(name, Health::Unknown, "not told", why)
    }

    fn costs(mut self, cost: Option<String>) -> Self {
        self.finding.cost = cost;
        self
    }

    fn by(mut self, setting: impl Into<String>) -> Self {
        self.finding.setting = Some(setting.into());
        self
    }

    fn changed_by(mut self, change: Option<Change>) -> Self {
        self.finding.changeable = change.is_some();
        self.change = change;
        self
    }
}

/// A number of bytes as people read it.
fn bytes(count: u64) -> String {
    numbers::bytes(count)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use bytepath::machine::Facts;

    use super::*;

    #[test]
    fn a_machine_that_tells_nothing_is_unknown_and_never_a_fault() {
        let root = tempfile::tempdir().expect("a folder");
        let machine = Machine::from_facts(Facts::ordinary());
        let here = Here { root: root.path(), machine: &machine, profile: None, place: root.path() };
        let found = examine(&here);
        assert!(found.iter().any(|one| one.finding.verdict == Health::Unknown));
        assert!(found.iter().all(|one| one.change.is_none()), "nothing can be written there");
        let names: std::collections::BTreeSet<_> =
            found.iter().map(|one| one.finding.name.as_str()).collect();
        assert_eq!(names.len(), found.len(), "each has a name of its own");
    }

    /// A machine's files, with these texts.
    fn told(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let file = root.path().join(name);
            fs::create_dir_all(file.parent().expect("a folder")).expect("folders");
            fs::write(file, text).expect("a file");
        }
        root
    }

    #[test]
    fn what_binds_others_can_be_changed_by_whom_it_does_not_bind() {
        let root = told(&[
            ("proc/sys/fs/pipe-max-size", "65536\n"),
            ("proc/sys/fs/pipe-user-pages-soft", "16384\n"),
            ("proc/sys/kernel/perf_event_paranoid", "2\n"),
            ("proc/sys/kernel/kptr_restrict", "1\n"),
            ("proc/kallsyms", "ffffffff81000000 T _text\n"),
        ]);
        let mut facts = Facts::ordinary();
        facts.pipes.largest_bytes = Some(1 << 20);
        facts.pipes.default_bytes = Some(64 << 10);
        facts.pipes.user_pages_soft = Some(16384);
        facts.user.capabilities.0 = !0;
        let machine = Machine::from_facts(facts);
        let here = Here { root: root.path(), machine: &machine, profile: None, place: root.path() };
        let found = examine(&here);
        for name in ["pipe-size", "pipe-budget", "perf-event-paranoid", "kptr-restrict"] {
            let one = found.iter().find(|one| one.finding.name == name).expect("it is looked at");
            assert_eq!(one.finding.verdict, Health::Good, "{one:?}");
            assert!(one.change.is_some(), "{one:?}");
        }
    }

    #[test]
    fn above_2_only_who_may_do_all_is_surely_not_bound() {
        let root = told(&[("proc/sys/kernel/perf_event_paranoid", "4\n")]);
        let verdict = |capabilities: u64| {
            let mut facts = Facts::ordinary();
            facts.user.capabilities.0 = capabilities;
            let machine = Machine::from_facts(facts);
            let place = root.path();
            let found = examine(&Here { root: place, machine: &machine, profile: None, place });
            let one = found.into_iter().find(|one| one.finding.name == "perf-event-paranoid");
            one.expect("it is looked at").finding.verdict
        };
        assert_eq!(verdict(!0), Health::Good);
        assert_eq!(verdict(1 << 38), Health::Poor, "CAP_PERFMON alone");
    }

    #[test]
    fn a_ring_that_failed_is_mended_by_what_its_word_asks_for() {
        let root = told(&[("proc/sys/kernel/io_uring_disabled", "0\n")]);
        let mut facts = Facts::ordinary();
        facts.ring = bytepath::machine::Ring::Failed {
            errno: rustix::io::Errno::NOMEM,
            remedy: "raise ulimit -l".to_owned(),
        };
        let machine = Machine::from_facts(facts);
        let place = root.path();
        let found = examine(&Here { root: place, machine: &machine, profile: None, place });
        let one = found.iter().find(|one| one.finding.name == "io-uring").expect("looked at");
        assert_eq!(one.finding.setting.as_deref(), Some("raise ulimit -l"));
    }

    #[test]
    fn a_ring_that_is_forbidden_is_mended_where_that_is() {
        let switch = ("proc/sys/kernel/io_uring_disabled", "1\n");
        let mended = |remedy: &str| {
            let mut facts = Facts::ordinary();
            facts.ring = bytepath::machine::Ring::NotPermitted {
                errno: rustix::io::Errno::PERM,
                why: "somebody forbids it".to_owned(),
                remedy: remedy.to_owned(),
            };
            let (_root, one) = found("io-uring", &[switch], facts);
            (one.finding.setting.unwrap_or_default(), one.change.is_some())
        };
        for (remedy, is_the_switch) in [
            ("as root: sysctl kernel.io_uring_disabled=0", true),
            ("run with a seccomp profile that allows io_uring_setup", false),
        ] {
            assert_eq!(mended(remedy), (remedy.to_owned(), is_the_switch));
        }
    }

    #[test]
    fn limits_of_old_groups_are_lifted_in_their_own_words() {
        let root = told(&[
            ("proc/self/cgroup", "3:blkio:/in\n2:memory:/in\n"),
            ("sys/fs/cgroup/memory/in/memory.limit_in_bytes", "1048576\n"),
            ("sys/fs/cgroup/memory/in/memory.memsw.limit_in_bytes", "1048576\n"),
            ("sys/fs/cgroup/blkio/in/blkio.throttle.read_bps_device", "8:0 1024\n8:16 9\n"),
        ]);
        let mut facts = Facts::ordinary();
        facts.memory.total_bytes = 1 << 30;
        let machine = Machine::from_facts(facts);
        let here = Here { root: root.path(), machine: &machine, profile: None, place: root.path() };
        let found = examine(&here);
        let (memory, blkio) = ("sys/fs/cgroup/memory/in/memory", "sys/fs/cgroup/blkio/in/blkio");
        let [memory, blkio] = [memory, blkio].map(|name| root.path().join(name));
        let (memory, blkio) = (memory.display(), blkio.display());
        for (name, begin) in [
            (
                "cgroup-memory",
                format!(
                    "echo -1 > {memory}.memsw.limit_in_bytes && echo -1 > {memory}.limit_in_bytes,"
                ),
            ),
            (
                "cgroup-io",
                format!(
                    "echo 8:0 0 > {blkio}.throttle.read_bps_device && \
                     echo 8:16 0 > {blkio}.throttle.read_bps_device"
                ),
            ),
        ] {
            let one = found.iter().find(|one| one.finding.name == name).expect("it is looked at");
            let setting = one.finding.setting.as_deref().unwrap_or_default();
            assert!(setting.starts_with(&begin), "{one:?}");
        }
    }

    /// What is found under a name where these are the machine's files.
    fn found(name: &str, files: &[(&str, &str)], facts: Facts) -> (tempfile::TempDir, Examined) {
        let root = told(files);
        let machine = Machine::from_facts(facts);
        let here = Here { root: root.path(), machine: &machine, profile: None, place: root.path() };
        let one = examine(&here).into_iter().find(|one| one.finding.name == name);
        (root, one.expect("it is looked at"))
    }

    #[test]
    fn only_mitigations_that_cost_at_each_call_are_poor() {
        let verdict = |state: &str| {
            let mut facts = Facts::ordinary();
            facts.kernel.mitigations = vec![("spectre_v2".to_owned(), state.to_owned())];
            found("mitigations", &[], facts).1.finding.verdict
        };
        for state in [
            "Not affected",
            "Vulnerable: eIBRS with unprivileged eBPF",
            "Mitigation: Enhanced / Automatic IBRS; RSB filling; PBRSB-eIBRS: SW sequence; BHI: \
             BHI_DIS_S",
            "Mitigation: Enhanced IBRS",
            "Mitigation: LFENCE; IBPB: conditional; IBRS_FW; STIBP: disabled",
            "Mitigation: Enhanced / Automatic IBRS; BHI: Vulnerable, KVM: SW loop",
            "Mitigation: PTE Inversion; VMX: conditional cache flushes, SMT vulnerable",
            "Mitigation: IBPB on VMEXIT only",
            "Mitigation: Clear CPU buffers: VM",
        ] {
            assert_eq!(verdict(state), Health::Good, "{state}");
        }
        for state in [
            "Mitigation: Retpolines; IBPB: conditional; IBRS_FW; STIBP: disabled; RSB filling",
            "Mitigation: Full generic retpoline",
            "Mitigation: IBRS; IBPB: conditional",
            "Mitigation: Enhanced / Automatic IBRS; IBPB: conditional; BHI: SW loop, KVM: SW loop",
            "Mitigation: Enhanced IBRS + Retpolines",
            "Mitigation: PTI",
            "Mitigation: Clear CPU buffers; SMT vulnerable",
            "Mitigation: Safe RET",
            "Mitigation: safe RET",
            "Mitigation: untrained return thunk; SMT disabled",
            "Mitigation: IBPB",
        ] {
            assert_eq!(verdict(state), Health::Poor, "{state}");
        }
    }

    #[test]
    fn the_mark_of_a_container_that_an_image_was_made_from_is_no_container() {
        let said = |namespace: &str, kind: &str| {
            let mounts = format!("rootfs / rootfs rw 0 0\n/dev/vda / {kind} rw 0 0\n");
            let root = told(&[(".dockerenv", ""), ("proc/self/mounts", &mounts)]);
            fs::create_dir_all(root.path().join("proc/self/ns")).expect("folders");
            std::os::unix::fs::symlink(namespace, root.path().join("proc/self/ns/pid"))
                .expect("a link");
            let (machine, place) = (Machine::from_facts(Facts::ordinary()), root.path());
            let here = Here { root: place, machine: &machine, profile: None, place };
            let found = examine(&here).into_iter().find(|one| one.finding.name == "container");
            found.expect("it is looked at").finding.found
        };
        let (initial, other) = ("pid:[4026531836]", "pid:[4026532000]");
        assert_eq!(said(initial, "ext4"), "none");
        for (namespace, kind) in [(initial, "overlay"), (other, "ext4"), (other, "overlay")] {
            assert_eq!(said(namespace, kind), "in a container (docker)", "{namespace} {kind}");
        }
    }

    #[test]
    fn powersave_is_poor_where_it_does_not_follow_the_work() {
        let said = |driver: &str, preferred: &str| {
            let of = |file| format!("sys/devices/system/cpu/cpufreq/policy0/{file}");
            let files = [
                (of("scaling_governor"), "powersave"),
                (of("scaling_driver"), driver),
                (of("energy_performance_preference"), preferred),
            ];
            let files: Vec<_> = files.iter().map(|(file, text)| (file.as_str(), *text)).collect();
            let mut facts = Facts::ordinary();
            facts.kernel.governors = vec!["powersave".to_owned()];
            let (_root, one) = found("governor", &files, facts);
            (one.finding.verdict, one.change.map(|change| change.steps()))
        };
        for driver in ["intel_pstate", "amd-pstate-epp"] {
            assert_eq!(said(driver, "balance_performance"), (Health::Good, None));
            let steps = Some("power to balance_performance".to_owned());
            assert_eq!(said(driver, "power"), (Health::Poor, steps));
        }
        for driver in ["acpi-cpufreq", "intel_cpufreq", "amd-pstate"] {
            let steps = Some("powersave to performance".to_owned());
            assert_eq!(said(driver, ""), (Health::Poor, steps));
        }
    }

    #[test]
    fn huge_pages_between_processes_are_tried_whatever_the_setting_says() {
        let huge = bytepath::pages::PageSize::Huge;
        let got = bytepath::pages::SharedMemory::create(2 << 20, huge);
        if !got.is_ok_and(|memory| memory.huge_bytes().is_ok_and(|bytes| bytes > 0)) {
            println!("skipped: shared memory gets no 2 MiB pages here");
            return;
        }
        let mut facts = Facts::ordinary();
        facts.memory.thp_shmem = Some("never".to_owned());
        let (_root, one) = found("thp-shared", &[], facts);
        assert_eq!((one.finding.verdict, one.finding.setting), (Health::Good, None));
    }

    #[test]
    fn with_one_cpu_nothing_is_left_to_measure_of_wake_ups() {
        let verdict = |cpus| {
            let allowed_cpus = bytepath::machine::CpuList::parse(cpus);
            let (_root, one) = found("wake-ups", &[], Facts { allowed_cpus, ..Facts::ordinary() });
            (one.finding.verdict, one.finding.setting)
        };
        assert_eq!(verdict("0"), (Health::Good, None));
        assert_eq!(verdict("0-1"), (Health::Unknown, Some("bytepath tune".to_owned())));
    }

    #[test]
    fn what_keeps_cpus_awake_is_what_is_not_so_already() {
        let told = |current: &str, available: &str, polled_ns: &str| {
            let root = told(&[
                ("sys/devices/system/cpu/cpuidle/current_governor", current),
                ("sys/devices/system/cpu/cpuidle/available_governors", available),
                ("sys/module/haltpoll/parameters/guest_halt_poll_ns", polled_ns),
            ]);
            let (machine, place) = (Machine::from_facts(Facts::ordinary()), root.path());
            kernel::kept_awake(&Here { root: place, machine: &machine, profile: None, place })
        };
        let boot = "boot option idle=poll";
        let poll = "echo 200000 > /sys/module/haltpoll/parameters/guest_halt_poll_ns";
        let choose = "echo haltpoll > /sys/devices/system/cpu/cpuidle/current_governor";
        let (guest, host) = ("ladder menu haltpoll \n", "menu teo \n");
        let power = "which trades power for it";
        assert_eq!(told("haltpoll\n", guest, "0\n"), format!("{poll}, {power}; or {boot}"));
        assert_eq!(told("haltpoll\n", guest, "200000\n"), format!("{boot}, {power}"));
        assert_eq!(told("menu\n", guest, "200000\n"), format!("{choose}, {power}; or {boot}"));
        let both = format!("{choose} && {poll}, {power}; or {boot}");
        assert_eq!(told("menu\n", guest, "0\n"), both);
        assert_eq!(told("menu\n", host, ""), format!("{boot}, {power}"));
        let root = tempfile::tempdir().expect("a folder");
        let (machine, place) = (Machine::from_facts(Facts::ordinary()), root.path());
        let here = Here { root: place, machine: &machine, profile: None, place };
        assert!(kernel::kept_awake(&here).contains("cpuidle.governor=haltpoll in a guest"));
    }

    #[test]
    fn a_limit_of_pipes_that_is_high_enough_is_not_lowered_where_the_budget_is_spent() {
        let files = [
            ("proc/sys/fs/pipe-max-size", "16777216\n"),
            ("proc/sys/fs/pipe-user-pages-soft", "16384\n"),
        ];
        let mut facts = Facts::ordinary();
        facts.pipes.largest_bytes = Some(64 << 10);
        let (root, one) = found("pipe-size", &files, facts);
        let setting = one.finding.setting.as_deref();
        assert_eq!(setting, Some("sysctl -w fs.pipe-user-pages-soft=0"));
        one.change.expect("it can be changed").apply("pipe-size").expect("it is written");
        let limit = fs::read_to_string(root.path().join(files[0].0)).expect("a file");
        assert_eq!(limit, files[0].1);
    }

    #[test]
    fn names_of_kernel_functions_take_both_settings_for_who_has_no_rights() {
        let files = [
            ("proc/sys/kernel/kptr_restrict", "1\n"),
            ("proc/sys/kernel/perf_event_paranoid", "2\n"),
            ("proc/kallsyms", "0000000000000000 T _text\n"),
        ];
        let setting = |capabilities: u64| {
            let mut facts = Facts::ordinary();
            facts.user.capabilities.0 = capabilities;
            let (_root, one) = found("kptr-restrict", &files, facts);
            (one.finding.setting.expect("it is poor"), one.change.expect("it is there").steps())
        };
        let both =
            "sysctl -w kernel.kptr_restrict=0 && sysctl -w kernel.perf_event_paranoid=1, or ";
        let (told, steps) = setting(0);
        assert!(told.starts_with(both), "{told}");
        assert_eq!(steps, "1 to 0, and 2 to 1");
        let (told, steps) = setting(1 << 34);
        assert!(told.starts_with("sysctl -w kernel.kptr_restrict=0, or "), "{told}");
        assert_eq!(steps, "1 to 0");
    }

    #[test]
    fn swap_on_a_disk_is_told_the_commands_that_make_compressed_memory() {
        let swaps =
            ("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 9 8 -2\n");
        let mut facts = Facts::ordinary();
        facts.memory.total_bytes = 8 << 30;
        let commands = "z=$(zramctl --find --size 4096M --algorithm lz4) && mkswap $z && \
                        swapon -p 100 $z";
        let setting = |files: &[(&str, &str)]| {
            found("swap", files, facts.clone()).1.finding.setting.expect("it is poor")
        };
        assert_eq!(setting(&[swaps]), format!("modprobe zram && {commands}"));
        assert_eq!(setting(&[swaps, ("sys/class/zram-control/hot_add", "")]), commands);
        let zswap = "sys/module/zswap/parameters/enabled";
        let off = format!("echo N > /{zswap} && modprobe zram && {commands}");
        assert_eq!(setting(&[swaps, (zswap, "Y\n")]), off);
    }

    #[test]
    fn compressed_memory_is_to_be_used_before_any_disk() {
        let swap = |rows: &str| {
            let swaps = format!("Filename Type Size Used Priority\n{rows}");
            let (_root, one) = found("swap", &[("proc/swaps", &swaps)], Facts::ordinary());
            (one.finding.verdict, one.finding.setting)
        };
        let first = "/dev/sda2 partition 9 0 -2\n/dev/zram0 partition 9 8 100\n";
        assert_eq!(swap(first), (Health::Good, None));
        assert_eq!(swap("/dev/zram0 partition 9 8 -2\n"), (Health::Good, None));
        for used in [0, 8] {
            let last = format!("/dev/sda2 partition 9 {used} -2\n/dev/zram0 partition 9 0 -3\n");
            let setting = "swapoff /dev/zram0 && swapon -p 100 /dev/zram0";
            assert_eq!(swap(&last), (Health::Poor, Some(setting.to_owned())));
        }
        let beside = "/dev/zram0 partition 9 0 200\n/dev/zram1 partition 9 0 100\n\
                      /dev/zram2 partition 9 0 5\n/var/zram.swap file 9 0 100\n";
        let setting = "swapoff /dev/zram1 && swapon -p 101 /dev/zram1 && \
                       swapoff /dev/zram2 && swapon -p 101 /dev/zram2";
        assert_eq!(swap(beside), (Health::Poor, Some(setting.to_owned())));
        // Nothing gets above the highest priority that there is.
        let lowered = "swapoff /dev/sda2 && swapon /dev/sda2";
        for zram in [100, 32767] {
            let rows = format!(
                "/dev/sda2 partition 9 8 32767\n/dev/zram0 partition 9 0 {zram}\n\
                 /dev/sdb partition 9 0 5\n"
            );
            assert_eq!(swap(&rows), (Health::Poor, Some(lowered.to_owned())));
        }
        let both = "/dev/sda2 partition 9 0 32767\n/dev/sdb partition 9 0 32766\n\
                    /dev/zram0 partition 9 0 100\n";
        let setting = format!("swapoff /dev/zram0 && swapon -p 32767 /dev/zram0 && {lowered}");
        assert_eq!(swap(both), (Health::Poor, Some(setting)));
        let alone = swap("/dev/sda2 partition 9 8 32767\n").1.expect("it is poor");
        assert!(alone.ends_with(&format!("swapon -p 100 $z && {lowered}")), "{alone}");
    }

    #[test]
    fn names_of_areas_are_quoted_for_a_shell() {
        let swaps = "Filename Type Size Used Priority\n/mnt/my\\040disk/swap file 9 0 32767\n\
                     /dev/zram0 partition 9 0 32767\n";
        let (_root, one) = found("swap", &[("proc/swaps", swaps)], Facts::ordinary());
        let setting = "swapoff '/mnt/my disk/swap' && swapon '/mnt/my disk/swap'";
        assert_eq!(one.finding.setting.as_deref(), Some(setting));
    }

    #[test]
    fn what_zswap_holds_is_not_waited_for() {
        let verdict = |zswap: &str, zswapped: &str| {
            let swaps = "Filename Type Size Used Priority\n/swap file 90000 4096 -2\n";
            let meminfo = format!("MemTotal: 9 kB\nZswap: 100 kB\nZswapped:       {zswapped} kB\n");
            let files = [
                ("proc/swaps", swaps),
                ("proc/meminfo", &meminfo),
                ("sys/module/zswap/parameters/enabled", zswap),
            ];
            found("swap", &files, Facts::ordinary()).1.finding.verdict
        };
        assert_eq!(verdict("Y\n", "4096"), Health::Good);
        assert_eq!(verdict("Y\n", "1024"), Health::Poor, "most of it is on the disk");
        assert_eq!(verdict("N\n", "4096"), Health::Poor, "it is off");
        assert_eq!(verdict("Y\n", "0"), Health::Poor);
    }

    #[test]
    fn a_pool_that_is_used_up_is_named_by_its_own_file() {
        let mut facts = Facts::ordinary();
        let (page_bytes, total_pages, free_pages) = (1 << 30, 4, 0);
        facts.memory.huge_pools =
            vec![bytepath::machine::HugePool { page_bytes, total_pages, free_pages }];
        let (_root, one) = found("hugetlb", &[], facts);
        let file = "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages";
        let setting = one.finding.setting;
        assert_eq!(setting, Some(format!("echo N > {file}, with N above 4")));
    }

    #[test]
    fn a_window_that_is_too_small_is_made_larger_and_the_other_left_alone() {
        let (read, write) = ("proc/sys/net/ipv4/tcp_rmem", "proc/sys/net/ipv4/tcp_wmem");
        let files = [(read, "4096\t131072\t33554432\n"), (write, "8192\t32768\t2097152\n")];
        let (root, one) = found("tcp-window", &files, Facts::ordinary());
        let setting = one.finding.setting.as_deref();
        assert_eq!(setting, Some("sysctl -w net.ipv4.tcp_wmem='8192 32768 4194304'"));
        let change = one.change.expect("it can be changed");
        assert_eq!(change.steps(), "8192 32768 2097152 to 8192 32768 4194304");
        change.apply("tcp-window").expect("it is written");
        let held = |file| fs::read_to_string(root.path().join(file)).expect("a file");
        assert_eq!(held(read), files[0].1);
        assert_eq!(held(write), "8192 32768 4194304");
    }

    #[test]
    fn a_kernel_without_huge_pages_is_told_from_one_that_cannot_be_asked() {
        let (hidden, without) = (told(&[]), told(&[("sys/kernel/mm/ksm/run", "0\n")]));
        let machine =
            Machine::from_facts(Facts { memory: Default::default(), ..Facts::ordinary() });
        for (root, verdict) in [(hidden, Health::Unknown), (without, Health::Poor)] {
            let place = root.path();
            let here = Here { root: place, machine: &machine, profile: None, place };
            assert_eq!(memory::transparent(&here).finding.verdict, verdict);
        }
    }

    #[test]
    fn small_pipes_and_no_huge_pages_are_poor_and_can_be_changed() {
        let root = told(&[
            ("proc/sys/fs/pipe-max-size", "65536\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n"),
        ]);
        let mut facts = Facts::ordinary();
        facts.pipes.largest_bytes = Some(64 << 10);
        facts.memory.thp_enabled = Some("never".to_owned());
        let machine = Machine::from_facts(facts);
        let here = Here { root: root.path(), machine: &machine, profile: None, place: root.path() };
        let found = examine(&here);
        for (name, file, to) in [
            ("pipe-size", "proc/sys/fs/pipe-max-size", "1048576"),
            ("thp", "sys/kernel/mm/transparent_hugepage/enabled", "madvise"),
        ] {
            let one = found.iter().find(|one| one.finding.name == name).expect("it is looked at");
            assert_eq!(one.finding.verdict, Health::Poor, "{one:?}");
            let applied = one.change.as_ref().expect("it can be changed").apply(name);
            let applied = applied.expect("it is written");
            assert_eq!(fs::read_to_string(root.path().join(file)).expect("a file"), to);
            assert_eq!(applied[0].to, to);
        }
    }
}
