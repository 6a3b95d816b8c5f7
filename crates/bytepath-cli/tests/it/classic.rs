//! A classic and the command that stands in for it, on the same input: all that can be seen of a
//! program is compared. The bytes, the messages, how it ended, and the files that it left.
//!
//! What is run is a line of shell in which the classic is called by its name. Both run it in a
//! folder of their own with the same files, and with a link of that name in front of the PATH, so
//! that even the program's own name in its messages is the same.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::calls::fired;
use crate::program::{BYTEPATH, installed, run};

/// Where a line that is run with faults keeps what they met, beside its folder.
pub(crate) const LOG: &str = "../log";

/// A program that everybody has, and what it is.
pub(crate) struct Classic {
    pub(crate) name: &'static str,
    pub(crate) path: PathBuf,
    /// Of the first line that it prints about itself: (9, 1).
    pub(crate) version: (u32, u32),
    /// What is looked at of the folder when it has ended: names and what they hold.
    pub(crate) look: fn(&Path) -> BTreeMap<PathBuf, Vec<u8>>,
    /// Where the folders are made.
    pub(crate) scratch: PathBuf,
}

impl Classic {
    /// The classic of this name by its maker, whose name `--version` prints; `None`, said aloud,
    /// where it is missing or somebody else's.
    pub(crate) fn of(name: &'static str, maker: &str) -> Option<Classic> {
        if !installed(name) {
            return None;
        }
        let found = run(Command::new("sh").args(["-c", &format!("command -v {name}")]));
        let told = run(Command::new(name).arg("--version")).stdout;
        let first = told.lines().next().unwrap_or_default();
        if !first.contains(maker) {
            println!("skipped: {name} is not that of {maker}: {first}");
            return None;
        }
        let number = |part: Option<&str>| part.and_then(|part| part.parse().ok()).unwrap_or(0);
        let mut parts = first.rsplit(' ').next().unwrap_or_default().split('.');
        let version = (number(parts.next()), number(parts.next()));
        let (path, scratch) = (found.stdout.trim_end().into(), std::env::temp_dir());
        Some(Classic { name, path, version, look: files, scratch })
    }

    /// Runs the line as the classic and as ours, after `prepare` has put the same files into the
    /// folder of each.
    #[track_caller]
    pub(crate) fn both(&self, line: &str, prepare: impl Fn(&Path)) -> Both {
        let theirs = self.outcome(&self.path, line, &prepare);
        let ours = self.outcome(Path::new(BYTEPATH), line, &prepare);
        Both { line: line.to_owned(), theirs, ours }
    }

    #[track_caller]
    fn outcome(&self, program: &Path, line: &str, prepare: &impl Fn(&Path)) -> Outcome {
        let folder = tempfile::tempdir_in(&self.scratch).expect("a folder");
        let (bin, work) = (folder.path().join("bin"), folder.path().join("work"));
        for folder in [&bin, &work] {
            std::fs::create_dir(folder).expect("a folder in it");
        }
        // An ordinary user is to get there too.
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).expect("it is ours");
        symlink(program, bin.join(self.name)).expect("a link");
        prepare(&work);
        let path = std::env::var("PATH").unwrap_or_default();
        let done = run(Command::new("sh")
            .args(["-c", line])
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("LC_ALL", "C.UTF-8")
            .env_remove("POSIXLY_CORRECT")
            .env_remove("RUST_BACKTRACE")
            .current_dir(&work)
            .stdin(Stdio::null()));
        assert!(!done.stderr.contains("panicked"), "{line}: {done:?}");
        let log = work.join(LOG);
        Outcome {
            fault_fired: log.exists() && fired(&log),
            stdout: done.bytes,
            stderr: done.stderr,
            end: (done.status.code(), done.status.signal()),
            files: (self.look)(&work),
        }
    }
}

/// The files of a folder with their contents; those that cannot be read are not looked at.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(folder).expect("it is ours").flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    files
        .filter_map(|file| Some((file.file_name().into(), std::fs::read(file.path()).ok()?)))
        .collect()
}

/// What a program did.
#[derive(PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    /// Exit code, signal.
    pub(crate) end: (Option<i32>, Option<i32>),
    files: BTreeMap<PathBuf, Vec<u8>>,
    fault_fired: bool,
}

impl Outcome {
    /// The files that it left.
    pub(crate) fn files(&self) -> &BTreeMap<PathBuf, Vec<u8>> {
        &self.files
    }

    /// What a file that it left holds.
    #[track_caller]
    pub(crate) fn file(&self, name: &str) -> &[u8] {
        self.files.get(Path::new(name)).unwrap_or_else(|| panic!("it left no file {name}"))
    }
}

/// What both did.
#[must_use]
pub(crate) struct Both {
    line: String,
    pub(crate) theirs: Outcome,
    pub(crate) ours: Outcome,
}

impl Both {
    /// The faults of the line, kept in [`LOG`], met calls of ours.
    #[track_caller]
    pub(crate) fn fired(self) -> Both {
        assert!(self.ours.fault_fired, "no fault ever fires: {}", self.line);
        self
    }

    /// Nobody can tell which is which.
    #[track_caller]
    pub(crate) fn same(&self) {
        self.same_words();
        let (theirs, ours) = (&self.theirs, &self.ours);
        self.same_bytes("standard output", &theirs.stdout, &ours.stdout);
        let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&ours.files), names(&theirs.files), "left: ours; {}", self.line);
        for (name, bytes) in &theirs.files {
            self.same_bytes(&name.display().to_string(), bytes, &ours.files[name]);
        }
    }

    /// They say the same and end alike; for faults that meet each at another byte.
    #[track_caller]
    pub(crate) fn same_words(&self) {
        let (theirs, ours) = (&self.theirs, &self.ours);
        assert_eq!(ours.stderr, theirs.stderr, "left: ours; {}", self.line);
        assert_eq!(ours.end, theirs.end, "left: ours; {}", self.line);
    }

    /// Ours has nothing to complain about, and leaves what the classic would.
    #[track_caller]
    pub(crate) fn ours_well(&self) {
        assert_eq!((self.ours.stderr.as_str(), self.ours.end), ("", (Some(0), None)));
        assert!(self.ours.files.keys().eq(self.theirs.files.keys()), "{}", self.line);
    }

    #[track_caller]
    fn same_bytes(&self, what: &str, theirs: &[u8], ours: &[u8]) {
        let Some(at) = differ_at(theirs, ours) else { return };
        let near = |bytes: &[u8]| {
            let around = &bytes[at.saturating_sub(20)..bytes.len().min(at + 20)];
            format!("{} bytes, …{}…", bytes.len(), around.escape_ascii())
        };
        let (line, theirs, ours) = (&self.line, near(theirs), near(ours));
        panic!("{line}: {what} differs at byte {at}\ntheirs: {theirs}\nours:   {ours}");
    }
}

/// The first byte that two have not in common.
pub(crate) fn differ_at(one: &[u8], other: &[u8]) -> Option<usize> {
    // Equal ones are the rule, and compared as one; byte by byte takes long without optimisation.
    if one == other {
        return None;
    }
    let common = one.iter().zip(other).position(|(one, other)| one != other);
    common.or(Some(one.len().min(other.len())))
}
