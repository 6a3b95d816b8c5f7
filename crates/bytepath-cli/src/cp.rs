//! `bytepath cp`: files and trees, as GNU cp copies them, by the fastest route.

mod ahead;
mod asked;
mod atomic;
mod attributes;
mod backup;
mod copier;
mod copy;
mod crew;
mod data;
mod entries;
mod entry;
mod existing;
mod extras;
mod finish;
mod hand;
mod holes;
mod interrupted;
mod large;
mod later;
mod ledger;
mod leftovers;
mod level;
mod link;
mod make;
mod moving;
mod operands;
mod options;
mod pair;
mod parents;
mod passing;
mod piece;
mod place;
mod progress;
mod quick;
mod regular;
mod resume;
mod rounds;
mod same;
mod seen;
mod settings;
mod shared;
mod stack;
mod stage;
mod stopping;
mod tally;
mod told;
mod tree;
mod turns;
mod uncached;
mod verify;
mod voice;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::classic::{Called, Classic, Written};
use asked::Wrong;
pub(crate) use options::Options;
use options::{Reading, WRONG_USAGE};
pub(crate) use piece::{Options as PieceOptions, run as piece};
use settings::Settings;
use voice::Voice;

/// For the table of commands that have a classic.
pub(crate) const CLASSIC: Classic = Classic { name: "cp", run: called };

fn called(called: &Called, words: Vec<OsString>) -> ExitCode {
    let selinux = asked::selinux();
    let checked = |option: &Written| Reading::new(selinux).take(std::slice::from_ref(option));
    let read = called.checked_options::<Options>(words, WRONG_USAGE, &checked);
    let (options, written) = match read {
        Ok(read) => read,
        Err(ended) => return ended,
    };
    let files = options.files.iter().map(OsString::as_os_str);
    let named: Vec<_> = files.chain(options.plan.file()).collect();
    let settings = asked::settings(called, &written).and_then(|settings| {
        let checked = resume::check(&settings, &options.extras)
            .and_then(|()| uncached::check(&settings, &options))
            .and_then(|()| moving::check(&settings, &options))
            .and_then(|()| options.extras.check(settings.verbose, &named));
        checked.map_err(Wrong::Usage).map(|()| settings)
    });
    match settings {
        Ok(settings) => copy(called, &settings, &options),
        Err(Wrong::Usage(what)) => called.misused(what.as_bytes(), WRONG_USAGE),
        Err(Wrong::Plain(what)) => {
            called.say(what);
            ExitCode::from(WRONG_USAGE)
        }
    }
}

fn copy(called: &Called, settings: &Settings, options: &Options) -> ExitCode {
    operands::begin(settings, options);
    let checked = options.plan.check().map_err(anyhow::Error::from);
    let ledger = match checked.and_then(|()| ledger::Ledger::open(&options.extras)) {
        Ok(ledger) => ledger,
        Err(error) => {
            called.say(format_args!("{error:#}"));
            return ExitCode::from(WRONG_USAGE);
        }
    };
    operands::copy(settings, options, &Voice::new(called, ledger))
}
