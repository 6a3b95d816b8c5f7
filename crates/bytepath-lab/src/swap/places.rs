//! Whether a directory is fit for swap: its files lie on a device, and that device is no file of
//! another file system.
//!
//! Swap behind a loop device whose image is memory, or is merged from other files, deadlocks the
//! kernel: to free a page it has to write to the device, the device's worker needs pages for the
//! image, and waits for the ones that are to be freed. Nothing ends that but a reboot, so anything in
//! doubt is refused.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

use crate::sys::fiemap;

/// Where areas are made if neither the user nor the working directory is of help.
const FALLBACK: &str = "/var/tmp";

/// Devices that are made of devices that are made of devices: no machine has more layers.
const LAYERS_MAX: u32 = 16;

/// The directory that is asked for, if it is fit; else the working directory, or `FALLBACK`.
///
/// # Errors
/// Why none is, and what to do.
pub fn fit_one(asked: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(asked) = asked {
        return fit(asked);
    }
    fit(Path::new("."))
        .or_else(|here| fit(Path::new(FALLBACK)).map_err(|there| format!("{here}; and {there}")))
}

/// The directory, if its files are fit for swap.
fn fit(directory: &Path) -> Result<PathBuf, String> {
    let unfit = |why: String| {
        format!(
            "{} is not fit for swap: {why}; name a directory on a disk with --dir",
            directory.display()
        )
    };
    let directory = fs::canonicalize(directory).map_err(|error| unfit(error.to_string()))?;
    let probe = tempfile::tempfile_in(&directory).map_err(|error| unfit(error.to_string()))?;
    use std::os::unix::fs::{FileExt, MetadataExt};
    let told = probe.write_all_at(&[1; 1 << 16], 0).and_then(|()| probe.sync_all());
    told.map_err(|error| unfit(error.to_string()))?;
    match fiemap::first_place(&probe) {
        Ok(Some(_)) => {}
        Ok(None) => return Err(unfit("its files have no place on a device".into())),
        Err(_) => {
            return Err(unfit(
                "its file system does not tell where on a device its files lie (memory and overlays \
                 have no such place), and swap there may stop the kernel"
                    .into(),
            ));
        }
    }
    let device = probe.metadata().map_err(|error| unfit(error.to_string()))?.dev();
    on_a_disk(&format!("{}:{}", major(device), minor(device)), 0).map_err(unfit)?;
    Ok(directory)
}

/// Whether a block device, and all that it is made of, is no file.
fn on_a_disk(number: &str, layer: u32) -> Result<(), String> {
    let folder = PathBuf::from(format!("/sys/dev/block/{number}"));
    let folder = fs::canonicalize(&folder)
        .map_err(|_| format!("what its device ({number}) is made of is not told"))?;
    if layer > LAYERS_MAX {
        return Err("its device has more layers than can be looked through".into());
    }
    // A partition's disk is the folder above.
    let disk = match folder.join("partition").exists() {
        true => folder.parent().unwrap_or(&folder),
        false => &folder,
    };
    let name = disk.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if let Ok(file) = fs::read_to_string(disk.join("loop/backing_file")) {
        return Err(format!(
            "it lies on the loop device {name}, which is the file {}",
            file.trim()
        ));
    }
    if ["ram", "zram"].iter().any(|memory| is_numbered(&name, memory)) {
        return Err(format!("it lies on {name}, which is memory"));
    }
    for slave in fs::read_dir(folder.join("slaves")).into_iter().flatten().flatten() {
        let number = fs::read_to_string(slave.path().join("dev"))
            .map_err(|error| format!("what its device {name} is made of is not told: {error}"))?;
        on_a_disk(number.trim(), layer + 1)?;
    }
    Ok(())
}

/// Whether a device has this name and a number.
fn is_numbered(name: &str, word: &str) -> bool {
    let number = name.strip_prefix(word);
    number.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_refused_with_the_remedy_and_nothing_is_left_there() {
        for place in ["/dev/shm", "/proc", "/no/such"] {
            let why = fit_one(Some(Path::new(place))).expect_err("that is no disk");
            assert!(why.contains(place) && why.contains("--dir"), "{why}");
        }
    }

    #[test]
    fn only_devices_of_memory_are_taken_for_such() {
        assert!(is_numbered("zram0", "zram") && is_numbered("ram15", "ram"));
        assert!(!is_numbered("rampart", "ram") && !is_numbered("zram0", "ram"));
    }
}
