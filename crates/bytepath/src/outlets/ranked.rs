//! Which outlet sends into a pipe best: by what was measured on this machine, or by rules. Asks
//! nothing of the kernel.

use std::fmt;

use crate::endpoint::{Endpoint, Kind};
use crate::error::Refusal;
use crate::outlets::{LARGE_PIPE_BYTES, OUTLETS, Outlet, Use, by_name};
use crate::pages::{PageSize, Pages};
use crate::plan::Basis;
use crate::profile::{Profile, Sending};
use crate::routes::Aliasing;
use crate::size::rate;

/// An outlet with its settings.
#[derive(Clone)]
pub struct Choice {
    /// The outlet.
    pub outlet: &'static dyn Outlet,
    /// What is set on it.
    pub settings: Sending,
    /// GiB/s with a reader that copies, and with one that drops the pages, where it was measured.
    pub expected_gib_per_s: Option<(f64, f64)>,
}

impl fmt::Debug for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Choice")
            .field("outlet", &self.outlet.name())
            .field("settings", &self.settings)
            .field("expected_gib_per_s", &self.expected_gib_per_s)
            .finish()
    }
}

impl Choice {
    fn by_rule(settings: Sending) -> Option<Choice> {
        let outlet = by_name(&settings.outlet)?;
        Some(Choice { outlet, settings, expected_gib_per_s: None })
    }

    /// The pages of its buffers.
    pub fn pages(&self) -> Pages {
        let size = if self.settings.huge_pages { PageSize::Huge } else { PageSize::Base };
        Pages { size, locked: false }
    }
}

/// Outlets in the order in which they are to be tried, and why the others are not.
#[derive(Debug, Clone)]
pub struct Ranked {
    /// The best first; the last works into every sink.
    pub choices: Vec<Choice>,
    /// Those that are not tried, and why.
    pub refused: Vec<(&'static str, Refusal)>,
    /// What the order goes by.
    pub basis: Basis,
}

impl Ranked {
    /// The outlets for sending the same bytes over and over, or new ones all the time. Those that
    /// use lent pages again are none of them, whatever the profile says.
    pub fn best(sink: &Endpoint<'_>, sends: Use, profile: Option<&Profile>) -> Ranked {
        let measured = profile.filter(|_| sink.kind() == Kind::Pipe);
        let measured = measured.map(|it| by_profile(it, sends)).unwrap_or_default();
        let rules = by_rules(sends).into_iter().filter_map(Choice::by_rule);
        let mut choices: Vec<Choice> = Vec::new();
        for choice in measured.into_iter().chain(rules) {
            let known = |known: &Choice| known.outlet.name() == choice.outlet.name();
            if !choices.iter().any(known) && refusal(choice.outlet, sink, sends).is_none() {
                choices.push(choice);
            }
        }
        let is_left = |outlet: &&&dyn Outlet| {
            choices.iter().all(|choice| choice.outlet.name() != outlet.name())
        };
        let why = |outlet: &&'static dyn Outlet| {
            let slower = || Refusal::because(slower(sends));
            (outlet.name(), refusal(*outlet, sink, sends).unwrap_or_else(slower))
        };
        let refused = OUTLETS.iter().filter(is_left).map(why).collect();
        let by_measure = choices.first().is_some_and(|best| best.expected_gib_per_s.is_some());
        let basis = if by_measure { Basis::Profile } else { Basis::Rules };
        Ranked { choices, refused, basis }
    }

    /// The settings that an outlet is best with on most machines.
    pub fn usual(outlet: &str) -> Sending {
        let settings = Sending::by(outlet);
        // Pages that are lent are looked up one by one, and made: larger ones 512 times less often.
        match outlet {
            "gift" => Sending { huge_pages: true, ..settings },
            // A whole pipe at a time: half of one costs a fifth more system time, in calls and switches
            // (FizzBuzz on one CPU: 26.6 and 32.0 GiB/s, 2 MiB no more).
            "vmsplice" => Sending {
                huge_pages: true,
                buf_bytes: Some(LARGE_PIPE_BYTES),
                pipe_bytes: Some(LARGE_PIPE_BYTES),
                ..settings
            },
            _ => settings,
        }
    }

    /// One outlet and no other.
    ///
    /// # Errors
    /// It does not suit the sink, or cannot send what is to be sent.
    pub fn only(settings: Sending, sink: &Endpoint<'_>, sends: Use) -> Result<Ranked, Refusal> {
        let Some(choice) = Choice::by_rule(settings) else {
            return Err(Refusal::because("there is no such outlet"));
        };
        choice.outlet.suits(sink)?;
        able(choice.outlet, sends)?;
        Ok(Ranked { choices: vec![choice], refused: Vec::new(), basis: Basis::Asked })
    }
}

fn refusal(outlet: &dyn Outlet, sink: &Endpoint<'_>, sends: Use) -> Option<Refusal> {
    if outlet.aliasing() == Aliasing::Memory {
        return Some(
            Refusal::because("it writes to pages again that a reader may have spliced onward")
                .remedy(format!("--outlet {} where the reader only reads", outlet.name())),
        );
    }
    able(outlet, sends).and_then(|()| outlet.suits(sink)).err()
}

/// Why no rule names an outlet that could send.
fn slower(sends: Use) -> &'static str {
    match sends {
        Use::Repeats => "others send what repeats without making it again",
        Use::Streams => "write does the same in as many calls",
    }
}

fn able(outlet: &dyn Outlet, sends: Use) -> Result<(), Refusal> {
    if sends == Use::Streams && outlet.used_for() == Use::Repeats {
        return Err(Refusal::because("it only repeats, and these bytes are new ones all the time"));
    }
    Ok(())
}

