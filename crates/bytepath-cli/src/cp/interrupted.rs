//! SIGINT, SIGQUIT, SIGTERM and SIGHUP during a copying that takes long: how far it came is told, and then the
//! signal ends the program, as whoever sent it expects. A shell goes on with its script after a
//! program that was interrupted and ends well; so one that came before all was copied always ends
//! it.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};

use bytepath_report::numbers;
use signal_hook::flag::register_usize;

use super::hand::Hand;
use super::resume::contradiction;
use super::settings::{Backup, Existing, Make, Settings};
use super::shared::Shared;
use super::stopping::PATIENCE;
use super::voice::q;
use crate::ending::{self, BY_SIGNAL};
use crate::sys::actions::{Quiet, heeded};

/// Files that are named, at most: as many as a line can hold, or so.
const NAMED_MAX: usize = 4;

/// What signals do.
#[derive(Default)]
pub(super) struct Interrupts {
    /// The signal that came, or 0.
    came: Arc<AtomicUsize>,
    /// Whether it is being told how far it came: should nobody read that, the next signal ends it.
    ending: Arc<AtomicBool>,
    /// Whether all was gone through: each ends it at once, as nobody looks for one any more, nor tells of it.
    over: Arc<AtomicBool>,
}

/// How far it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reached {
    Midway,
    /// All was gone through.
    End,
}

impl Interrupts {
    /// Catches them from now on; somebody has to look whether one came. Those that were ignored when the
    /// program was started stay so. Whether none ends it any more as it always did.
    pub(super) fn catch(&self) -> bool {
        let _quiet = Quiet::begin();
        let mut all = true;
        for signal in heeded() {
            let number = signal.unsigned_abs() as usize;
            // What is registered first is done first.
            let caught = ending::by_signal_while(signal, self.ending.clone())
                .and_then(|()| register_usize(signal, self.came.clone(), number))
                // One that comes while this is set is seen by the last look, or ends it here.
                .and_then(|_| ending::by_signal_while(signal, self.over.clone()));
            if caught.is_ok() {
                crate::metrics::answers(&[signal]);
            }
            all &= caught.is_ok();
        }
        all
    }

    /// Where one came, tells how far it came, and ends the program.
    pub(super) fn heed(&self, shared: &Shared<'_>, reached: Reached) {
        let came = i32::try_from(self.came.load(SeqCst)).ok().filter(|signal| *signal != 0);
        if let Some(signal) = came {
            self.ending.store(true, Relaxed);
            end(shared, signal, reached);
        }
    }

    /// Looks for the last time: all was gone through.
    pub(super) fn heed_last(&self, shared: &Shared<'_>) {
        match crate::metrics::answers_no_more() {
            // Whoever tells how far the job is ends it by one that comes from now on, and tells that too.
            Some(came) => _ = self.came.fetch_max(came, SeqCst),
            None => self.over.store(true, SeqCst),
        }
        self.heed(shared, Reached::End);
    }
}

fn end(shared: &Shared<'_>, signal: i32, reached: Reached) -> ! {
    // Whoever does not read what is said now does not keep the signal from ending it.
    let _ = std::thread::Builder::new().spawn(move || {
        std::thread::sleep(2 * PATIENCE);
        crate::metrics::ended_by(signal);
        ending::by_signal(signal);
    });
    shared.tally.stopping.stop();
    let (files, bytes) = shared.tally.copied();
    let (at, bytes) = (at(&shared.tally.hands), numbers::bytes(bytes));
    let advice = advice(shared, reached);
    let files = numbers::counted(files, "file");
    let what = format!("interrupted after {files}, {bytes}{at}: {advice}");
    shared.voice.say_last(what, &shared.tally.hands);
    let _ = shared.voice.flush();
    super::passing::remove_unfinished();
    // What cannot be written now is not worth another message.
    let _ = shared.voice.ledger.close(u8::try_from(BY_SIGNAL + signal).unwrap_or(u8::MAX));
    crate::metrics::ended_by(signal);
    ending::by_signal(signal)
}

/// Which files are being copied, and how far.
fn at(hands: &[Hand]) -> String {
    let held: Vec<_> = hands.iter().filter_map(Hand::holds).collect();
    let named = held.iter().take(NAMED_MAX);
    let mut text: String =
        named.map(|(name, offset)| format!(", at byte {offset} of {}", q(name))).collect();
    if held.len() > NAMED_MAX {
        text.push_str(&format!(" and in {} more", held.len() - NAMED_MAX));
    }
    text
}

fn advice(shared: &Shared<'_>, reached: Reached) -> &'static str {
    let anew = shared.tally.hands.iter().any(Hand::begins_anew);
    if reached == Reached::End {
        return "that was all";
    }
    match shared.settings.make {
        Make::Copy => {}
        _ if goes_on(shared.settings) => return "not all is done; the same command goes on",
        _ => return "not all is done",
    }
    match (shared.extras.atomic, shared.extras.resume) {
        (false, _) if anew => "what was being copied is not whole; what is no file begins anew",
        (true, true) if anew => "no name stands for half a file; what is no file begins anew",
        (true, false) => "no name stands for half a file",
        (true, true) => "no name stands for half a file; the same command goes on",
        (false, true) => "what was being copied is not whole; the same command goes on",
        (false, false) if contradiction(shared.settings).is_some() => {
            "what was being copied is not whole"
        }
        (false, false) => "what was being copied is not whole; --resume goes on",
    }
}

/// Whether the same command does what is left of links, or of attributes: of copies, `--resume` does.
fn goes_on(settings: &Settings) -> bool {
    match settings.make {
        Make::HardLink => settings.existing != Existing::Refuse,
        // What has no attributes yet is there, and newer than its source.
        Make::Attributes => {
            matches!(settings.existing, Existing::Overwrite | Existing::Ask)
                && settings.backup == Backup::None
                && !settings.update
        }
        // A link that is there is in the way of the same link.
        Make::SymbolicLink | Make::Copy => false,
    }
}
