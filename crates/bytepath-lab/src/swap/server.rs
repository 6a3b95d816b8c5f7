//! A server of a sample: started in groups, as a user who may do nothing else, in a directory and at
//! a socket of its own; ended with the sample.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, lchown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::confine::{Confinement, NOBODY};
use crate::interrupt;
use crate::pair_work::unnamed;
use crate::pipe_work::{asked_to_end, end, spawn_on};
use crate::tools::words_of;

/// A server that is short of memory comes up slowly; later than this, not at all.
const UP_WITHIN: Duration = Duration::from_secs(180);
/// The same of its end, when it has to write what it holds.
const DOWN_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How a server is run.
pub(super) struct Line<'a> {
    /// This executable.
    pub(super) bytepath: &'a Path,
    /// The server.
    pub(super) program: &'a Path,
    pub(super) words: Vec<String>,
    /// The groups that it is put into.
    pub(super) groups: Vec<PathBuf>,
    /// Where it may write.
    pub(super) directory: &'a Path,
    /// Where it listens.
    pub(super) socket: PathBuf,
}

/// A server that answers; ended when dropped.
pub struct Server {
    child: Option<Child>,
    /// What it is run by.
    pub(super) words: String,
    /// What it says. Without a name, for in its directory others of its user could put something else
    /// of any name.
    log: File,
}

/// So much of what a server said last is looked at.
const LOG_BYTES_MAX: u64 = 1 << 20;

/// Lets the user who runs servers write into a directory, and into nothing that a link there leads to.
pub(super) fn handed_over(directory: &Path) -> std::io::Result<()> {
    lchown(directory, Some(NOBODY), Some(NOBODY))
}

/// Who runs servers.
pub(super) fn user(groups: Vec<PathBuf>) -> Confinement {
    Confinement { groups, user: Some(NOBODY), apart: false }
}

impl Server {
    /// Starts it and waits until somebody listens at its socket.
    pub(super) fn up(line: Line<'_>) -> Result<Server, String> {
        let _ = fs::remove_file(&line.socket);
        let opened = || -> std::io::Result<[File; 3]> {
            let log = unnamed(line.directory)?;
            Ok([log.try_clone()?, log.try_clone()?, log])
        };
        let opened =
            opened().map_err(|error| format!("no log in {}: {error}", line.directory.display()));
        let [out, errors, log] = opened?;
        let mut command = user(line.groups).command(line.bytepath, line.program);
        command.args(&line.words).current_dir(line.directory);
        command.stdin(Stdio::null()).stdout(out).stderr(errors);
        let words = words_of(&command);
        let mut server = Server { child: Some(spawn_on(&mut command, None)?), words, log };
        let until = Instant::now() + UP_WITHIN;
        while UnixStream::connect(&line.socket).is_err() {
            let name = line.program.display();
            if interrupt::wished() {
                return Err("interrupted".into());
            }
            if server.has_ended() {
                return Err(format!("{name} does not come up{}", server.complaint()));
            }
            if Instant::now() > until {
                return Err(format!("{name} does not come up in time{}", server.complaint()));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(server)
    }

    /// Whether it is gone already.
    pub(super) fn has_ended(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_none_or(|child| child.try_wait().map_or(true, |status| status.is_some()))
    }

    /// The last that it said of an error, or said at all; with the hint that belongs to it.
    pub(super) fn complaint(&self) -> String {
        let length = self.log.metadata().map_or(0, |log| log.len());
        let mut text = vec![0; length.min(LOG_BYTES_MAX) as usize];
        // Not by the position, which is the server's own.
        let read = self.log.read_at(&mut text, length.saturating_sub(LOG_BYTES_MAX));
        text.truncate(read.unwrap_or(0));
        complaint(&String::from_utf8_lossy(&text))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            asked_to_end(child, DOWN_WITHIN);
        }
        end(&mut self.child);
    }
}

/// What a log says went wrong, as the end of a sentence.
fn complaint(log: &str) -> String {
    let lines = || log.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let wrong =
        |line: &&str| ["ERROR", "Fatal", "FATAL", "# "].iter().any(|word| line.contains(word));
    let full = ["No space left", "Disk is full", "disk full", "errno: 28", "error number: 28"];
    let is_full = full.iter().any(|word| log.contains(word));
    let hint = if is_full {
        "; its disk is full: name another place with --dir, or take a smaller --size"
    } else {
        ""
    };
    match lines().find(wrong).or_else(|| lines().next()) {
        Some(line) => format!(": {line}{hint}"),
        None => hint.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn what_a_server_says_goes_through_no_link_in_its_directory() {
        let directory = tempfile::tempdir().expect("a folder");
        let [precious, link] = ["precious", "server.log"].map(|name| directory.path().join(name));
        fs::write(&precious, "precious").expect("written");
        std::os::unix::fs::symlink(&precious, &link).expect("made");
        // Not a `bytepath` that confines, but a shell that finds no script of that name.
        let up = Server::up(Line {
            bytepath: Path::new("/bin/sh"),
            program: Path::new("a server"),
            words: Vec::new(),
            groups: Vec::new(),
            directory: directory.path(),
            socket: directory.path().join("socket"),
        });
        let why = up.err().expect("nobody listens");
        assert!(why.starts_with("a server does not come up: ") && why.contains("confine"), "{why}");
        assert_eq!(fs::read_to_string(&precious).expect("it is there"), "precious");
        assert_eq!(fs::read_dir(&directory).expect("it lists").count(), 2);
    }

    #[test]
    fn only_a_directory_itself_is_handed_over_and_not_what_it_links_to() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: giving folders to others takes root");
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).expect("made");
        handed_over(&link).expect("root may");
        let owner = |path: &Path| path.symlink_metadata().expect("it is there").uid();
        assert_eq!((owner(&link), owner(folder.path())), (NOBODY, 0));
    }

    #[test]
    fn a_full_disk_is_told_with_the_remedy() {
        let log = "2026 0 [Note] starting\n2026 0 [ERROR] mariadbd: Disk is full writing '/d/x' \
                   (Errcode: 28 \"No space left on device\")\n2026 0 [Note] bye\n";
        let said = complaint(log);
        assert!(said.contains("[ERROR]") && said.contains("--dir"), "{said}");
        assert_eq!(complaint(""), "");
        assert_eq!(complaint("a\nb\n\n"), ": b");
    }
}
