//! How large pipes may be, how much memory may be locked, how many files may be open.

use std::path::PathBuf;

use bytepath::machine::Capability;
use bytepath::profile::{End, Profile};
use bytepath_report::numbers;

use super::change::commands;
use super::{Change, Examined, Here, bytes};

/// The size of pipes that movers ask for.
const PIPE_BYTES_WANTED: usize = 1 << 20;
/// What a new pipe holds unless the user's budget is spent.
const PIPE_BYTES_USUAL: usize = 64 << 10;
/// Enough for the rings' buffers and for locked pages of a few movers.
const LOCKED_BYTES_WANTED: u64 = 8 << 20;
const FILES_WANTED: u64 = 4096;
const PIPE_MAX_SIZE: &str = "proc/sys/fs/pipe-max-size";
const PIPE_BUDGET: &str = "proc/sys/fs/pipe-user-pages-soft";

pub(super) fn examine(here: &Here<'_>) -> Vec<Examined> {
    vec![size(here), budget(here), locked(here), files(here)]
}

pub(super) fn size(here: &Here<'_>) -> Examined {
    let name = "pipe-size";
    let Some(largest) = here.machine.pipes().largest_bytes else {
        return Examined::unknown(name, "the kernel gives no pipe to try it with");
    };
    let found = format!("pipes of at most {}", bytes(largest as u64));
    let limit = here.number::<usize>(PIPE_MAX_SIZE);
    // Where the limit is high enough, it is the user's budget that may be spent.
    let (file, to) = match limit {
        Some(PIPE_BYTES_WANTED..) => (PIPE_BUDGET, 0),
        _ => (PIPE_MAX_SIZE, PIPE_BYTES_WANTED),
    };
    let set = [(PathBuf::from(file), to.to_string())];
    if largest >= PIPE_BYTES_WANTED {
        // Others may be bound by what does not bind this user.
        let change = Change::of(here.root, &set).filter(Change::changes_something);
        return Examined::good(name, found, "larger pipes mean fewer sleeps and wake-ups")
            .changed_by(change);
    }
    let gain = here
        .measured()
        .and_then(pipe_gain)
        .map(|gain| format!("larger ones gained {}", numbers::ratio(gain)));
    Examined::poor(name, found, "each end sleeps and is woken more often than it would have to")
        .costs(gain)
        .by(commands(&set))
        .changed_by(Change::of(here.root, &set))
}

fn budget(here: &Here<'_>) -> Examined {
    let name = "pipe-budget";
    let pipes = here.machine.pipes();
    let Some(default) = pipes.default_bytes else {
        return Examined::unknown(name, "the kernel gives no pipe to try it with");
    };
    let limit = pipes.user_pages_soft.map_or("not told".to_owned(), |pages| match pages {
        0 => "no limit".to_owned(),
        pages => format!("{pages} pages for each user"),
    });
    if default >= PIPE_BYTES_USUAL {
        let why = "new pipes have their usual size: the budget is not spent";
        let change = here.change(PIPE_BUDGET, 0).filter(Change::changes_something);
        return Examined::good(name, limit, why).changed_by(change);
    }
    let found = format!("new pipes hold {}, {limit}", bytes(default as u64));
    Examined::poor(name, found, "this user's pipes have used up what there is for all of them")
        .by("sysctl -w fs.pipe-user-pages-soft=0")
        .changed_by(here.change(PIPE_BUDGET, 0))
}

fn locked(here: &Here<'_>) -> Examined {
    let name = "memlock";
    let limit = here.machine.limits().locked_memory_bytes;
    if here.machine.user().capabilities.has(Capability::IpcLock) {
        return Examined::good(
            name,
            "no limit (CAP_IPC_LOCK)",
            "buffers of rings are locked memory",
        );
    }
    match limit.soft {
        Some(soft) if soft < LOCKED_BYTES_WANTED => {
            let why = "rings register buffers as locked memory, and many kernels charge rings \
                       themselves to it";
            let remedy = Raised {
                option: "-l",
                item: "memlock",
                value: LOCKED_BYTES_WANTED >> 10,
                service: "LimitMEMLOCK=8M",
                fits_hard: limit.hard.is_none_or(|hard| hard >= LOCKED_BYTES_WANTED),
            };
            Examined::poor(name, format!("at most {}", bytes(soft)), why).by(remedy.of(here))
        }
        soft => {
            let found =
                soft.map_or("no limit".to_owned(), |soft| format!("at most {}", bytes(soft)));
            Examined::good(name, found, "buffers of rings are locked memory")
        }
    }
}

