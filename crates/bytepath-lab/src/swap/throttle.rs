//! A disk made slow: a limit on what a block device reads and writes in a second, by the block
//! controller of cgroups (Documentation/admin-guide/cgroup-v1/blkio-controller.rst, cgroup-v2.rst).
//!
//! Pages that are swapped out are written in the name of the root group where the hierarchy is of
//! version 1, since that of the memory controller is another; so there the limit is the root's, of
//! this one device, and the processes of the sample are put into the root. With version 2 it is that
//! of the group whose pages they are.

use std::fs;
use std::path::{Path, PathBuf};

use super::group::MemoryGroup;
use crate::cgroups::{Hierarchy, Version};
use crate::kept_settings::{Changed, Setting};

/// A limit on a device.
#[derive(Debug)]
pub(super) struct Throttle {
    /// `MAJOR:MINOR`.
    number: String,
    bytes_per_second: u64,
    hierarchy: Hierarchy,
    _root: Option<Changed>,
}

/// Where limits on reading and writing are told and set, with version 1.
fn files(root: &Path) -> [PathBuf; 2] {
    ["read", "write"].map(|what| root.join(format!("blkio.throttle.{what}_bps_device")))
}

/// Whether this is a file that a run may change.
pub(crate) fn changes(file: &Path) -> bool {
    Hierarchy::of("blkio").is_ok_and(|found| files(&found.root).iter().any(|own| own == file))
}

impl Throttle {
    pub(super) fn of_device(device: &Path, bytes_per_second: u64) -> Result<Throttle, String> {
        let name = device.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let number = fs::read_to_string(format!("/sys/block/{name}/dev"))
            .map_err(|error| format!("{name}: {error}"))?
            .trim()
            .to_owned();
        let hierarchy = Hierarchy::of("blkio").ok().filter(|found| found.version == Version::V1);
        let hierarchy = hierarchy.map_or_else(|| Hierarchy::of("io"), Ok)?;
        let root = match hierarchy.version {
            Version::V2 => None,
            Version::V1 => {
                let setting = |file| Setting {
                    file,
                    during: format!("{number} {bytes_per_second}"),
                    after: format!("{number} 0"),
                };
                let settings = files(&hierarchy.root).map(setting);
                if let Some(none) = settings.iter().find(|setting| !setting.file.exists()) {
                    return Err(format!(
                        "this kernel cannot slow down a device: there is no {}; it takes \
                         CONFIG_BLK_DEV_THROTTLING",
                        none.file.display()
                    ));
                }
                Some(Changed::make(settings.into())?)
            }
        };
        Ok(Throttle { number, bytes_per_second, hierarchy, _root: root })
    }

    /// Applies the limit to a group, and says which groups its processes have to be put into beside
    /// that.
    pub(super) fn apply(&self, group: &MemoryGroup) -> Result<Vec<PathBuf>, String> {
        match self.hierarchy.version {
            Version::V1 => Ok(vec![self.hierarchy.root.clone()]),
            Version::V2 => {
                let (number, rate) = (&self.number, self.bytes_per_second);
                group.set("io.max", &format!("{number} rbps={rate} wbps={rate}")).map_err(|why| {
                    format!(
                        "{why}; no cgroup gives its children the io controller; as root: echo +io \
                         >{}/cgroup.subtree_control",
                        self.hierarchy.root.display()
                    )
                })?;
                Ok(Vec::new())
            }
        }
    }
}
