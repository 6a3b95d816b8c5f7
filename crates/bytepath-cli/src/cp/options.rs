//! The options of `cp`: what each is called, what the help says of it, and what it sets. They are
//! taken in the order in which they are written, because later ones override parts of earlier ones.

use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::extras::Extras;
use super::settings::{Backup, Context, Dereference, Existing, Make, Reflink, Settings, Sparse};
use crate::classic::choice::{Choice, chosen};
use crate::classic::{TakesFiles, Written};
use crate::planning::PlanOptions;

/// What the classic ends with for anything that is wrong, its use included.
pub(super) const WRONG_USAGE: u8 = 1;

/// The one wrong use that the classic gives no advice on.
pub(super) const TWO_TARGETS: &str = "multiple target directories specified";

/// Copy files and trees, by the fastest route
///
/// Copies SOURCE to DEST, or several SOURCEs into a DIRECTORY. Takes every option of GNU cp; called
/// as cp through a link, it is cp.
#[derive(Debug)]
pub(crate) struct Options {
    pub(super) plan: PlanOptions,
    pub(super) extras: Extras,
    pub(super) files: Vec<OsString>,
}

/// An option of the classic.
struct Row {
    short: Option<char>,
    long: &'static str,
    value: Value,
    help: &'static str,
    set: Set,
}

/// What an option does to what was set before it, or what is wrong with its value.
type Set = fn(&mut Reading, Option<&OsStr>) -> Result<(), String>;

