//! Why there is no profile to go by, and the command that makes one.

use std::path::{Path, PathBuf};

use super::{Profile, SCHEMA};
use crate::shell::quoted;

/// Why there is no profile to go by.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// There is none.
    #[error("there is no profile of this machine at {}; run {}", .0.display(), tuning(Some(.0)))]
    Absent(PathBuf),
    /// It cannot be read.
    #[error("cannot read the profile {}: {error}", path.display())]
    Unreadable {
        /// Where it is.
        path: PathBuf,
        /// The kernel's word.
        error: std::io::Error,
    },
    /// It is not one.
    #[error("{} is no profile: {why}; run {} to make one", path.display(), tuning(other_than(path)))]
    Corrupt {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// It was made by a bytepath whose profiles mean something else.
    #[error("{} is of the format {found:?}, not {SCHEMA}; run {} again", path.display(), tuning(Some(path)))]
    OtherFormat {
        /// Where it is.
        path: PathBuf,
        /// The format that it names.
        found: String,
    },
    /// It is another machine's, or this one's before it was changed.
    #[error("the profile is stale: {why}; run {} again", tuning(path.as_deref()))]
    Stale {
        /// The file that was named, if one was.
        path: Option<PathBuf>,
        /// What has changed.
        why: String,
    },
}

impl ProfileError {
    /// The same of the profile in this file.
    #[must_use]
    pub fn of(self, path: &Path) -> ProfileError {
        match self {
            ProfileError::Stale { why, .. } => ProfileError::Stale { path: Some(path.into()), why },
            other => other,
        }
    }
}

/// The command that makes the profile in this file anew; the one in its usual place unless given.
pub fn tuning(path: Option<&Path>) -> String {
    match path.filter(|path| is_named(path)) {
        Some(path) => format!("bytepath tune --profile {}", quoted(path)),
        None => "bytepath tune".into(),
    }
}

/// Whether it is anywhere but in the usual place.
fn is_named(path: &Path) -> bool {
    Profile::default_path().is_none_or(|usual| usual != path)
}

/// Any other file, where one was named that may hold something else, which nobody wants to lose.
fn other_than(path: &Path) -> Option<&'static Path> {
    is_named(path).then(|| Path::new("FILE"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_writes_where_the_profile_was_looked_for() {
        let absent = |path: PathBuf| ProfileError::Absent(path).to_string();
        assert!(absent("nope.json".into()).ends_with("; run bytepath tune --profile nope.json"));
        assert!(absent("my own".into()).ends_with("; run bytepath tune --profile 'my own'"));
        if let Some(usual) = Profile::default_path() {
            assert!(absent(usual).ends_with("; run bytepath tune"));
        }
    }
}