/// What was measured, the fastest first.
fn by_profile(profile: &Profile, sends: Use) -> Vec<Choice> {
    let mut sent: Vec<_> = profile.outlets.iter().filter(|sent| sent.used_for == sends).collect();
    sent.sort_by(|a, b| b.overall_gib_per_s().total_cmp(&a.overall_gib_per_s()));
    let choice = |sent: &&crate::profile::Sent| {
        let expected_gib_per_s = Some((sent.read_gib_per_s, sent.splice_gib_per_s));
        Some(Choice { expected_gib_per_s, ..Choice::by_rule(sent.choice.clone())? })
    };
    sent.iter().filter_map(choice).collect()
}

/// What is best on most machines.
fn by_rules(sends: Use) -> Vec<Sending> {
    let names: &[_] = match sends {
        Use::Repeats => &["wide-tee", "tee", "write"],
        Use::Streams => &["gift", "write"],
    };
    names.iter().map(|name| Ranked::usual(name)).collect()
}

impl fmt::Display for Ranked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, choice) in (1..).zip(&self.choices) {
            write!(f, "{place}. {}: {}", choice.settings, choice.outlet.summary())?;
            if let Some((read, spliced)) = choice.expected_gib_per_s {
                let (read, spliced) = (rate(read), rate(spliced));
                write!(f, "; expected {read} where they are read, {spliced} where dropped")?;
            }
            writeln!(f)?;
        }
        for (name, why) in &self.refused {
            writeln!(f, "not {name}: {why}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    use crate::profile::{Sent, tests::profile};

    fn sent(outlet: &str, used_for: Use, read: f64, spliced: f64) -> Sent {
        let choice = Sending::by(outlet);
        Sent { choice, used_for, read_gib_per_s: read, splice_gib_per_s: spliced }
    }

    fn names(ranked: &Ranked) -> Vec<&str> {
        ranked.choices.iter().map(|choice| choice.outlet.name()).collect()
    }

    fn pipe() -> std::os::fd::OwnedFd {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        std::mem::forget(reader);
        writer
    }

    #[test]
    fn the_fastest_that_was_measured_comes_first_and_write_is_always_there() {
        let mut measured = profile(Vec::new());
        measured.outlets = vec![
            sent("tee", Use::Repeats, 4.0, 100.0),
            sent("wide-tee", Use::Repeats, 5.0, 60.0),
            sent("gift", Use::Streams, 3.0, 5.0),
        ];
        let pipe = pipe();
        let sink = Endpoint::sink(pipe.as_fd()).expect("a sink");
        let ranked = Ranked::best(&sink, Use::Repeats, Some(&measured));
        assert_eq!(
            (names(&ranked), ranked.basis),
            (vec!["tee", "wide-tee", "write"], Basis::Profile)
        );
        let ranked = Ranked::best(&sink, Use::Streams, Some(&measured));
        assert_eq!(names(&ranked), ["gift", "write"]);
        let ranked = Ranked::best(&sink, Use::Streams, None);
        assert_eq!((names(&ranked), ranked.basis), (vec!["gift", "write"], Basis::Rules));
    }

    #[test]
    fn what_is_expected_is_told_in_units_that_fit() {
        let mut measured = profile(Vec::new());
        measured.outlets = vec![sent("gift", Use::Streams, 12.34, 0.03)];
        let pipe = pipe();
        let sink = Endpoint::sink(pipe.as_fd()).expect("a sink");
        let told = Ranked::best(&sink, Use::Streams, Some(&measured)).to_string();
        let wanted = "; expected 12.3 GiB/s where they are read, 30.7 MiB/s where dropped\n";
        assert!(told.contains(wanted), "{told}");
    }

    #[test]
    fn what_rewrites_lent_pages_is_never_chosen_but_can_be_named() {
        let mut measured = profile(Vec::new());
        measured.outlets = vec![sent("vmsplice", Use::Streams, 99.0, 99.0)];
        let pipe = pipe();
        let sink = Endpoint::sink(pipe.as_fd()).expect("a sink");
        for sends in [Use::Streams, Use::Repeats] {
            let ranked = Ranked::best(&sink, sends, Some(&measured));
            assert!(!names(&ranked).contains(&"vmsplice"), "{ranked}");
            assert!(ranked.to_string().contains("not vmsplice: it writes to pages again"));
        }
        let only = Ranked::only(Sending::by("vmsplice"), &sink, Use::Streams).expect("named");
        assert_eq!(names(&only), ["vmsplice"]);
    }

    #[test]
    fn every_outlet_is_either_tried_or_refused_with_a_reason() {
        let pipe = pipe();
        let null = Endpoint::open_sink("/dev/null").expect("a sink");
        for sink in [Endpoint::sink(pipe.as_fd()).expect("a sink"), null] {
            for sends in [Use::Streams, Use::Repeats] {
                let ranked = Ranked::best(&sink, sends, None);
                for outlet in OUTLETS {
                    let tried = names(&ranked).contains(&outlet.name());
                    let refused = ranked.refused.iter().filter(|(name, _)| *name == outlet.name());
                    assert_eq!(refused.count(), usize::from(!tried), "{}\n{ranked}", outlet.name());
                }
                assert_eq!(ranked.choices.last().map(|last| last.outlet.name()), Some("write"));
            }
        }
    }

    #[test]
    fn a_reservoir_cannot_be_asked_for_new_bytes() {
        let pipe = pipe();
        let sink = Endpoint::sink(pipe.as_fd()).expect("a sink");
        let refused = Ranked::only(Sending::by("tee"), &sink, Use::Streams).expect_err("refused");
        assert!(refused.to_string().contains("only repeats"), "{refused}");
    }
}
