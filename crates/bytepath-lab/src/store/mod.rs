//! The runs that were measured here, kept: a folder of records, and an index of it.
//!
//! The records are the store; whoever copies a record into the folder has put it into the store, and
//! whoever deletes one has taken it out. The index (`index`) spares reading all of them to list
//! them, is brought up to date whenever somebody looks, and is made anew from the records where it
//! is damaged. So a run is kept by writing one file, under a passing name, which is then renamed:
//! runs that end at once cannot meet, and one that cannot be kept leaves nothing.

mod index;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytepath_report::{ReadError, Record, WriteError};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};

pub use index::Entry;

/// No record is as large: 10,000 blocks of fifty arms are half of it.
pub const RECORD_BYTES_MAX: u64 = 256 << 20;

/// How the file of a record ends.
const ENDING: &str = ".json";

/// How the names of files begin that are not finished.
const PASSING: &str = ".new-";

/// A file that was not finished after so long never will be.
const PASSING_MAX: Duration = Duration::from_secs(3600);

/// So many runs of one name in one second are a mistake.
const SAME_NAMES_MAX: u32 = 1000;

/// Names of files have at most 255 bytes.
const NAME_BYTES_MAX: usize = 200;

/// The store in a folder.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

/// The runs in a store, the oldest first.
#[derive(Debug)]
pub struct Listing {
    /// One entry for each record.
    pub entries: Vec<Entry>,
    /// What had to be done to the index, for a person; `None` where it was as it should be.
    pub mended: Option<String>,
}

/// Why something cannot be done with the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or folder of it cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The kernel's word.
        error: std::io::Error,
    },
    /// A run cannot be written as a record.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A file is no record.
    #[error("{}: {error}", path.display())]
    NoRecord {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        error: ReadError,
    },
    /// A file is larger than a record can be.
    #[error("{}: larger than {} MiB, so no record", path.display(), RECORD_BYTES_MAX >> 20)]
    TooLarge {
        /// Which.
        path: PathBuf,
    },
    /// The index cannot even be made in memory.
    #[error("the index of the store: {0}")]
    Index(#[from] rusqlite::Error),
}

impl Store {
    /// Where the store of this user is: `bytepath` in `$XDG_DATA_HOME`, or in `~/.local/share`.
    /// `None` where neither is known.
    pub fn default_path() -> Option<PathBuf> {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let data = absolute("XDG_DATA_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))?;
        Some(data.join("bytepath"))
    }

    /// The store in this folder, which need not be there yet.
    pub fn at(folder: PathBuf) -> Store {
        Store { folder }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn records(&self) -> PathBuf {
        self.folder.join("records")
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.records().join(format!("{name}{ENDING}"))
    }

    /// Keeps a run, and tells the name by which it is found again: its id, with a number where there
    /// is such a one already.
    ///
    /// # Errors
    /// There is no right or no room; nothing is left then.
    pub fn keep(&self, record: &Record) -> Result<String, StoreError> {
        let text = record.to_json()?;
        let records = self.records();
        let failed = |error| StoreError::File { path: records.clone(), error };
        std::fs::create_dir_all(&records).map_err(failed)?;
        let mut file =
            tempfile::Builder::new().prefix(PASSING).tempfile_in(&records).map_err(failed)?;
        file.as_file_mut().write_all(text.as_bytes()).map_err(failed)?;
        // A file system may say only now that there is no room.
        file.as_file().sync_all().map_err(failed)?;
        let id = safe(&record.id);
        for number in 1..=SAME_NAMES_MAX {
            let name = if number == 1 { id.clone() } else { format!("{id}-{number}") };
            match file.persist_noclobber(self.path_of(&name)) {
                Ok(_) => return Ok(name),
                Err(refused) if refused.error.kind() == std::io::ErrorKind::AlreadyExists => {
                    file = refused.file;
                }
                Err(refused) => return Err(failed(refused.error)),
            }
        }
        Err(failed(std::io::Error::other(format!("{SAME_NAMES_MAX} runs are called {id}"))))
    }

    /// The runs that are kept; none where there is no store.
    ///
    /// # Errors
    /// The folder of records cannot be read.
    pub fn list(&self) -> Result<Listing, StoreError> {
        let files = self.files()?;
        if files.is_empty() && !self.folder.exists() {
            return Ok(Listing { entries: Vec::new(), mended: None });
        }
        // Where there are no locks, an index that two write at once is made anew by the next.
        let lock = File::open(&self.folder).ok();
        let _locked = lock.as_ref().map(|folder| flock(folder, FlockOperation::LockExclusive));
        index::up_to_date(&self.folder, &files)
    }

    /// The record of this name, as a listing tells it.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn read(&self, name: &str) -> Result<Record, StoreError> {
        read_record(&self.path_of(name))
    }

    /// The bytes of that record.
    ///
    /// # Errors
    /// As [`Store::read`], but for what is wrong within the file.
    pub fn bytes(&self, name: &str) -> Result<Vec<u8>, StoreError> {
        read_bytes(&self.path_of(name))
    }

    /// Removes the run of this name.
    ///
    /// # Errors
    /// There is none, or no right to remove it.
    pub fn remove(&self, name: &str) -> Result<(), StoreError> {
        let path = self.path_of(name);
        std::fs::remove_file(&path).map_err(|error| StoreError::File { path, error })
    }

    /// The files of records, and removes those that were never finished.
    fn files(&self) -> Result<Vec<KeptFile>, StoreError> {
        let records = self.records();
        let failed = |error| StoreError::File { path: records.clone(), error };
        let entries = match std::fs::read_dir(&records) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            // One that is gone by now is no run any more.
            let Ok(mut found) = entry.metadata() else { continue };
            if name.starts_with(PASSING) {
                let age = found.modified().ok().and_then(|then| then.elapsed().ok());
                if age.is_some_and(|age| age > PASSING_MAX) {
                    let _ = std::fs::remove_file(entry.path());
                }
                continue;
            }
            let Some(name) = name.strip_suffix(ENDING) else { continue };
            // A link is read as what it leads to, which changes while it does not.
            found = std::fs::metadata(entry.path()).unwrap_or(found);
            files.push(KeptFile {
                name: name.to_owned(),
                path: entry.path(),
                bytes: found.len(),
                modified_ns: nanoseconds(found.modified().ok()),
            });
        }
        Ok(files)
    }
}

