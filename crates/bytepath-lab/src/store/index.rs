//! The index of the store: an SQLite database of what a listing tells of each record.
//!
//! It holds nothing that the records do not, so it is never worth an error: one that is damaged is
//! made anew, and where none can be kept (a store that is read-only, a full disk) one is made in
//! memory, for this time.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytepath_report::{Record, Status};
use rusqlite::{Connection, ErrorCode, OpenFlags, Row, params};

use super::{KeptFile, Listing, StoreError, read_record};

/// Another version of the tables has another name, so that a newer bytepath and an older one keep an
/// index each.
const FILE: &str = "index-1.sqlite";

/// What SQLite may put beside it.
const BESIDE: [&str; 3] = ["", "-journal", "-wal"];

/// Others hold it for moments.
const BUSY: Duration = Duration::from_secs(10);

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS runs (
        name TEXT PRIMARY KEY, bytes INTEGER NOT NULL, modified_ns INTEGER NOT NULL,
        id TEXT NOT NULL, started TEXT NOT NULL, experiment TEXT NOT NULL,
        blocks INTEGER NOT NULL, arms INTEGER NOT NULL, arms_ok INTEGER NOT NULL,
        trusted INTEGER NOT NULL, version TEXT NOT NULL, build TEXT NOT NULL,
        kernel TEXT NOT NULL, problem TEXT
    ) WITHOUT ROWID;";

/// What the index knows of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// The name of the run in the store.
    pub name: String,
    /// The size of its record, in bytes.
    pub bytes: u64,
    /// When the record was last written: nanoseconds since 1970.
    pub modified_ns: i64,
    /// The id in the record.
    pub id: String,
    /// When the run started.
    pub started: String,
    /// The experiment.
    pub experiment: String,
    /// How many blocks.
    pub blocks: u32,
    /// How many arms.
    pub arms: u32,
    /// How many of them ran.
    pub arms_ok: u32,
    /// Whether the figures may be believed.
    pub trusted: bool,
    /// The version of the bytepath that measured.
    pub version: String,
    /// Its build.
    pub build: String,
    /// The kernel.
    pub kernel: String,
    /// Why the record cannot be read; all but name and size is empty then.
    pub problem: Option<String>,
}

/// The listing of these files, by an index in `folder` that is right afterwards, if it can be.
pub(super) fn up_to_date(folder: &Path, files: &[KeptFile]) -> Result<Listing, StoreError> {
    let path = folder.join(FILE);
    let there = path.exists();
    let error = match listed(|| opened(&path), files) {
        Ok(entries) => return Ok(Listing { entries, mended: None }),
        Err(error) => error,
    };
    let records = count(files.len());
    if there && !is_about_the_disk(&error) && removed(&path).is_ok() {
        let entries = listed(|| opened(&path), files);
        let entries = entries.or_else(|_| listed(Connection::open_in_memory, files))?;
        let mended = format!(
            "the index of the store was damaged ({error}) and has been made anew from {records}"
        );
        return Ok(Listing { entries, mended: Some(mended) });
    }
    let entries = listed(Connection::open_in_memory, files)?;
    let mended =
        format!("no index can be kept in {} ({error}); read {records} instead", folder.display());
    Ok(Listing { entries, mended: Some(mended) })
}

fn count(records: usize) -> String {
    format!("{records} record{}", if records == 1 { "" } else { "s" })
}

/// Whether another file in its place would have fared no better.
fn is_about_the_disk(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::ReadOnly
                | ErrorCode::CannotOpen
                | ErrorCode::DiskFull
                | ErrorCode::PermissionDenied
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::SystemIoFailure
                | ErrorCode::OutOfMemory
        )
    )
}

