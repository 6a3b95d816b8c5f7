//! The file that holds the number of this process while it runs.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::live::Live;
use crate::output;

/// Where files are that have to go with the process, also when a signal ends it.
static WRITTEN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A file that is removed when this is dropped.
pub(crate) struct Pidfile(());

impl Pidfile {
    /// Writes it whole or not at all, in the place of an older one. From then on signals are
    /// caught: one that ended this process would leave it.
    pub(crate) fn write(path: &Path, live: &Live) -> std::io::Result<Pidfile> {
        use std::os::unix::fs::PermissionsExt;
        if let Some(open) = output::descriptor(path) {
            // Its name, as /dev/stdout, is no file's, and nobody's to replace or to remove.
            writeln!(open?, "{}", std::process::id())?;
            return Ok(Pidfile(()));
        }
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            // A device stays what it is.
            std::fs::write(path, format!("{}\n", std::process::id()))?;
            return Ok(Pidfile(()));
        }
        live.catch_signals();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut file = tempfile::Builder::new()
            .permissions(std::fs::Permissions::from_mode(0o644))
            .tempfile_in(folder.unwrap_or(Path::new(".")))?;
        writeln!(file, "{}", std::process::id())?;
        file.persist(path)?;
        // A signal may come when another folder is current.
        remember(std::path::absolute(path)?);
        Ok(Pidfile(()))
    }
}

impl Drop for Pidfile {
    fn drop(&mut self) {
        remove_all();
    }
}

/// Notes a file that is to be removed at the end.
pub(crate) fn remember(path: PathBuf) {
    if let Ok(mut written) = WRITTEN.lock() {
        written.push(path);
    }
}

/// Removes all that were noted.
pub(crate) fn remove_all() {
    if let Ok(mut written) = WRITTEN.lock() {
        for path in written.drain(..) {
            let _ = std::fs::remove_file(path);
        }
    }
}
