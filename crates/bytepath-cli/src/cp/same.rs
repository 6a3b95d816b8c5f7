//! Whether source and destination are one file, and whether that matters.

use rustix::fs::Stat;

use super::pair::Pair;
use super::place::{Follow, is_link, same_file};
use super::settings::{Backup, Make, Settings};

/// What is to be done about two that may be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sameness {
    /// Copying does no harm.
    Fine,
    /// The destination is what it would become.
    Nothing,
    /// Copying would destroy the source.
    Refused,
}

use Sameness::{Fine, Nothing, Refused};

/// Judges a source by its status as it is copied, and a destination likewise. The cases, and their
/// order, are the classic's.
pub(super) fn judge(pair: &Pair, settings: &Settings, source: &Stat, sink: &Stat) -> Sameness {
    let same = same_file(source, sink);
    if same && settings.make == Make::HardLink {
        return Nothing;
    }
    let follows = settings.follows(pair.argument);
    let links = if follows {
        if !same {
            return Fine;
        }
        let (source, sink) = (pair.source.stat(Follow::No), pair.sink.stat(Follow::No));
        let (Ok(source), Ok(sink)) = (source, sink) else { return Fine };
        // Of two symbolic links to one file, one that is removed before it is opened is harmless.
        if is_link(&source) && is_link(&sink) && settings.remove_first {
            return Fine;
        }
        (source, sink)
    } else {
        if is_link(source) && is_link(sink) {
            return two_links(pair, settings, same);
        }
        (*source, *sink)
    };
    judge_entries(pair, settings, &links.0, &links.1)
}

/// Two symbolic links, neither of which is followed.
fn two_links(pair: &Pair, settings: &Settings, same: bool) -> Sameness {
    if pair.source.is_same_entry(&pair.sink) {
        return Refused;
    }
    if same && settings.backup == Backup::None { Nothing } else { Fine }
}

/// Judges by what is in the directories themselves.
fn judge_entries(pair: &Pair, settings: &Settings, source: &Stat, sink: &Stat) -> Sameness {
    let follows = settings.follows(pair.argument);
    let same = same_file(source, sink);
    let when = |fine| if fine { Fine } else { Refused };
    if settings.backup != Backup::None {
        // Putting the destination aside would leave a source that is a link to it leading nowhere.
        let dangling = !same && follows && is_link(source) && !is_link(sink);
        let aside = !same || !pair.source.is_same_entry(&pair.sink);
        return when(aside && !dangling);
    }
    if settings.remove_first {
        let another_name = same && sink.st_nlink > 1 && !pair.source.is_same_entry(&pair.sink);
        if is_link(sink) || another_name {
            return Fine;
        }
    }
    if !is_link(source) && !is_link(sink) && !same {
        return Fine;
    }
    if settings.make == Make::SymbolicLink && is_link(sink) {
        return Fine;
    }
    if follows { Refused } else { judge_targets(pair, settings, source, sink) }
}

/// Judges by what a symbolic link that is not followed leads to.
fn judge_targets(pair: &Pair, settings: &Settings, source: &Stat, sink: &Stat) -> Sameness {
    let target = |stat: &Stat, place: &super::place::Place| match is_link(stat) {
        true => place.stat(Follow::Yes).ok(),
        false => Some(*stat),
    };
    let (Some(source), Some(target)) = (target(source, &pair.source), target(sink, &pair.sink))
    else {
        return Fine;
    };
    match (same_file(&source, &target), settings.make == Make::HardLink) {
        (false, _) => Fine,
        (true, true) => {
            if is_link(sink) {
                Fine
            } else {
                Nothing
            }
        }
        (true, false) => Refused,
    }
}