fn files(here: &Here<'_>) -> Examined {
    let name = "open-files";
    let limit = here.machine.limits().open_files;
    let most = limit.hard.unwrap_or(u64::MAX);
    let found = match limit.soft {
        Some(soft) => format!("{soft}, may be raised to {most}"),
        None => "no limit".to_owned(),
    };
    if most >= FILES_WANTED {
        return Examined::good(name, found, "bytepath raises it for itself where it needs more");
    }
    let remedy = Raised {
        option: "-n",
        item: "nofile",
        value: FILES_WANTED,
        service: "LimitNOFILE=4096",
        fits_hard: false,
    };
    Examined::poor(name, found, "copies by many threads keep several files open each")
        .by(remedy.of(here))
}

/// A limit of a process that is to be higher.
struct Raised {
    /// Of `ulimit`.
    option: &'static str,
    /// In /etc/security/limits.conf.
    item: &'static str,
    /// As both write it.
    value: u64,
    /// In a service of systemd.
    service: &'static str,
    /// Whether the hard limit allows it already.
    fits_hard: bool,
}

impl Raised {
    /// What works for this user: only root raises hard limits, and -S leaves one as high as it is.
    fn of(&self, here: &Here<'_>) -> String {
        let Raised { option, item, value, service, fits_hard } = self;
        let shell = match fits_hard {
            true => format!("ulimit -S {option} {value}, or "),
            false if here.machine.user().capabilities.has(Capability::SysResource) => {
                format!("ulimit {option} {value}, or ")
            }
            false => String::new(),
        };
        format!(
            "{shell}a line `* - {item} {value}` in /etc/security/limits.conf and a new login, or \
             {service} of the service"
        )
    }
}

/// What larger pipes gained over those of the usual size, between two pipes.
fn pipe_gain(profile: &Profile) -> Option<f64> {
    let pair =
        profile.pairs.iter().find(|pair| (pair.source, pair.sink) == (End::Pipe, End::Pipe))?;
    let large = pair.best(|choice| choice.pipe_bytes.is_some())?;
    let usual = pair.best(|choice| choice.pipe_bytes.is_none())?;
    Some(large.overall_gib_per_s / usual.overall_gib_per_s)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use bytepath::machine::{Facts, Limit, Machine};

    use super::*;

    #[test]
    fn what_larger_pipes_gained_is_what_tune_tells_and_nothing_where_others_disturbed_it() {
        let mut facts = Facts::ordinary();
        facts.pipes.largest_bytes = Some(64 << 10);
        let machine = Machine::from_facts(facts);
        let choice = |pipe_bytes: Option<usize>, median: f64, overall: f64| {
            serde_json::json!({
                "route": "splice", "pipe_bytes": pipe_bytes, "gib_per_s": median, "ci95": null,
                "overall_gib_per_s": overall, "cpu_s_per_gib": 0.1,
            })
        };
        let choices = [choice(Some(1 << 20), 9.0, 6.0), choice(None, 1.0, 2.0)];
        let mut profile: Profile = serde_json::from_value(serde_json::json!({
            "schema": "bytepath.profile/1", "made": "now", "bytepath": "0.1.0",
            "machine": bytepath::profile::MachineKey::of(&machine),
            "pairs": [{ "source": "pipe", "sink": "pipe", "choices": choices }],
        }))
        .expect("a profile");
        let cost = |profile: &Profile| {
            let root = Path::new("/");
            size(&Here { root, machine: &machine, profile: Some(profile), place: root })
                .finding
                .cost
        };
        assert_eq!(cost(&profile).as_deref(), Some("larger ones gained 3.00x"));
        profile.disturbed = Some("others worked".into());
        assert_eq!(cost(&profile), None);
    }

    #[test]
    fn a_limit_is_raised_by_what_works_for_whom_it_binds() {
        let settings = |hard: u64, capabilities: u64| {
            let mut facts = Facts::ordinary();
            facts.user.capabilities.0 = capabilities;
            facts.limits.open_files = Limit { soft: Some(64), hard: Some(hard.min(64)) };
            facts.limits.locked_memory_bytes = Limit { soft: Some(64 << 10), hard: Some(hard) };
            let machine = Machine::from_facts(facts);
            let root = Path::new("/");
            let here = Here { root, machine: &machine, profile: None, place: root };
            [locked(&here), files(&here)].map(|one| one.finding.setting.expect("it is poor"))
        };
        let begin = |hard, capabilities, begins: [&str; 2]| {
            let told = settings(hard, capabilities);
            let is_so = told.iter().zip(begins).all(|(told, begin)| told.starts_with(begin));
            assert!(is_so, "{told:?} {begins:?}");
        };
        let (memory, files) = ("a line `* - memlock 8192`", "a line `* - nofile 4096`");
        begin(64 << 10, 0, [memory, files]);
        begin(64 << 10, 1 << 24, ["ulimit -l 8192, or", "ulimit -n 4096, or"]);
        begin(1 << 30, 0, ["ulimit -S -l 8192, or", files]);
    }
}