/// A file in the folder of records.
struct KeptFile {
    name: String,
    path: PathBuf,
    bytes: u64,
    modified_ns: i64,
}

fn nanoseconds(time: Option<SystemTime>) -> i64 {
    let since = time.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    since.map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// A record from a file.
///
/// # Errors
/// It cannot be opened, is no regular file, is too large, or is no record.
pub fn read_record(path: &Path) -> Result<Record, StoreError> {
    let bytes = read_bytes(path)?;
    let text = String::from_utf8_lossy(&bytes);
    Record::from_json(&text).map_err(|error| StoreError::NoRecord { path: path.to_owned(), error })
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, StoreError> {
    let failed = |error: std::io::Error| StoreError::File { path: path.to_owned(), error };
    // A FIFO, say, would be waited for: here, or when it is read.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file =
        rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
    let file = File::from(file);
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(failed(std::io::Error::other("not a regular file, so no record")));
    }
    if about.len() > RECORD_BYTES_MAX {
        return Err(StoreError::TooLarge { path: path.to_owned() });
    }
    let mut bytes = Vec::new();
    file.take(RECORD_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() as u64 > RECORD_BYTES_MAX {
        true => Err(StoreError::TooLarge { path: path.to_owned() }),
        false => Ok(bytes),
    }
}

/// An id as the name of a file in the folder and nowhere else, whoever made the id.
fn safe(id: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_:.+".contains(c);
    let mut name: String = id.chars().map(|c| if allowed(c) { c } else { '-' }).collect();
    name.truncate(NAME_BYTES_MAX);
    match name.trim_start_matches(['.', '-']) {
        "" => "run".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_leads_out_of_the_folder() {
        let cases = [
            ("pipes-2026-03-01T12:00:00Z-002a", "pipes-2026-03-01T12:00:00Z-002a"),
            ("../../etc/passwd", "etc-passwd"),
            ("", "run"),
            ("..", "run"),
            (".new-x", "new-x"),
            ("a\0b\nc/d", "a-b-c-d"),
        ];
        for (id, name) in cases {
            assert_eq!(safe(id), name, "{id:?}");
        }
        assert!(safe(&"x".repeat(1000)).len() <= NAME_BYTES_MAX);
    }
}
