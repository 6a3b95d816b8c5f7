//! How far the copying is: files, bytes, the recent rate and at the end that of all, the time left;
//! as a line that is drawn again and again, or when SIGUSR1 asks for it.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytepath_report::numbers;
use rustix::fs::{AtFlags, CWD, Mode};

use super::crew;
use super::extras::Progress;
use super::hand::Rereading;
use super::interrupted::{Interrupts, Reached};
use super::place::is_directory;
use super::settings::Settings;
use super::shared::{Shared, Watch};
use super::tally::{Holes, TO_LOOK, Tally, Total};
use crate::live::{self, EVERY, Lines, Rate};

/// Nobody asks how far a copying is that is over before this.
const ANSWERS_AFTER: Duration = Duration::from_millis(50);

/// Does the work, and shows how far it is if that is wanted, or if it takes long and somebody asks.
pub(super) fn watched(
    shared: &Shared<'_>,
    (sources, holes): (&[OsString], Holes),
    work: impl FnOnce(&Shared<'_>),
) {
    let settings = shared.settings;
    let asked = Arc::new(AtomicBool::new(false));
    // Where handlers are refused, the signal ends the program as it always did.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGUSR1, asked.clone());
    let (total, interrupts) = (&shared.tally.total, &Interrupts::default());
    let asked = &*asked;
    let (watching, began) = (OnceLock::new(), Instant::now());
    std::thread::scope(|scope| {
        // Many copyings are over before a thread has begun.
        let begin = || {
            watching.get_or_init(|| {
                if settings.recursive || shared.tally.hands.len() > 1 {
                    crew::make_room();
                }
                let (done, over) = channel::<()>();
                let rate = Rate::since(began);
                let watch = move || watch(shared, (total, rate), (asked, interrupts), &over);
                let watches = std::thread::Builder::new().spawn_scoped(scope, watch);
                if let (Err(error), Some(_)) = (&watches, shared.extras.progress) {
                    shared.voice.warn(live::unseen(error));
                }
                let watches = watches.is_ok();
                shared.tally.watched.store(watches && interrupts.catch(), Relaxed);
                done
            });
        };
        let watch = Watch::new(&begin);
        let watched = Shared { watch: Some(&watch), ..*shared };
        if shared.extras.takes_long() {
            watched.takes_long();
        }
        if shared.is_counted() {
            let count = move || count_all(sources, (settings, holes), total);
            let _ = std::thread::Builder::new().spawn_scoped(scope, count);
        }
        work(&watched);
        total.over.store(true, Relaxed);
        drop(watching);
    });
}

fn watch(
    shared: &Shared<'_>,
    (total, mut rate): (&Total, Rate),
    (asked, interrupts): (&AtomicBool, &Interrupts),
    over: &std::sync::mpsc::Receiver<()>,
) {
    let (tally, progress) = (shared.tally, shared.extras.progress);
    let draws = progress.is_some();
    let bytes = || match progress {
        Some(Progress::Durable) => tally.durable_bytes.load(Relaxed),
        _ => tally.bytes(),
    };
    let mut lines = Lines::new();
    let (mut every, mut left_out) = (ANSWERS_AFTER, Duration::ZERO);
    loop {
        let ended = over.recv_timeout(every) == Err(RecvTimeoutError::Disconnected);
        if !ended {
            interrupts.heed(shared, Reached::Midway);
        }
        every = if draws { EVERY } else { ANSWERS_AFTER };
        // Nothing is drawn over a question, and the time until its answer is not that of the copying.
        let Some(questions) = shared.voice.unless_asking() else { continue };
        rate.leaves_out(questions.waited - left_out);
        left_out = questions.waited;
        let bytes = bytes();
        // What an earlier run copied is there at once.
        let bytes_moved = bytes.saturating_sub(tally.bytes_kept());
        let again = tally.rereading().filter(|_| !ended);
        match again {
            _ if ended => rate.ended(bytes_moved),
            Some((_, true)) => rate.rests(bytes_moved),
            _ => rate.look(bytes_moved),
        }
        let asked = asked.swap(false, Relaxed);
        // Somebody who does not read it must not keep a signal from being heeded.
        while ended && draws && !live::is_heard(ANSWERS_AFTER) {
            interrupts.heed(shared, Reached::End);
        }
        if (asked || draws) && live::is_heard(Duration::ZERO) {
            let text = text((tally, bytes), (total, again), &rate, ended);
            lines.draw(&text, !draws || ended);
        }
        if ended {
            // The counting may take longer, and so may whoever reads what was held back.
            return interrupts.heed_last(shared);
        }
    }
}

fn text(
    (tally, bytes): (&Tally, u64),
    (total, again): (&Total, Option<(Rereading, bool)>),
    rate: &Rate,
    ended: bool,
) -> String {
    let files = tally.files();
    let (skipped_files, skipped_bytes) = total.skipped.so_far();
    let per_second = rate.per_second();
    let speed = rate.shown();
    let again_shown = again.map_or(String::new(), |(again, _)| again.shown());
    match total.known().filter(|_| !ended) {
        Some((all_files, all_bytes)) => {
            // What is skipped is done with; its bytes took no time, so the rate is of the others.
            let (files, bytes) = (files + skipped_files, bytes + skipped_bytes);
            let (all_files, all_bytes) = (counted(all_files.max(files)), all_bytes.max(bytes));
            // How long files are read again, nobody knows, and nothing is copied meanwhile.
            let left = match again {
                Some((_, true)) => String::new(),
                _ => {
                    let left = time_left(all_bytes - bytes, per_second, skipped_files);
                    format!(", {left} left")
                }
            };
            format!(
                "{files} of {all_files}, {} of {}{speed}{left}{again_shown}",
                numbers::bytes(bytes),
                numbers::bytes(all_bytes)
            )
        }
        None => {
            let skipped = match skipped_files {
                0 => String::new(),
                files => format!("; {} skipped", counted(files)),
            };
            let (files, bytes) = (counted(files), numbers::bytes(bytes));
            format!("{files}, {bytes}{speed}{skipped}{again_shown}")
        }
    }
}

/// So many files, in words.
pub(super) fn counted(files: u64) -> String {
    numbers::counted(files, "file")
}

/// How long so many bytes take, as far as that can be told.
fn time_left(bytes: u64, per_second: Option<f64>, skipped_files: u64) -> String {
    let Some(per_second) = per_second.filter(|rate| *rate >= 1.0) else { return "?".to_owned() };
    let time = clock(bytes as f64 / per_second);
    // More may be skipped of what is left.
    if skipped_files > 0 { format!("about {time} or less") } else { time }
}

fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    match hours {
        0 => format!("{minutes}:{:02}", seconds % 60),
        hours => format!("{hours}:{minutes:02}:{:02}", seconds % 60),
    }
}

