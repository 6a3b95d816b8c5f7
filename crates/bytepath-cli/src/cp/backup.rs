//! Backups: whether and how what is in the way is kept, and under which name.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{Dir, OFlags, RenameFlags};
use rustix::io::Errno;

use super::link::{self, Replace};
use super::options::BACKUP;
use super::place::{Follow, Place, last_component, same_file};
use super::settings::{Backup, Settings};
use crate::classic::choice::chosen;

/// Attempts at a number that nobody else takes meanwhile.
const ATTEMPTS_MAX: u32 = 1000;

/// The classic makes no longer names of backups where it looks for numbers: one byte less than every
/// file system of Linux takes (NAME_MAX). Simple ones it makes as they are, and the kernel may refuse.
const NAME_BYTES_MAX: usize = 254;

/// How backups are made, by the option's value or by the environment.
///
/// # Errors
/// What is wrong with the word.
pub(super) fn asked(control: Option<&OsStr>) -> Result<Backup, String> {
    let environment = std::env::var_os("VERSION_CONTROL");
    let given = |word: &&OsStr| !word.is_empty();
    match (control.filter(given), environment.as_deref().filter(given)) {
        (Some(word), _) => chosen("backup type", word, BACKUP),
        (None, Some(word)) => chosen("$VERSION_CONTROL", word, BACKUP),
        (None, None) => Ok(Backup::Existing),
    }
}

/// What the name of a simple backup ends with.
pub(super) fn suffix(option: Option<OsString>) -> OsString {
    let suffix = option.or_else(|| std::env::var_os("SIMPLE_BACKUP_SUFFIX"));
    let usable = |suffix: &OsString| !suffix.is_empty() && !suffix.as_bytes().contains(&b'/');
    suffix.filter(usable).unwrap_or_else(|| "~".into())
}

/// Whether what is put aside has its own name as well, until something else takes that.
#[derive(Clone, Copy)]
pub(super) enum Aside {
    Renamed,
    /// As far as it may have other names.
    Linked,
}

/// Gives what is there the name of its backup.
///
/// # Errors
/// The kernel's word.
pub(super) fn put_aside(place: &Place, settings: &Settings, aside: Aside) -> Result<Place, Errno> {
    for _ in 0..ATTEMPTS_MAX {
        let (name, numbered) = name_for(place, settings);
        let backup = place.renamed(name);
        let replace = if numbered { Replace::No } else { Replace::Yes };
        let linked = match aside {
            Aside::Linked => link::hard(place, Follow::No, &backup, replace).map(drop),
            Aside::Renamed => Err(Errno::OPNOTSUPP),
        };
        let put = match linked {
            // Not every file system has other names, nor is every user given one (fs.protected_hardlinks).
            Err(Errno::OPNOTSUPP | Errno::PERM | Errno::NOSYS | Errno::MLINK) => {
                renamed(place, &backup, replace)
            }
            linked => linked,
        };
        match put {
            Err(Errno::EXIST) if numbered => {}
            Err(errno) => return Err(errno),
            Ok(()) => return Ok(backup),
        }
    }
    Err(Errno::EXIST)
}

fn renamed(place: &Place, backup: &Place, replace: Replace) -> Result<(), Errno> {
    let numbered = replace == Replace::No;
    let flags = if numbered { RenameFlags::NOREPLACE } else { RenameFlags::empty() };
    let (directory, old, new) = (&place.directory, &place.name, &backup.name);
    match rustix::fs::renameat_with(directory, old, directory, new, flags) {
        // File systems that know no flags.
        Err(Errno::INVAL | Errno::NOSYS) if numbered => {
            rustix::fs::renameat(directory, old, directory, new)
        }
        answer => answer,
    }
}

/// The name that its backup gets.
pub(super) fn name(place: &Place, settings: &Settings) -> OsString {
    name_for(place, settings).0
}

/// The name, and whether it is a numbered one.
fn name_for(place: &Place, settings: &Settings) -> (OsString, bool) {
    let highest = match settings.backup {
        Backup::Numbered => Some(highest(place).unwrap_or(0)),
        Backup::Existing => highest(place),
        Backup::Simple | Backup::None => None,
    };
    let end = match highest {
        Some(highest) => format!(".~{}~", highest.saturating_add(1)).into(),
        None => settings.suffix.clone(),
    };
    let mut path = super::place::without_slashes(&place.name).as_bytes().to_vec();
    let base_bytes = last_component(OsStr::from_bytes(&path)).len();
    if settings.backup != Backup::Simple && base_bytes + end.len() > NAME_BYTES_MAX {
        // Too long a name loses its end for a tilde, as the classic has it.
        path.truncate(path.len() - base_bytes + base_bytes.min(NAME_BYTES_MAX - 1));
        path.push(b'~');
    } else {
        path.extend_from_slice(end.as_bytes());
    }
    (OsString::from_vec(path), highest.is_some())
}

/// The highest number of a numbered backup that is there.
fn highest(place: &Place) -> Option<u128> {
    let base = place.parent().1;
    let entries = Dir::new(place.open_folder(OFlags::RDONLY).ok()?).ok()?;
    let number = |name: &[u8]| {
        let rest = name.strip_prefix(base.as_bytes())?.strip_prefix(b".~")?.strip_suffix(b"~")?;
        let plain = rest.first().is_some_and(|digit| (b'1'..=b'9').contains(digit));
        std::str::from_utf8(rest).ok().filter(|_| plain)?.parse::<u128>().ok()
    };
    entries.flatten().filter_map(|entry| number(entry.file_name().to_bytes())).max()
}

/// Whether the source is what the destination's simple backup would overwrite.
pub(super) fn would_destroy(
    source: &OsStr,
    source_stat: &rustix::fs::Stat,
    destination: &Place,
    settings: &Settings,
) -> bool {
    let base = last_component(&destination.name);
    let backup = [base.as_bytes(), settings.suffix.as_bytes()].concat();
    if settings.backup == Backup::Numbered || last_component(source).as_bytes() != backup {
        return false;
    }
    let name = [destination.name.as_bytes(), settings.suffix.as_bytes()].concat();
    let backup = destination.renamed(OsString::from_vec(name));
    backup.stat(Follow::Yes).is_ok_and(|stat| same_file(&stat, source_stat))
}
