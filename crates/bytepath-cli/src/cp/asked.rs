//! What the words of the command line ask for, checked.

use rustix::fs::statfs;

use super::options::{Reading, TWO_TARGETS};
use super::settings::{Context, Dereference, Existing, Make, Reflink, Settings, Sparse};
use super::{attributes, backup};
use crate::classic::{Called, Written};

/// What is wrong with the options.
pub(super) enum Wrong {
    /// With advice on where to look.
    Usage(String),
    /// Without.
    Plain(String),
}

impl Wrong {
    pub(super) fn text(&self) -> &str {
        match self {
            Wrong::Usage(what) | Wrong::Plain(what) => what,
        }
    }
}

/// What the options amount to. What is worth a warning is said.
///
/// # Errors
/// What is wrong with them.
pub(super) fn settings(called: &Called, written: &[Written]) -> Result<Settings, Wrong> {
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
pub(super) fn selinux() -> bool {
    // <linux/magic.h>
    const SELINUX_MAGIC: u32 = 0xf97c_ff8c;
    statfs("/sys/fs/selinux").is_ok_and(|stat| stat.f_type as u32 == SELINUX_MAGIC)
}