/// Whether an option takes a value, and what the help calls it.
enum Value {
    None,
    Optional(&'static str),
    Required(&'static str),
}

/// The options as they are read: what some come to shows only at the end.
pub(super) struct Reading {
    pub(super) settings: Settings,
    pub(super) backup: bool,
    pub(super) backup_control: Option<OsString>,
    pub(super) suffix: Option<OsString>,
    pub(super) dereference: Option<Dereference>,
    pub(super) special_as_file: bool,
    pub(super) attributes_only: bool,
    pub(super) hard_link: bool,
    pub(super) symbolic_link: bool,
    /// What the last -n or -i says, which --update=none does not overrule.
    pub(super) existing: Option<Existing>,
    pub(super) selinux: bool,
    /// Said once all options are read well.
    pub(super) warnings: Vec<&'static str>,
}

use Value::{None as Nothing, Optional, Required};

// In the order of the classic's long options, which its messages name them in.
const ROWS: &[Row] = &[
    row('a', "archive", Nothing, "As -dR --preserve=all", |reading, _| {
        reading.dereference = Some(Dereference::Never);
        reading.settings.recursive = true;
        let preserve = &mut reading.settings.preserve;
        (preserve.mode, preserve.ownership, preserve.timestamps) = (true, true, true);
        (preserve.links, preserve.xattr, preserve.required) = (true, true, true);
        preserve.context |= reading.selinux;
        preserve.quiet = true;
        Ok(())
    }),
    long("attributes-only", Nothing, "Copy the attributes, not the data", |reading, _| {
        reading.attributes_only = true;
        Ok(())
    }),
    row(
        'b',
        "backup",
        Optional("CONTROL"),
        "Keep each existing destination under another name: none or off, numbered or t, existing \
         or nil, simple or never; VERSION_CONTROL is the default. -b takes no value",
        |reading, value| {
            reading.backup = true;
            if let Some(value) = value {
                reading.backup_control = Some(value.to_owned());
            }
            Ok(())
        },
    ),
    long("copy-contents", Nothing, "With -R, read FIFOs and devices like files", |reading, _| {
        reading.special_as_file = true;
        Ok(())
    }),
    long(
        "debug",
        Nothing,
        "Say how each file is copied: by offload or reflink, with holes seen or not; implies -v",
        |reading, _| {
            (reading.settings.debug, reading.settings.verbose) = (true, true);
            Ok(())
        },
    ),
    row('L', "dereference", Nothing, "Follow symbolic links in SOURCE", |reading, _| {
        reading.dereference = Some(Dereference::Always);
        Ok(())
    }),
    row(
        'f',
        "force",
        Nothing,
        "Remove a destination that cannot be opened, and try again",
        |reading, _| {
            reading.settings.force = true;
            Ok(())
        },
    ),
    row('i', "interactive", Nothing, "Ask before overwriting; overrides -n", |reading, _| {
        reading.existing = Some(Existing::Ask);
        Ok(())
    }),
    long(
        "keep-directory-symlink",
        Nothing,
        "Follow symbolic links to directories that are in the destination",
        |reading, _| {
            reading.settings.keep_directory_symlink = true;
            Ok(())
        },
    ),
    row('l', "link", Nothing, "Make hard links instead of copies", |reading, _| {
        reading.hard_link = true;
        Ok(())
    }),
    row('n', "no-clobber", Nothing, "Overwrite nothing; overrides -i and -u", |reading, _| {
        reading.existing = Some(Existing::Skip);
        Ok(())
    }),
    row('P', "no-dereference", Nothing, "Follow no symbolic links in SOURCE", |reading, _| {
        reading.dereference = Some(Dereference::Never);
        Ok(())
    }),
    long(
        "no-preserve",
        Required("ATTR_LIST"),
        "Do not preserve these attributes",
        |reading, value| preserve("--no-preserve", reading, value, false),
    ),
    row(
        'T',
        "no-target-directory",
        Nothing,
        "Take DEST for a file, never for a directory to copy into",
        |reading, _| {
            reading.settings.no_target_directory = true;
            Ok(())
        },
    ),
    row('x', "one-file-system", Nothing, "Stay on the file system of SOURCE", |reading, _| {
        reading.settings.one_file_system = true;
        Ok(())
    }),
    long(
        "parents",
        Nothing,
        "Use the whole name of SOURCE under DIRECTORY, and make its directories",
        |reading, _| {
            reading.settings.parents = true;
            Ok(())
        },
    ),
    long(
        "preserve",
        Optional("ATTR_LIST"),
        "Preserve these attributes: mode, timestamps, ownership (these three by default), links, \
         context, xattr, all",
        |reading, value| match value {
            None => preserve_usual(reading, None),
            Some(_) => {
                preserve("--preserve", reading, value, true)?;
                reading.settings.preserve.required = true;
                Ok(())
            }
        },
    ),
    row('R', "recursive", Nothing, "Copy directories and all that is in them", |reading, _| {
        reading.settings.recursive = true;
        Ok(())
    }),
    long(
        "remove-destination",
        Nothing,
        "Remove each existing destination before opening it",
        |reading, _| {
            reading.settings.remove_first = true;
            Ok(())
        },
    ),
    long(
        "sparse",
        Required("WHEN"),
        "Make holes: auto (where SOURCE has them), always (wherever there are enough zeros), never",
        |reading, value| {
            reading.settings.sparse = chosen("--sparse", word(value), SPARSE)?;
            Ok(())
        },
    ),
    long(
        "reflink",
        Optional("WHEN"),
        "Share blocks until they are written: always (also without WHEN), auto, never",
        |reading, value| {
            reading.settings.reflink = match value {
                None => Reflink::Always,
                Some(value) => chosen("--reflink", value, REFLINK)?,
            };
            Ok(())
        },
    ),
    long(
        "strip-trailing-slashes",
        Nothing,
        "Ignore slashes at the end of each SOURCE",
        |reading, _| {
            reading.settings.strip_slashes = true;
            Ok(())
        },
    ),
    row(
        'S',
        "suffix",
        Required("SUFFIX"),
        "End the names of backups so; SIMPLE_BACKUP_SUFFIX is the default, or ~",
        |reading, value| {
            reading.backup = true;
            reading.suffix = value.map(OsStr::to_owned);
            Ok(())
        },
    ),
    row('s', "symbolic-link", Nothing, "Make symbolic links instead of copies", |reading, _| {
        reading.symbolic_link = true;
        Ok(())
    }),
    row(
        't',
        "target-directory",
        Required("DIRECTORY"),
        "Copy all SOURCEs into DIRECTORY",
        |reading, value| {
            if reading.settings.target_directory.is_some() {
                return Err(TWO_TARGETS.into());
            }
            reading.settings.target_directory = value.map(OsStr::to_owned);
            Ok(())
        },
    ),
    row(
        'u',
        "update",
        Optional("UPDATE"),
        "Copy only what is newer than its destination, or has none (older, also without UPDATE); \
         none: replace nothing; none-fail: replace nothing, and fail; all: as without this option",
        |reading, value| {
            let update = match value {
                None => Update::Older,
                Some(value) => chosen("--update", value, UPDATE)?,
            };
            reading.settings.update = update == Update::Older;
            reading.settings.existing = match update {
                Update::All | Update::Older => Existing::Overwrite,
                Update::None => Existing::Skip,
                Update::NoneFail => Existing::Refuse,
            };
            Ok(())
        },
    ),
    row('v', "verbose", Nothing, "Say what is done", |reading, _| {
        reading.settings.verbose = true;
        Ok(())
    }),
    row(
        'Z',
        "context",
        Optional("CTX"),
        "Give new files the SELinux context CTX. -Z takes no value",
        |reading, value| {
            match (reading.selinux, value) {
                (true, Some(value)) => reading.settings.context = Context::Given(value.into()),
                (true, None) => reading.settings.context = Context::Policy,
                (false, Some(_)) => reading
                    .warnings
                    .push("warning: ignoring --context; it requires an SELinux-enabled kernel"),
                (false, None) => {}
            }
            Ok(())
        },
    ),
    short('r', "As -R", |reading, _| {
        reading.settings.recursive = true;
        Ok(())
    }),
    short('d', "As --no-dereference --preserve=links", |reading, _| {
        reading.dereference = Some(Dereference::Never);
        reading.settings.preserve.links = true;
        Ok(())
    }),
    short('H', "Follow symbolic links on the command line", |reading, _| {
        reading.dereference = Some(Dereference::Arguments);
        Ok(())
    }),
    short('p', "As --preserve=mode,ownership,timestamps", preserve_usual),
];

const SPARSE: &[Choice<Sparse>] =
    &[("never", Sparse::Never), ("auto", Sparse::Auto), ("always", Sparse::Always)];

const REFLINK: &[Choice<Reflink>] =
    &[("auto", Reflink::Auto), ("always", Reflink::Always), ("never", Reflink::Never)];

pub(super) const BACKUP: &[Choice<Backup>] = &[
    ("none", Backup::None),
    ("off", Backup::None),
    ("simple", Backup::Simple),
    ("never", Backup::Simple),
    ("existing", Backup::Existing),
    ("nil", Backup::Existing),
    ("numbered", Backup::Numbered),
    ("t", Backup::Numbered),
];

/// What is done about destinations that are there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Update {
    All,
    None,
    NoneFail,
    Older,
}

const UPDATE: &[Choice<Update>] = &[
    ("all", Update::All),
    ("none", Update::None),
    ("none-fail", Update::NoneFail),
    ("older", Update::Older),
];

/// What can be preserved.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attribute {
    Mode,
    Timestamps,
    Ownership,
    Links,
    Context,
    Xattr,
    All,
}

