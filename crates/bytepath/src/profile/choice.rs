//! The choices of route and knobs between two ends: what each gave, and which is best.

use std::fmt;
use std::time::Duration;

use rustix::fd::AsFd;
use serde::{Deserialize, Serialize};

use super::{End, Pair};
use crate::endpoint::{Endpoint, Kind};
use crate::knobs::{Cpu, Knobs, Pipes};
use crate::size::shown;
use crate::wait::Wait;

/// Whoever takes pages out of a socket frees what they came in, which its CPU keeps for the next. From socket
/// to pipe, choices that five runs of half a minute could not tell apart were at 4.5 to 6.7 GiB/s in ten longer
/// ones, the one that stays at 5.9 to 6.7 in eight of them.
const STAYING_IS_WORTH: f64 = 1.1;

/// Less is not told from nothing.
const CPU_S_PER_GIB_MIN: f64 = 0.001;

/// A share of the fastest from which on a choice is about as fast, whatever the intervals say.
const ABOUT_AS_FAST: f64 = 0.97;

/// The same where its interval reaches the fastest, or there is none. Two ends that wake each other were measured at
/// 4.1 GiB/s by pipes of 64 KiB and at 3.7 by larger ones for half the CPU; a minute later it was 1.6 and 5.3.
const NOT_FAR_BEHIND: f64 = 0.85;

/// One choice of route and knobs, and what it gave.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Measured {
    /// What was chosen.
    #[serde(flatten)]
    pub choice: Setting,
    /// The median speed.
    pub gib_per_s: f64,
    /// Its 95% interval; null where it was looked at too few times to have one.
    pub ci95: Option<[f64; 2]>,
    /// The speed of all samples together, without the slowest. Choices are compared by this: the
    /// median of one that is fast at times and slow at others, as sleepers are on a busy machine,
    /// is either at one time and the other at the next.
    pub overall_gib_per_s: f64,
    /// CPU seconds of the mover per GiB.
    pub cpu_s_per_gib: f64,
}

/// All fields side by side, as they stand in the file. A derived `flatten` keeps every field of every
/// choice as a value of its own first, which made reading a profile take twice as long.
impl<'de> Deserialize<'de> for Measured {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Measured, D::Error> {
        #[derive(Deserialize)]
        struct Flat {
            route: String,
            #[serde(default)]
            chunk_bytes: Option<usize>,
            #[serde(default)]
            pipe_bytes: Option<usize>,
            #[serde(default)]
            spin_ns: Option<u64>,
            #[serde(default)]
            stays: bool,
            gib_per_s: f64,
            ci95: Option<[f64; 2]>,
            overall_gib_per_s: f64,
            cpu_s_per_gib: f64,
        }
        let flat = Flat::deserialize(deserializer)?;
        let Flat { route, chunk_bytes, pipe_bytes, spin_ns, stays, .. } = flat;
        Ok(Measured {
            choice: Setting { route, chunk_bytes, pipe_bytes, spin_ns, stays },
            gib_per_s: flat.gib_per_s,
            ci95: flat.ci95,
            overall_gib_per_s: flat.overall_gib_per_s,
            cpu_s_per_gib: flat.cpu_s_per_gib,
        })
    }
}

/// A route with its knobs; what is absent is left to the route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Setting {
    /// The route's name.
    pub route: String,
    /// Bytes per call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_bytes: Option<usize>,
    /// The size that pipes at either end are given, and the buffer of a Unix socket that is written to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipe_bytes: Option<usize>,
    /// How long to spin before sleeping, in nanoseconds; absent where it sleeps at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spin_ns: Option<u64>,
    /// Whether the mover stays on the CPU that it begins on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stays: bool,
}

impl Setting {
    /// The wait that it means.
    pub fn wait(&self) -> Wait {
        match self.spin_ns {
            Some(budget) => Wait::Hybrid(Duration::from_nanos(budget)),
            None => Wait::Block,
        }
    }

    /// These knobs, with everything that the caller left open as it was measured.
    pub(crate) fn filled(&self, asked: &Knobs) -> Knobs {
        Knobs {
            chunk_bytes: asked.chunk_bytes.or(self.chunk_bytes),
            pipe_bytes: asked.pipe_bytes,
            queue_depth: asked.queue_depth,
            threads: asked.threads,
            wait: if asked.wait == Wait::Block { self.wait() } else { asked.wait },
            pages: asked.pages,
            cpu: if asked.cpu == Cpu::Any && self.stays { Cpu::Stay } else { asked.cpu },
        }
    }

    /// Whether it is what the caller asks for, as far as that goes. What was measured with several
    /// threads says nothing of one.
    pub(crate) fn agrees(&self, asked: &Knobs) -> bool {
        let same = |asked: Option<usize>, own: Option<usize>| asked.is_none() || asked == own;
        let several = crate::routes::by_name(&self.route).is_some_and(|route| route.is_parallel());
        if several && asked.threads == Some(1) {
            return false;
        }
        same(asked.chunk_bytes, self.chunk_bytes)
            && same(asked.pipe_bytes, self.pipe_bytes)
            && (asked.wait == Wait::Block || asked.wait == self.wait())
            && (asked.cpu == Cpu::Any || self.stays)
    }

