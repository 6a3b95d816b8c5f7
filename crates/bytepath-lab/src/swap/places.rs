//! Whether a directory is fit for swap: its files lie on a device, and that device is no file of
//! another file system.
//!
//! Swap behind a loop device whose image is memory, or is merged from other files, deadlocks the
//! kernel: to free a page it has to write to the device, the device's worker needs pages for the
//! image, and waits for the ones that are to be freed. Nothing ends that but a reboot, so anything in
//! doubt is refused.

use std::fs;
use std::io::ErrorKind;
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
    let number = format!("{}:{}", major(device), minor(device));
    on_a_disk(Path::new(DEVICES), &number, 0).map_err(unfit)?;
    Ok(directory)
}

/// Where the kernel tells of every block device, by its number.
const DEVICES: &str = "/sys/dev/block";

/// Whether a block device, and all that it is made of, is no file.
fn on_a_disk(devices: &Path, number: &str, layer: u32) -> Result<(), String> {
    let untold = |error: std::io::Error| {
        format!("what its device ({number}) is made of is not told: {error}")
    };
    let folder = fs::canonicalize(devices.join(number)).map_err(untold)?;
    if layer > LAYERS_MAX {
        return Err("its device has more layers than can be looked through".into());
    }
    // A partition's disk is the folder above, and it is the disk that is made of others.
    let disk = match folder.join("partition").exists() {
        true => folder.parent().unwrap_or(&folder),
        false => &folder,
    };
    let name = disk.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match fs::read(disk.join("loop/backing_file")) {
        Ok(file) => {
            let file = String::from_utf8_lossy(&file);
            let file = file.trim();
            return Err(format!("it lies on the loop device {name}, which is the file {file}"));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(untold(error)),
    }
    if ["ram", "zram"].iter().any(|memory| is_numbered(&name, memory)) {
        return Err(format!("it lies on {name}, which is memory"));
    }
    for slave in fs::read_dir(disk.join("slaves")).map_err(untold)? {
        let slave = slave.map_err(untold)?.path().join("dev");
        let number = fs::read_to_string(slave).map_err(untold)?;
        on_a_disk(devices, number.trim(), layer + 1)?;
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
        let memory = tempfile::tempdir_in("/dev/shm").expect("a folder");
        for place in [memory.path(), "/proc".as_ref(), "/no/such".as_ref()] {
            let why = fit_one(Some(place)).expect_err("that is no disk");
            assert!(why.contains(&*place.to_string_lossy()) && why.contains("--dir"), "{why}");
        }
        assert_eq!(fs::read_dir(memory.path()).expect("it is there").count(), 0);
    }

    /// What a kernel tells of a loop device, of a disk, and of the partitions of what is made of each.
    #[test]
    fn a_partition_is_made_of_what_its_disk_is_made_of() {
        let root = tempfile::tempdir().expect("a folder");
        let devices = root.path().join("dev");
        fs::create_dir(&devices).expect("made");
        let made = |number: &str, folder: &str, made_of: Option<&str>| {
            let folder = root.path().join(folder);
            fs::create_dir_all(&folder).expect("made");
            fs::write(folder.join("dev"), format!("{number}\n")).expect("written");
            std::os::unix::fs::symlink(&folder, devices.join(number)).expect("linked");
            let Some(made_of) = made_of else {
                return fs::write(folder.join("partition"), "1\n").expect("written");
            };
            fs::create_dir(folder.join("slaves")).expect("made");
            if !made_of.is_empty() {
                let slave = folder.join("slaves").join(made_of);
                std::os::unix::fs::symlink(root.path().join(made_of), slave).expect("linked");
            }
        };
        made("7:0", "loop0", Some(""));
        fs::create_dir(root.path().join("loop0/loop")).expect("made");
        // A name need not be text.
        fs::write(root.path().join("loop0/loop/backing_file"), b"/run/\xff\n").expect("written");
        made("7:1", "loop1", Some(""));
        fs::create_dir_all(root.path().join("loop1/loop/backing_file")).expect("made");
        made("9:0", "md0", Some("loop0"));
        made("259:0", "md0/md0p1", None);
        made("8:0", "sda", Some(""));
        made("9:1", "md1", Some("sda"));
        made("259:1", "md1/md1p1", None);
        for number in ["7:0", "9:0", "259:0"] {
            let why = on_a_disk(&devices, number, 0).expect_err("it is a file");
            assert_eq!(why, "it lies on the loop device loop0, which is the file /run/\u{fffd}");
        }
        for number in ["8:0", "9:1", "259:1"] {
            assert_eq!(on_a_disk(&devices, number, 0), Ok(()), "{number}");
        }
        fs::remove_dir_all(root.path().join("md1/slaves")).expect("removed");
        for number in ["7:1", "259:1"] {
            let why = on_a_disk(&devices, number, 0).expect_err("nobody knows");
            assert!(why.contains(&format!("({number}) is made of is not told")), "{why}");
        }
    }

    #[test]
    fn only_devices_of_memory_are_taken_for_such() {
        assert!(is_numbered("zram0", "zram") && is_numbered("ram15", "ram"));
        assert!(!is_numbered("rampart", "ram") && !is_numbered("zram0", "ram"));
    }
}
