//! `bytepath cp`: files and trees, as GNU cp copies them, by the fastest route.

mod ahead;
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
mod tree;
mod turns;
mod uncached;
mod verify;
mod voice;

use std::ffi::OsString;
use std::process::ExitCode;

use rustix::fs::statfs;

use crate::classic::{Called, Classic, Written};
pub(crate) use options::Options;
use options::Reading;
pub(crate) use piece::{Options as PieceOptions, run as piece};
use settings::{Context, Dereference, Existing, Make, Reflink, Settings, Sparse};
use voice::Voice;

/// For the table of commands that have a classic.
pub(crate) const CLASSIC: Classic = Classic { name: "cp", run: called };

/// What the classic ends with for anything that is wrong, its use included.
const WRONG_USAGE: u8 = 1;

/// The one wrong use that the classic gives no advice on.
const TWO_TARGETS: &str = "multiple target directories specified";

fn called(called: &Called, words: Vec<OsString>) -> ExitCode {
    let selinux = selinux();
    let checked = |option: &Written| Reading::new(selinux).take(std::slice::from_ref(option));
    let read = called.checked_options::<Options>(words, WRONG_USAGE, &checked);
    let (options, written) = match read {
        Ok(read) => read,
        Err(ended) => return ended,
    };
    let settings = settings(called, &written).and_then(|settings| {
        let checked = resume::check(&settings, &options.extras)
            .and_then(|()| uncached::check(&settings, &options))
            .and_then(|()| moving::check(&settings, &options))
            .and_then(|()| options.extras.check(settings.verbose, &options.files));
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

/// What is wrong with the options.
enum Wrong {
    /// With advice on where to look.
    Usage(String),
    /// Without.
    Plain(String),
}

impl Wrong {
    fn text(&self) -> &str {
        match self {
            Wrong::Usage(what) | Wrong::Plain(what) => what,
        }
    }
}

fn settings(called: &Called, written: &[Written]) -> Result<Settings, Wrong> {
    let mut reading = Reading::new(selinux());
    reading.take(written).map_err(|what| match what.as_str() {
        TWO_TARGETS => Wrong::Plain(what),
        _ => Wrong::Usage(what),
    })?;
    for warning in &reading.warnings {
        called.say(warning);
    }
    together(reading)
}

/// What the options come to together.
fn together(reading: Reading) -> Result<Settings, Wrong> {
    let usage = |what: &str| Err(Wrong::Usage(what.into()));
    if reading.hard_link && reading.symbolic_link {
        return usage("cannot make both hard and symbolic links");
    }
    let (make, attributes_only) = (reading.make(), reading.attributes_only);
    let mut settings = Settings { attributes_only, ..reading.settings };
    match reading.existing {
        Some(Existing::Ask) if settings.existing != Existing::Overwrite => {}
        Some(existing) => settings.existing = existing,
        None => {}
    }
    let skips = matches!(settings.existing, Existing::Skip | Existing::Refuse);
    settings.update &= !skips;
    if reading.backup && skips {
        return usage("options --backup and --no-clobber are mutually exclusive");
    }
    if settings.reflink == Reflink::Always && settings.sparse != Sparse::Auto {
        return usage("--reflink can be used only with --sparse=auto");
    }
    if reading.backup {
        settings.backup = backup::asked(reading.backup_control.as_deref()).map_err(Wrong::Usage)?;
    }
    settings.suffix = backup::suffix(reading.suffix);
    settings.make = make;
    settings.dereference = reading.dereference.unwrap_or(match settings.recursive {
        true if make != Make::HardLink => Dereference::Never,
        _ => Dereference::Always,
    });
    settings.special_as_file = !settings.recursive || reading.special_as_file;
    contexts(&mut settings, reading.selinux)?;
    Ok(settings)
}

/// What is known of SELinux contexts at the start, checked.
fn contexts(settings: &mut Settings, selinux: bool) -> Result<(), Wrong> {
    let plain = |what: &str| Err(Wrong::Plain(what.into()));
    let given = settings.context != Context::Kernel;
    if given && !settings.preserve.context_required {
        settings.preserve.context = false;
    }
    if given && settings.preserve.context {
        return plain("cannot set target context and preserve it");
    }
    if settings.preserve.context_required && !selinux {
        return plain("cannot preserve security context without an SELinux-enabled kernel");
    }
    match &settings.context {
        Context::Given(context) => attributes::set_creation_context(context).map_err(|errno| {
            let context = crate::quote::always_quoted(context);
            let word = crate::errno::word(errno);
            Wrong::Plain(format!(
                "failed to set default file creation context to {context}: {word}"
            ))
        }),
        Context::Policy => plain(
            "-Z goes by the SELinux policy, which is not read here: name the context \
             (--context=CTX), or run restorecon afterwards",
        ),
        Context::Kernel => Ok(()),
    }
}

/// Whether the kernel runs SELinux.
fn selinux() -> bool {
    // <linux/magic.h>
    const SELINUX_MAGIC: u32 = 0xf97c_ff8c;
    statfs("/sys/fs/selinux").is_ok_and(|stat| stat.f_type as u32 == SELINUX_MAGIC)
}