fn removed(path: &Path) -> std::io::Result<()> {
    for ending in BESIDE {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        match std::fs::remove_file(PathBuf::from(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn opened(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let index = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    index.busy_timeout(BUSY)?;
    // What can be made anew need not be waited for.
    index.execute_batch("PRAGMA synchronous = OFF;")?;
    Ok(index)
}

/// Opens an index, makes it right for these files, and lists them by it.
fn listed(
    open: impl FnOnce() -> rusqlite::Result<Connection>,
    files: &[KeptFile],
) -> rusqlite::Result<Vec<Entry>> {
    let mut index = open()?;
    index.execute_batch(TABLES)?;
    let known: HashMap<_, _> =
        all(&index)?.into_iter().map(|entry| (entry.name.clone(), entry)).collect();
    // What kept a record from being read may have passed, which neither its size nor its time tells.
    let is_known = |file: &KeptFile| {
        known.get(&file.name).is_some_and(|entry| {
            entry.problem.is_none()
                && entry.bytes == file.bytes
                && entry.modified_ns == file.modified_ns
        })
    };
    let fresh = files.iter().filter(|file| !is_known(file)).map(entry);
    let changed: Vec<_> = fresh.filter(|entry| known.get(&entry.name) != Some(entry)).collect();
    let names: std::collections::HashSet<_> = files.iter().map(|file| &file.name).collect();
    let gone: Vec<_> = known.keys().filter(|name| !names.contains(name)).collect();
    if !changed.is_empty() || !gone.is_empty() {
        let change = index.transaction()?;
        for name in gone {
            change.execute("DELETE FROM runs WHERE name = ?1", [name])?;
        }
        for entry in &changed {
            add(&change, entry)?;
        }
        change.commit()?;
    }
    all(&index)
}

fn all(index: &Connection) -> rusqlite::Result<Vec<Entry>> {
    let mut all = index.prepare(
        "SELECT name, bytes, modified_ns, id, started, experiment, blocks, arms, arms_ok, trusted, \
         version, build, kernel, problem FROM runs ORDER BY started, modified_ns, name",
    )?;
    all.query_map([], read)?.collect()
}

fn add(index: &Connection, entry: &Entry) -> rusqlite::Result<usize> {
    index.execute(
        "INSERT OR REPLACE INTO runs VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14)",
        params![
            entry.name,
            as_signed(entry.bytes),
            entry.modified_ns,
            entry.id,
            entry.started,
            entry.experiment,
            entry.blocks,
            entry.arms,
            entry.arms_ok,
            entry.trusted,
            entry.version,
            entry.build,
            entry.kernel,
            entry.problem
        ],
    )
}

fn read(row: &Row<'_>) -> rusqlite::Result<Entry> {
    Ok(Entry {
        name: row.get(0)?,
        bytes: row.get::<_, i64>(1)?.unsigned_abs(),
        modified_ns: row.get(2)?,
        id: row.get(3)?,
        started: row.get(4)?,
        experiment: row.get(5)?,
        blocks: row.get(6)?,
        arms: row.get(7)?,
        arms_ok: row.get(8)?,
        trusted: row.get(9)?,
        version: row.get(10)?,
        build: row.get(11)?,
        kernel: row.get(12)?,
        problem: row.get(13)?,
    })
}

fn as_signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// What a file says of its run.
fn entry(file: &KeptFile) -> Entry {
    let of_file = Entry {
        name: file.name.clone(),
        bytes: file.bytes,
        modified_ns: file.modified_ns,
        ..Entry::default()
    };
    match read_record(&file.path) {
        Ok(record) => of_record(record, of_file),
        Err(error) => Entry { problem: Some(why(&error)), ..of_file },
    }
}

/// What is wrong, without the place, which the name tells.
fn why(error: &StoreError) -> String {
    match error {
        StoreError::File { error, .. } => error.to_string(),
        StoreError::NoRecord { error, .. } => error.to_string(),
        other => other.to_string(),
    }
}

fn of_record(record: Record, of_file: Entry) -> Entry {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let ok = record.arms.iter().filter(|arm| arm.status == Status::Ok).count();
    Entry {
        id: record.id,
        started: record.started,
        experiment: record.experiment.name,
        blocks: record.blocks,
        arms: count(record.arms.len()),
        arms_ok: count(ok),
        trusted: record.trusted,
        version: record.bytepath.version,
        build: record.bytepath.build,
        kernel: record.machine.kernel,
        ..of_file
    }
}
