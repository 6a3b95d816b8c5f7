//! Waits for what was started, and meanwhile looks at it, places it, and passes signals on.

use std::time::{Duration, Instant};

use bytepath::machine::CpuList;
use rustix::process::{Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGQUIT};

use super::below::{ALL, Below};
use super::family::Family;
use super::live::Live;
use super::placing::Placer;
use super::process::{self, Got};
use super::quota::Quotas;
use super::signals::{Signals, is_passed_on};
use super::stages::{End, Stages};
use crate::live::is_heard;
use crate::said::say;

/// What is looked at, and how.
pub(super) struct Watched {
    pub(super) stages: Stages,
    /// Who is ours. None where /proc tells nothing.
    pub(super) below: Option<Below>,
    /// None where nobody wants to know, or /proc tells nothing.
    pub(super) family: Option<Family>,
    /// Makes the one who places; None where nobody is placed.
    pub(super) places: Option<fn(&CpuList) -> Placer>,
    /// Made at the first look: what is over before that is not to wait until the machine is known.
    pub(super) placer: Option<Placer>,
    /// Whether anybody is told what the stages were in the end.
    pub(super) tells_ends: bool,
    /// Whether a shell runs it as it is: its pipes are still to be found, and its end is the whole's.
    pub(super) is_whole: bool,
    /// Whether a stage that failed counts, and not the last alone.
    pub(super) pipefail: bool,
    /// Whether somebody asked for a size of pipes, and was not told yet that it was refused.
    pub(super) tells_refusal: bool,
    /// What was decided, and when.
    pub(super) decisions: Vec<(Duration, String)>,
    pub(super) began: Instant,
    /// Of CPU, as they stood then. None where nobody wants to know.
    pub(super) quotas: Option<Quotas>,
    pub(super) looks: u32,
    /// A signal that asked for the end.
    pub(super) ended_by: Option<i32>,
    /// When that one came which was passed on.
    pub(super) passed_on: Option<(i32, Instant)>,
    /// Whether a signal was passed on, to those who had not got it.
    pub(super) has_passed_on: bool,
    /// Whether a stage has ended behind a key that interrupts, and not by it: it had its own answer.
    pub(super) interrupt_was_answered: bool,
    /// Draws, after each look.
    pub(super) live: Option<Live>,
    /// Tells whoever asked with --metrics, after each look.
    pub(super) measured: Option<super::measured::Measured>,
}

/// A shell's first pipes appear within a few milliseconds.
const FIRST_LOOKS_MS: [u64; 5] = [1, 2, 4, 8, 15];
/// What is there from the start has begun its work by then.
const FIRST_LOOK_MS: u64 = 15;
/// With nobody to be placed.
const USUAL_WINDOW: Duration = Duration::from_millis(100);
/// While all of them sleep, at the least.
const RESTING_WINDOW: Duration = Duration::from_millis(250);
/// Who sends a signal to a whole group comes to all of it within this, and timeout(1) sends one to us
/// first.
const GROUP_HAS_IT_AFTER: Duration = Duration::from_millis(10);
/// Who ends by it has done so after so many times that.
const GROUP_ENDS_AFTER: u32 = 10;
/// Who has not got it in so many looks does not get it: the kernel tells one after the other.
const GROUP_GETS_IT_AFTER: u32 = 3;

impl Watched {
    /// Comes back when everything that was started has ended.
    pub(super) fn watch(&mut self, signals: &mut Signals) {
        let early: &[u64] = if self.is_whole { &FIRST_LOOKS_MS } else { &[FIRST_LOOK_MS] };
        let mut early = early.iter().copied().map(Duration::from_millis);
        self.tell_refusal();
        let mut next_look =
            early.next().filter(|_| self.family.is_some()).map(|first| self.began + first);
        loop {
            // News of children that come after this wake the wait below.
            self.answer(signals);
            self.reap();
            if self.stages.have_ended() {
                // The signal that ended them may have come just before.
                self.answer(signals);
                self.family.iter_mut().for_each(Family::let_go);
                return;
            }
            signals.wait(next_look);
            if signals.went_on() {
                self.stood_still(next_look);
            }
            if next_look.is_some_and(|look| Instant::now() >= look) {
                let window = self.look();
                self.tell_refusal();
                next_look = Some(Instant::now() + early.next().unwrap_or(window));
            }
        }
    }

    /// Until now, since the look that was to be; the others may have been stopped with us.
    fn stood_still(&mut self, next_look: Option<Instant>) {
        if let Some((family, look)) = self.family.as_mut().zip(next_look)
            && self.stages.were_stopped()
        {
            family.stood_still(look.elapsed());
        }
    }

    /// Says why a pipe is not as large as was asked for, once, and not while nobody hears it: signals are to
    /// be answered.
    fn tell_refusal(&mut self) {
        if !self.tells_refusal || !is_heard(Duration::ZERO) {
            return;
        }
        let joints = self.family.iter().flat_map(|family| family.joints.values());
        let refused = joints.filter_map(|joint| joint.refused.as_ref());
        if let Some(why) = self.stages.said.iter().chain(refused).next() {
            // They are drawn anew behind it.
            self.live.iter_mut().for_each(Live::end);
            say(format_args!("bytepath: {why}"));
            self.tells_refusal = false;
        }
    }

    fn reap(&mut self) {
        let otherwise = |stages: &Stages| stages.ended_but_by(SIGINT);
        let before = otherwise(&self.stages);
        self.stages.reap(self.family.as_mut().filter(|_| self.tells_ends));
        self.interrupt_was_answered |=
            self.ended_by == Some(SIGINT) && otherwise(&self.stages) > before;
    }

    /// Tells how far it is now.
    pub(super) fn measure(&self) {
        if let (Some(family), Some(measured)) = (&self.family, &self.measured) {
            measured.take(family, &self.stages, self.is_whole);
        }
    }