const ATTRIBUTES: &[Choice<Attribute>] = &[
    ("mode", Attribute::Mode),
    ("timestamps", Attribute::Timestamps),
    ("ownership", Attribute::Ownership),
    ("links", Attribute::Links),
    ("context", Attribute::Context),
    ("xattr", Attribute::Xattr),
    ("all", Attribute::All),
];

const fn row(short: char, long: &'static str, value: Value, help: &'static str, set: Set) -> Row {
    Row { short: Some(short), long, value, help, set }
}

const fn long(long: &'static str, value: Value, help: &'static str, set: Set) -> Row {
    Row { short: None, long, value, help, set }
}

const fn short(short: char, help: &'static str, set: Set) -> Row {
    Row { short: Some(short), long: "", value: Nothing, help, set }
}

fn word(value: Option<&OsStr>) -> &OsStr {
    value.unwrap_or_default()
}

fn preserve_usual(reading: &mut Reading, _: Option<&OsStr>) -> Result<(), String> {
    let preserve = &mut reading.settings.preserve;
    (preserve.mode, preserve.ownership, preserve.timestamps) = (true, true, true);
    preserve.required = true;
    Ok(())
}

/// Sets the attributes of a list as preserved, or not.
fn preserve(
    option: &str,
    reading: &mut Reading,
    list: Option<&OsStr>,
    on: bool,
) -> Result<(), String> {
    use std::os::unix::ffi::OsStrExt;
    let selinux = reading.selinux;
    let preserve = &mut reading.settings.preserve;
    for word in word(list).as_bytes().split(|byte| *byte == b',') {
        let attribute = chosen(option, OsStr::from_bytes(word), ATTRIBUTES)?;
        let is = |one| attribute == one || attribute == Attribute::All;
        if is(Attribute::Mode) {
            (preserve.mode, preserve.default_mode) = (on, !on);
        }
        if is(Attribute::Timestamps) {
            preserve.timestamps = on;
        }
        if is(Attribute::Ownership) {
            preserve.ownership = on;
        }
        if is(Attribute::Links) {
            preserve.links = on;
        }
        if is(Attribute::Xattr) {
            preserve.xattr = on;
        }
        match attribute {
            Attribute::Context => (preserve.context, preserve.context_required) = (on, on),
            Attribute::Xattr => preserve.xattr_required = on,
            Attribute::All if selinux => preserve.context = on,
            _ => {}
        }
    }
    Ok(())
}

