//! The file systems that were measured.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::machine;

/// A file system that was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Place {
    /// The directory that was measured in.
    pub directory: PathBuf,
    /// Its type, such as `ext4`.
    pub file_system: String,
    /// The options it was mounted with.
    pub options: Vec<String>,
    /// The device number of files there (`st_dev`).
    pub device: u64,
    /// When it was measured, where that was before the rest of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Earlier>,
}

/// When figures were measured that are kept from an older profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Earlier {
    /// When, as RFC 3339.
    pub made: String,
    /// What others did then, where it was so much that the figures may be far off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbed: Option<String>,
}

impl Place {
    /// Whether its number is any that was free when it was mounted, as those of tmpfs, overlay, btrfs
    /// and NFS are: another file system may have it after the next start of the kernel.
    pub(super) fn is_numbered_at_will(&self) -> bool {
        rustix::fs::major(self.device) == 0
    }

    /// What has changed since it was measured, for people: nothing while the directory is on the file
    /// system that it was on, mounted as it was.
    pub fn changed(&self) -> Option<String> {
        let name = self.directory.display();
        let now = match machine::file_system(&self.directory) {
            Ok(now) => now,
            Err(error) => return Some(error.to_string()),
        };
        if now.name != self.file_system {
            return Some(format!("{name} was on {} and is on {}", self.file_system, now.name));
        }
        let (then, now) = (self.options.join(","), now.options.join(","));
        (then != now).then(|| format!("{name} was mounted with {then} and is with {now}"))
    }
}

/// As `ext4 (/var/tmp)`. A profile from somewhere else must not command the terminal.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&harmless(&format!("{} ({})", self.file_system, self.directory.display())))
    }
}

pub(super) fn harmless(text: &str) -> String {
    let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(shown).collect()
}
