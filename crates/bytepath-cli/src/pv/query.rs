//! `--remote` and `--query`: the sides of a wish that wish.

use std::ffi::OsString;
use std::time::Duration;

use rustix::process::Pid;
use serde_json::Value;

use super::live::Live;
use super::remote::{Came, QUERY, SET, Target};
use super::screen::Screen;
use super::status::Status;
use super::tally::Tally;
use super::usage::Wrong;
use super::watch::{Bar, LAST};
use super::{Options, Settings, say, watched};
use crate::errno::word_of;

/// Has another pv take over these words.
pub(crate) fn remote(pid: Pid, settings: &Settings, words: &[OsString]) -> Status {
    let mut words = words.to_vec();
    if settings.options.transfer.size.is_some() {
        // The last of them counts. A file whose size it is may be another where the other pv is.
        let size: [OsString; 2] = ["-s".into(), settings.size.unwrap_or(0).to_string().into()];
        // Behind the end of all options it would be a file, of which a pv that runs takes none.
        let is_wrong = |words: &[OsString]| Options::read([words, &size].concat()).is_err();
        while is_wrong(&words) && words.pop().is_some() {}
        words.extend(size);
    }
    let came = Target::found(pid)
        .and_then(|target| target.wish(SET, &words).map_err(|error| word_of(&error)));
    match came {
        Ok(Came::Taken(_)) => Status::DONE,
        Ok(Came::Waits) => {
            let pid = pid.as_raw_nonzero();
            say(format_args!(
                "{pid}: it does not answer yet; it will follow when it goes on, unless it has \
                 another HOME"
            ));
            Status::DONE
        }
        Ok(Came::Gone) => {
            say(format_args!("{}: No such process", pid.as_raw_nonzero()));
            Status::REMOTE
        }
        Err(why) => {
            say(format_args!("{why}"));
            Status::REMOTE
        }
    }
}

/// Shows how far another pv is until it ends.
pub(crate) fn query(pid: Pid, settings: &Settings, live: &Live) -> Result<Status, Wrong> {
    let asked = Target::found(pid).and_then(|target| {
        target.wish(QUERY, &[]).map(|came| (target, came)).map_err(|error| word_of(&error))
    });
    let (target, first) = match asked {
        Ok((target, Came::Taken(Some(value)))) => (target, value),
        Ok(_) => {
            say(format_args!("{}: it does not answer", pid.as_raw_nonzero()));
            return Ok(Status::REMOTE);
        }
        Err(why) => {
            say(format_args!("{why}"));
            return Ok(Status::REMOTE);
        }
    };
    let mut settings = settings.clone();
    // Counted is what the other counts.
    settings.options.display.line_mode = first["counts_lines"] == Value::Bool(true);
    settings.options.display.null = false;
    let tally = Tally::default();
    take(&first, &tally);
    let bar = Bar::new(&settings.options.display, LAST, &tally)?;
    let screen = Screen::wanted(&settings);
    let interval = settings.interval;
    Ok(watched(&settings, live, screen, vec![bar], || {
        while !target.ends_within(interval) {
            match target.wish(QUERY, &[]) {
                Ok(Came::Taken(Some(value))) => take(&value, &tally),
                // It may only be busy; its end shows soon.
                Ok(Came::Waits | Came::Taken(None)) => {}
                Ok(Came::Gone) | Err(_) => break,
            }
        }
        Status::DONE
    }))
}

fn take(value: &Value, tally: &Tally) {
    let number = |name: &str| value[name].as_u64();
    tally.set(number("bytes").unwrap_or(0), number("lines").unwrap_or(0));
    tally.set_size(number("size"));
    let elapsed = value["elapsed_s"].as_f64().unwrap_or(0.0);
    tally.set_elapsed(Duration::try_from_secs_f64(elapsed).unwrap_or_default());
}
