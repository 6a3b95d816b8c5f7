//! How large pipes may be, how much memory may be locked, how many files may be open.

use bytepath::machine::Capability;
use bytepath::profile::{End, Profile};
use bytepath_report::numbers;

use super::{Examined, Here, bytes};

/// The size of pipes that movers ask for.
const PIPE_BYTES_WANTED: usize = 1 << 20;
/// What a new pipe holds unless the user's budget is spent.
const PIPE_BYTES_USUAL: usize = 64 << 10;
/// Enough for the rings' buffers and for locked pages of a few movers.
const LOCKED_BYTES_WANTED: u64 = 8 << 20;
const FILES_WANTED: u64 = 4096;

pub(super) fn examine(here: &Here<'_>) -> Vec<Examined> {
    vec![size(here), budget(here), locked(here), files(here)]
}

pub(super) fn size(here: &Here<'_>) -> Examined {
    let name = "pipe-size";
    let Some(largest) = here.machine.pipes().largest_bytes else {
        return Examined::unknown(name, "the kernel gives no pipe to try it with");
    };
    let found = format!("pipes of at most {}", bytes(largest as u64));
    let change = |is_below: bool| {
        is_below.then(|| here.change("proc/sys/fs/pipe-max-size", PIPE_BYTES_WANTED)).flatten()
    };
    if largest >= PIPE_BYTES_WANTED {
        // Others may be bound by what does not bind this user.
        let of_others = here.number::<usize>("proc/sys/fs/pipe-max-size");
        return Examined::good(name, found, "larger pipes mean fewer sleeps and wake-ups")
            .changed_by(change(of_others.is_some_and(|bytes| bytes < PIPE_BYTES_WANTED)));
    }
    let gain = here
        .profile
        .and_then(pipe_gain)
        .map(|gain| format!("larger ones gained {}", numbers::ratio(gain)));
    Examined::poor(name, found, "each end sleeps and is woken more often than it would have to")
        .costs(gain)
        .by(format!("sysctl -w fs.pipe-max-size={PIPE_BYTES_WANTED} (and fs.pipe-user-pages-soft)"))
        .changed_by(change(true))
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
        let change = here.change("proc/sys/fs/pipe-user-pages-soft", 0);
        let is_limited = pipes.user_pages_soft.is_some_and(|pages| pages > 0);
        return Examined::good(name, limit, why).changed_by(change.filter(|_| is_limited));
    }
    let found = format!("new pipes hold {}, {limit}", bytes(default as u64));
    Examined::poor(name, found, "this user's pipes have used up what there is for all of them")
        .by("sysctl -w fs.pipe-user-pages-soft=0")
        .changed_by(here.change("proc/sys/fs/pipe-user-pages-soft", 0))
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
            let why = "rings register buffers as locked memory, and before Linux 5.12 rings \
                       themselves were charged to it";
            Examined::poor(name, format!("at most {}", bytes(soft)), why).by(format!(
                "ulimit -l {}, or a line `* - memlock {0}` in /etc/security/limits.conf, or \
                 LimitMEMLOCK= of the service",
                LOCKED_BYTES_WANTED >> 10
            ))
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
    Examined::poor(name, found, "copies by many threads keep several files open each")
        .by(format!("ulimit -n {FILES_WANTED}, or LimitNOFILE= of the service"))
}

/// What pipes of 256 KiB gained over those of the usual size, between two pipes.
fn pipe_gain(profile: &Profile) -> Option<f64> {
    let pair =
        profile.pairs.iter().find(|pair| (pair.source, pair.sink) == (End::Pipe, End::Pipe))?;
    let large = pair.best(|choice| choice.pipe_bytes.is_some())?;
    let usual = pair.best(|choice| choice.pipe_bytes.is_none())?;
    Some(large.gib_per_s / usual.gib_per_s)
}