    /// Looks, and gives the time until the next look.
    fn look(&mut self) -> Duration {
        // Until now they were without us.
        self.stages.were_stopped();
        let window = self.look_and_place();
        let rests = self.family.as_ref().is_some_and(|family| family.rested);
        let window = if rests { window.max(RESTING_WINDOW) } else { window };
        self.looks = self.looks.wrapping_add(1);
        if window < USUAL_WINDOW { window } else { window.mul_f64(uneven(self.looks)) }
    }

    fn look_and_place(&mut self) -> Duration {
        let Some(family) = &mut self.family else { return USUAL_WINDOW };
        family.look();
        if let Some(measured) = &self.measured {
            measured.take(family, &self.stages, self.is_whole);
        }
        if let Some(live) = &mut self.live {
            live.draw(family, &self.stages, self.began.elapsed());
        }
        let Some(placer_of) = self.places else { return USUAL_WINDOW };
        let placer = self.placer.get_or_insert_with(|| placer_of(&family.allowed));
        let now = self.began.elapsed();
        let decision = placer.decide(now, family.window, &family.seen());
        self.decisions.extend(decision.said.map(|said| (now, said)));
        if let Err(errno) = family.place(&decision.places) {
            let why = crate::errno::word(errno);
            self.decisions.push((now, format!("not placed: the kernel does not let us ({why})")));
            self.places = None;
        }
        decision.window
    }

    fn answer(&mut self, signals: &mut Signals) {
        let (mut came, came_at) = (signals.came(), process::begins_now());
        if came.iter().any(|signal| is_passed_on(*signal)) {
            std::thread::sleep(GROUP_HAS_IT_AFTER);
            for signal in signals.came() {
                if !came.contains(&signal) {
                    came.push(signal);
                }
            }
        }
        for signal in came {
            self.ended_by = Some(signal);
            if is_passed_on(signal) {
                self.passed_on = Some((signal, Instant::now()));
                self.pass_on(signal, came_at);
            }
        }
    }

    /// To every stage, and all that they have started; not to those of our group, if all of it has it.
    fn pass_on(&mut self, signal: i32, came_at: u64) {
        let has_it = process::group(None).filter(|_| self.group_has(signal, came_at));
        self.has_passed_on = true;
        if let Some(family) = &mut self.family {
            family.look();
        }
        let tell = |pid| {
            if has_it.is_some() && process::group(Some(pid)) == has_it {
                return;
            }
            for signal in Signal::from_named_raw(signal).into_iter().chain([Signal::CONT]) {
                // It may have ended meanwhile.
                let _ = kill_process(pid, signal);
            }
        };
        let mut told = Vec::new();
        if let Some(below) = &self.below {
            // What a program starts to answer the signal comes after this, and is not told.
            below.each(ALL, |pid, _| {
                tell(pid);
                told.push(pid);
            });
        }
        self.stages.running().filter(|pid| !told.contains(pid)).for_each(tell);
    }

    /// Whether a signal that came to us was sent to our whole group. The kernel does not say so, but it
    /// has ended a stage, and left none that was there and has no answer to it. Where all have one, it is
    /// not known, and nor is it of a second signal.
    fn group_has(&self, signal: i32, came_at: u64) -> bool {
        let Some(below) = self.below.as_ref().filter(|_| !self.has_passed_on) else { return false };
        for look in 1..=GROUP_ENDS_AFTER {
            let mut found = Vec::new();
            below.each(ALL, |pid, _| {
                if process::group(Some(pid)) == process::group(None) {
                    found.push(process::got(pid, signal, came_at));
                }
            });
            let is_missed = found.contains(&Got::Not);
            if is_missed && look >= GROUP_GETS_IT_AFTER {
                return false;
            }
            if !is_missed && (self.stages.any_ends_by(signal) || !found.contains(&Got::Ends)) {
                break;
            }
            std::thread::sleep(GROUP_HAS_IT_AFTER);
        }
        self.stages.any_ends_by(signal)
    }

    /// How a shell that ran it would have ended: by the signal that was sent to it; by the key that
    /// interrupts, if any stage ended by that and none had its own answer; or as its last stage did. A shell
    /// that was run ended itself: by a signal that went on to it, unless its text has an answer to that.
    pub(super) fn end(&self) -> End {
        let of_stages = if self.pipefail { self.stages.failed_end() } else { self.stages.end() };
        match (self.ended_by, of_stages) {
            (_, end) if self.is_whole => end,
            (Some(signal), _) if is_passed_on(signal) => End::Killed(signal),
            (Some(SIGINT), _)
                if self.stages.any_ended_by(SIGINT) && !self.interrupt_was_answered =>
            {
                End::Killed(SIGINT)
            }
            (Some(SIGQUIT), End::Killed(SIGQUIT)) => End::Killed(SIGQUIT),
            (_, end) => End::Exited(end.status()),
        }
    }
}

/// What a window is multiplied by, 1 in the mean: looks at even times would see what a program does at
/// even times always at the same moment of it, or never. Multiples of the golden ratio lie evenly.
fn uneven(look: u32) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    0.5 + (f64::from(look) * GOLDEN).fract()
}

#[cfg(test)]
mod tests {
    use super::uneven;

    #[test]
    fn looks_come_at_all_moments_of_what_is_even() {
        // Of something that begins anew after each window.
        let (mut at, mut seen) = (0.0, [0; 10]);
        for look in 0..1000 {
            at += uneven(look);
            seen[(f64::fract(at) * 10.0) as usize] += 1;
        }
        assert!((990.0..1010.0).contains(&at), "{at}");
        assert!(seen.iter().all(|times| (50..150).contains(times)), "{seen:?}");
    }
}