/// Counts what there is to copy, beside the copying. It is for people: what changes meanwhile, or
/// cannot be read, makes it wrong by as much.
fn count_all(sources: &[OsString], how: (&Settings, Holes), total: &Total) {
    for source in sources {
        count(Path::new(source), how, None, total);
    }
    total.complete.store(!total.over.load(Relaxed), Relaxed);
}

/// Counts what is there and below; nothing on another device than the one that is left, if one is.
fn count(path: &Path, how: (&Settings, Holes), above: Option<u64>, total: &Total) {
    let (settings, _) = how;
    let named = above.is_none();
    let follow = if settings.follows(named) { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    let Ok(stat) = rustix::fs::statat(CWD, path, follow) else { return };
    if settings.one_file_system && above.is_some_and(|above| above != stat.st_dev) {
        return;
    }
    total.found.add((&stat, named), how, || rustix::fs::open(path, TO_LOOK, Mode::empty()));
    // A symbolic link that is followed may lead in a circle, for which the names get too long.
    if !is_directory(&stat) || !settings.recursive || total.over.load(Relaxed) {
        return;
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    // Directories are gone into once this one is closed: a level each would hold one open.
    let follows = settings.follows(false);
    let is_entered = |kind: std::fs::FileType| kind.is_dir() || (follows && kind.is_symlink());
    let below = |path: &Path| count(path, how, Some(stat.st_dev), total);
    let mut later = Vec::new();
    for entry in entries {
        match entry.file_type().is_ok_and(is_entered) {
            true => later.push(entry.path()),
            false => below(&entry.path()),
        }
    }
    later.iter().for_each(|path| below(path));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_bounded_where_it_is_known_and_files_are_skipped() {
        assert_eq!(time_left(1000, Some(10.0), 0), "1:40");
        assert_eq!(time_left(1000, Some(10.0), 1), "about 1:40 or less");
        assert_eq!(time_left(1000, Some(0.5), 1), "?");
        assert_eq!(time_left(1000, None, 0), "?");
    }
}