impl Reading {
    pub(super) fn new(selinux: bool) -> Reading {
        Reading {
            settings: Settings::new(),
            backup: false,
            backup_control: None,
            suffix: None,
            dereference: None,
            special_as_file: false,
            attributes_only: false,
            hard_link: false,
            symbolic_link: false,
            existing: None,
            selinux,
            warnings: Vec::new(),
        }
    }

    /// Takes the options one after the other.
    ///
    /// # Errors
    /// What is wrong with one.
    pub(super) fn take(&mut self, written: &[Written]) -> Result<(), String> {
        for option in written {
            let named = |row: &&Row| match option.name.strip_prefix("--") {
                Some(long) => row.long == long,
                None => option.name.chars().nth(1) == row.short,
            };
            if let Some(row) = ROWS.iter().find(named) {
                (row.set)(self, option.value.as_deref())?;
            }
        }
        Ok(())
    }

    /// What is made in the place of a file; a link is never a copy of attributes.
    pub(super) fn make(&self) -> Make {
        match (self.hard_link, self.symbolic_link, self.attributes_only) {
            (true, ..) => Make::HardLink,
            (_, true, _) => Make::SymbolicLink,
            (_, _, true) => Make::Attributes,
            _ => Make::Copy,
        }
    }
}

impl Args for Options {
    fn augment_args(command: Command) -> Command {
        let about = "Copy files and trees, by the fastest route";
        let more = "Copies SOURCE to DEST, or several SOURCEs into a DIRECTORY. Takes every option \
                    of GNU cp; called as cp through a link, it is cp.";
        let command = ROWS.iter().map(arg).fold(command, Command::arg);
        let command = command
            .version(env!("CARGO_PKG_VERSION"))
            .disable_help_flag(true)
            .disable_version_flag(true)
            .arg(Arg::new("help").long("help").action(ArgAction::Help).help("Print this help"))
            .arg(
                Arg::new("version")
                    .long("version")
                    .action(ArgAction::Version)
                    .help("Print the version"),
            );
        Extras::augment_args(PlanOptions::augment_args(command))
            .next_help_heading(None::<&str>)
            .arg(
                Arg::new("files")
                    .value_name("FILE")
                    .action(ArgAction::Append)
                    .num_args(0..)
                    .value_parser(clap::value_parser!(OsString))
                    .help("SOURCE DEST, or SOURCE... DIRECTORY"),
            )
            .about(about)
            .long_about(format!("{about}\n\n{more}"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn arg(row: &Row) -> Arg {
    let name = if row.long.is_empty() { row.help } else { row.long };
    let arg = Arg::new(name).help(row.help);
    let arg = match row.short {
        Some(short) => arg.short(short),
        None => arg,
    };
    let arg = if row.long.is_empty() { arg } else { arg.long(row.long) };
    let parser = clap::value_parser!(OsString);
    match row.value {
        Nothing => arg.action(ArgAction::SetTrue),
        Optional(name) => arg
            .action(ArgAction::Append)
            .value_name(name)
            .num_args(0..=1)
            .require_equals(true)
            .value_parser(parser),
        Required(name) => arg.action(ArgAction::Append).value_name(name).value_parser(parser),
    }
}

impl FromArgMatches for Options {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Options {
            plan: PlanOptions::from_arg_matches(matches)?,
            extras: Extras::from_arg_matches(matches)?,
            files: Vec::new(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl TakesFiles for Options {
    fn files(&mut self) -> &mut Vec<OsString> {
        &mut self.files
    }
}