    /// Whether pipes at these ends are to be as they were measured: those that stay as they are, if
    /// they hold as much already.
    pub(crate) fn suits(
        &self,
        pipes: Pipes,
        asked: &Knobs,
        (source, sink): (&Endpoint<'_>, &Endpoint<'_>),
    ) -> bool {
        let holds = |end: &Endpoint<'_>, bytes| {
            end.kind() != Kind::Pipe || crate::outlets::pipe_bytes(end.as_fd()) >= bytes
        };
        // A Unix socket's buffer would be made larger as well.
        let hold =
            |bytes| holds(source, bytes) && holds(sink, bytes) && sink.kind() != Kind::UnixSocket;
        pipes == Pipes::Grow || asked.pipe_bytes.is_some() || self.pipe_bytes.is_none_or(hold)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.route)?;
        if let Some(bytes) = self.chunk_bytes {
            write!(f, ", {} a call", shown(bytes as u64))?;
        }
        if let Some(bytes) = self.pipe_bytes {
            write!(f, ", pipes of {}", shown(bytes as u64))?;
        }
        if let Some(budget) = self.spin_ns {
            write!(f, ", spins {} us", budget / 1000)?;
        }
        if self.stays {
            f.write_str(", stays on its CPU")?;
        }
        Ok(())
    }
}

impl Pair {
    /// The best of the choices that some condition leaves: of those that are about as fast as the
    /// first, the one that is worth most, as its CPU time counts too.
    pub fn best(&self, of: impl Fn(&Setting) -> bool) -> Option<&Measured> {
        let worth = |measured: &&Measured| self.worth(measured);
        self.about_as_fast(of).max_by(|a, b| worth(a).total_cmp(&worth(b)))
    }

    /// The fastest of the choices that some condition leaves, and those that are about as fast. A route
    /// that there is not, or not any more, is never one of them.
    pub fn about_as_fast(&self, of: impl Fn(&Setting) -> bool) -> impl Iterator<Item = &Measured> {
        let is_left = |measured: &&Measured| {
            crate::routes::by_name(&measured.choice.route).is_some() && of(&measured.choice)
        };
        let left: Vec<_> = self.choices.iter().filter(is_left).collect();
        let overall = |measured: &&Measured| measured.overall_gib_per_s;
        let fastest = left.iter().copied().max_by(|a, b| overall(a).total_cmp(&overall(b)));
        let about_as_fast = move |measured: &&Measured| {
            fastest.is_some_and(|fastest| measured.is_about_as_fast_as(fastest))
        };
        left.into_iter().filter(about_as_fast)
    }

    /// A choice's speed, and how little of the CPU that takes: half of the CPU is worth 0.84 of the
    /// speed. A spinner is rarely worth what it burns, and what wakes its peer more often is the first
    /// to fall into a rut; but a tenth of the CPU, which is noise, is no reason to take the slower one.
    fn worth(&self, measured: &Measured) -> f64 {
        let steady = match (self.source, measured.choice.stays) {
            (End::Socket, true) => STAYING_IS_WORTH,
            _ => 1.0,
        };
        let cpu = measured.cpu_s_per_gib.max(CPU_S_PER_GIB_MIN);
        steady * measured.overall_gib_per_s / cpu.powf(0.25)
    }
}

impl Measured {
    /// Whether measuring again may turn it round.
    fn is_about_as_fast_as(&self, fastest: &Measured) -> bool {
        let share = self.overall_gib_per_s / fastest.overall_gib_per_s;
        let not_told_apart = self.ci95.is_none_or(|[_, high]| high >= fastest.gib_per_s);
        share >= ABOUT_AS_FAST || (not_told_apart && share >= NOT_FAR_BEHIND)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::gave;
    use super::*;

    #[test]
    fn of_choices_about_as_fast_the_one_that_takes_least_of_the_cpu_is_best() {
        let cost = |measured: Measured, cpu| Measured { cpu_s_per_gib: cpu, ..measured };
        let choices = vec![
            cost(gave("splice", None, 10.0), 0.9),
            cost(gave("sendfile", None, 9.8), 0.1),
            cost(gave("read-write", None, 9.0), 0.01),
            cost(gave("no-such-route", None, 99.0), 0.01),
        ];
        let pair = Pair { source: End::File, sink: End::Pipe, place: None, bytes: None, choices };
        let best = |of: fn(&Setting) -> bool| pair.best(of).map(|best| best.choice.route.as_str());
        assert_eq!(best(|_| true), Some("sendfile"));
        assert_eq!(best(|setting| setting.route != "sendfile"), Some("splice"));
        assert_eq!(best(|_| false), None);
    }

    #[test]
    fn a_choice_that_a_measurement_does_not_tell_from_the_fastest_may_be_the_best() {
        let measured = |route: &str, figure: f64, high, cpu_s_per_gib| {
            let ci95 = Some([figure - 0.5, high]);
            Measured { ci95, cpu_s_per_gib, ..gave(route, None, figure) }
        };
        let best_of = |second: Measured| {
            let choices = vec![measured("splice-through", 4.1, 4.6, 0.13), second];
            let pair =
                Pair { source: End::Pipe, sink: End::Socket, place: None, bytes: None, choices };
            pair.best(|_| true).map(|best| best.choice.route.clone())
        };
        assert_eq!(best_of(measured("splice", 3.7, 4.5, 0.07)).as_deref(), Some("splice"));
        let looked_at_twice =
            |figure| Measured { ci95: None, ..measured("splice", figure, 0.0, 0.07) };
        assert_eq!(best_of(looked_at_twice(3.7)).as_deref(), Some("splice"));
        assert_eq!(best_of(looked_at_twice(3.3)).as_deref(), Some("splice-through"));
        let hardly_cheaper = best_of(measured("splice", 3.7, 4.5, 0.11));
        assert_eq!(hardly_cheaper.as_deref(), Some("splice-through"));
        let (surely_slower, far_behind) =
            (measured("splice", 3.7, 4.0, 0.07), measured("splice", 3.3, 4.5, 0.07));
        for second in [surely_slower, far_behind] {
            assert_eq!(best_of(second).as_deref(), Some("splice-through"));
        }
    }
}
