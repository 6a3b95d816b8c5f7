//! The files that an experiment drives: made for the run, or given; and whether the page cache has
//! them, seen to and verified.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bytepath::machine::{self, DeviceUse};
use bytepath::page_cache;
use bytepath_report::numbers;
use rustix::fs::{FallocateFlags, FileType, OFlags, SeekFrom};
use rustix::io::Errno;

use crate::devices::Made;
use crate::drive::Contents;

/// Pages that are just in use cannot be dropped; after so many attempts they are no accident.
const ATTEMPTS: u32 = 5;

/// Files to be driven.
pub struct FileSet {
    files: Vec<Driven>,
    /// The file below a loop device, and what the page cache is to have of it.
    image: Option<(Driven, State)>,
}

/// One of them.
struct Driven {
    file: File,
    path: PathBuf,
    /// How much of it is asked for.
    bytes: u64,
}

/// What the page cache is to have of the files before a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// All of them.
    Hot,
    /// Nothing.
    Cold,
}

impl State {
    /// Its name in a record.
    pub fn name(self) -> &'static str {
        match self {
            State::Hot => "hot: every page resident, by mincore",
            State::Cold => "cold: no page resident, by mincore",
        }
    }
}

/// Why there are no files to drive.
#[derive(Debug, thiserror::Error)]
pub enum FileSetError {
    /// None could be made.
    #[error("cannot make {count} files of {} in {}: {error}{}", numbers::bytes(*bytes), directory.display(), making_hint(error))]
    Make {
        /// How many.
        count: usize,
        /// Bytes of each.
        bytes: u64,
        /// Where.
        directory: PathBuf,
        /// The kernel's word.
        error: std::io::Error,
    },
    /// One that was given cannot be used.
    #[error("cannot use {}: {error}{}", path.display(), giving_hint(error))]
    Given {
        /// It.
        path: PathBuf,
        /// The kernel's word.
        error: std::io::Error,
    },
    /// A device that was given has other users.
    #[error("cannot use {}: it is {used}, and is left alone", path.display())]
    InUse {
        /// It.
        path: PathBuf,
        /// What for.
        used: DeviceUse,
    },
    /// A device that was given has no size.
    #[error("{} is of 0 bytes: nothing is in it, or attached to it", .0.display())]
    Empty(PathBuf),
    /// One that was given is neither.
    #[error("{} is neither a file nor a block device", .0.display())]
    Neither(PathBuf),
}

/// What to try where a file cannot be made: to raise the limit on its size, where that is why, or what
/// comes `before` that; `otherwise` where it is not.
pub(crate) fn size_hint(error: &std::io::Error, before: &str, otherwise: &str) -> String {
    // What tempfile tells has no number.
    match error.kind() {
        std::io::ErrorKind::FileTooLarge => {
            format!("; {before}raise the limit on the size of your files (ulimit -f)")
        }
        _ => otherwise.to_owned(),
    }
}

fn making_hint(error: &std::io::Error) -> String {
    let otherwise = match Errno::from_io_error(error) {
        Some(Errno::NOSPC | Errno::DQUOT) => {
            "; take a smaller --size, fewer --files or --jobs, or another --dir"
        }
        Some(Errno::MFILE) => "; raise ulimit -n, or take fewer --files or --jobs",
        _ => "; name another directory with --dir",
    };
    size_hint(error, "take a smaller --size, or ", otherwise)
}

fn giving_hint(error: &std::io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::BUSY) => "; somebody uses it, so it is left alone",
        Some(Errno::ACCESS | Errno::PERM) if !rustix::process::geteuid().is_root() => {
            "; run it as root, or as a user who may open it"
        }
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => "; is it read-only?",
        _ => "",
    }
}

impl FileSet {
    /// Makes files full of the verified pattern, which does not compress. They have no names, so
    /// nothing can leave them behind.
    ///
    /// # Errors
    /// There is no room for them, or no right to make them.
    pub fn make(directory: &Path, count: usize, bytes: u64) -> Result<FileSet, FileSetError> {
        let failed =
            |error| FileSetError::Make { count, bytes, directory: directory.into(), error };
        is_room(directory, bytes.saturating_mul(count as u64)).map_err(failed)?;
        let room = || tempfile::tempfile_in(directory).and_then(|file| reserved(file, bytes));
        let files = (0..count).map(|_| room()).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let own = std::process::id();
        let named = |file: File| {
            let path = format!("/proc/{own}/fd/{}", file.as_raw_fd()).into();
            Driven { file, path, bytes }
        };
        let set = FileSet { files: files.into_iter().map(named).collect(), image: None };
        set.fill().map_err(failed)?;
        Ok(set)
    }

    /// Files or devices that there are already, of each at most so many bytes.
    ///
    /// # Errors
    /// One cannot be opened, or is something else.
    pub fn given(
        paths: &[PathBuf],
        most_bytes: Option<u64>,
        writes: bool,
    ) -> Result<FileSet, FileSetError> {
        let open = |path: &PathBuf| {
            let failed = |error| FileSetError::Given { path: path.clone(), error };
            // From wherever this program runs: the processes that drive it are told this name.
            let path = std::fs::canonicalize(path).map_err(failed)?;
            let stat = rustix::fs::stat(&path).map_err(|errno| failed(errno.into()))?;
            let kind = FileType::from_raw_mode(stat.st_mode);
            let file = opened(&path, kind, writes)?;
            let end = rustix::fs::seek(&file, SeekFrom::End(0));
            match end.map_err(|errno| failed(errno.into()))? {
                0 if kind == FileType::BlockDevice => Err(FileSetError::Empty(path)),
                end => Ok(Driven { file, path, bytes: most_bytes.unwrap_or(end).min(end) }),
            }
        };
        Ok(FileSet { files: paths.iter().map(open).collect::<Result<_, _>>()?, image: None })
    }

    /// A device that was made for the run; of the file below it, if there is one, the page cache is
    /// to have what `image` says.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn of_device(
        made: &Made,
        most_bytes: Option<u64>,
        image: State,
    ) -> Result<FileSet, FileSetError> {
        let path = made.path();
        let failed = |error| FileSetError::Given { path: path.clone(), error };
        let mut set = FileSet::given(std::slice::from_ref(&path), most_bytes, true)?;
        let below = |file: &File| -> std::io::Result<_> {
            let (file, path) = (file.try_clone()?, format!("the file below {}", path.display()));
            let bytes = file.metadata()?.len();
            Ok((Driven { file, path: path.into(), bytes }, image))
        };
        set.image = made.image().map(below).transpose().map_err(failed)?;
        Ok(set)
    }

    /// Fills them with the verified pattern, and writes that back, so that the disk is quiet.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn fill(&self) -> std::io::Result<()> {
        for (place, driven) in self.files.iter().enumerate() {
            Contents::of_file(place).write(&driven.file, driven.bytes)?;
        }
        Ok(())
    }

    /// By which names other processes find them while this one lives.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|driven| driven.path.as_path())
    }

    /// How much of each is asked for.
    pub fn bytes(&self) -> impl Iterator<Item = u64> {
        self.files.iter().map(|driven| driven.bytes)
    }

    /// Of what bytes O_DIRECT takes only multiples, where the files are devices; else 1.
    ///
    /// # Errors
    /// A device does not tell.
    pub fn block_bytes(&self) -> Result<u32, FileSetError> {
        let block = |driven: &Driven| match rustix::fs::ioctl_blksszget(&driven.file) {
            Ok(bytes) => Ok(bytes),
            Err(Errno::NOTTY) => Ok(1),
            Err(errno) => {
                Err(FileSetError::Given { path: driven.path.clone(), error: errno.into() })
            }
        };
        self.files.iter().try_fold(1, |most, driven| Ok(block(driven)?.max(most)))
    }

    /// Brings the page cache to a state, and verifies that it is.
    ///
    /// # Errors
    /// It cannot be: why, for a person.
    pub fn bring_to(&self, state: State) -> Result<(), String> {
        self.files.iter().try_for_each(|driven| driven.bring_to(state))?;
        self.image.as_ref().map_or(Ok(()), |(image, state)| image.bring_to(*state))
    }
}

/// A file, or a device that nobody else uses: the kernel refuses it (EBUSY) to who wants it alone,
/// and from then on to everybody else who does.
fn opened(path: &Path, kind: FileType, writes: bool) -> Result<File, FileSetError> {
    let alone = match kind {
        FileType::BlockDevice => OFlags::EXCL,
        FileType::RegularFile => OFlags::empty(),
        _ => return Err(FileSetError::Neither(path.into())),
    };
    let flags = i32::try_from(alone.bits()).unwrap_or(0);
    let file = File::options().read(true).write(writes).custom_flags(flags).open(path);
    file.map_err(|error| {
        let is_busy = Errno::from_io_error(&error) == Some(Errno::BUSY);
        match machine::device_use(path).filter(|_| is_busy) {
            Some(used) => FileSetError::InUse { path: path.into(), used },
            None => FileSetError::Given { path: path.into(), error },
        }
    })
}

/// A file with room for so many bytes, where its file system can promise that.
pub(crate) fn reserved(file: File, bytes: u64) -> std::io::Result<File> {
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) => Ok(file),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.set_len(bytes).map(|()| file),
        Err(errno) => Err(errno.into()),
    }
}

/// Asked before anything is written: a disk that would be filled is left as it is.
pub(crate) fn is_room(directory: &Path, bytes: u64) -> std::io::Result<()> {
    match free_bytes(&rustix::fs::statvfs(directory)?) < bytes {
        true => Err(Errno::NOSPC.into()),
        false => Ok(()),
    }
}

/// What can be written to a file system. One in memory without a limit (ramfs) counts no blocks at all.
pub fn free_bytes(disk: &rustix::fs::StatVfs) -> u64 {
    match disk.f_blocks {
        0 => u64::MAX,
        _ => disk.f_bavail.saturating_mul(disk.f_frsize),
    }
}

impl Driven {
    fn bring_to(&self, state: State) -> Result<(), String> {
        match state {
            State::Hot => self.fill_cache(),
            State::Cold => self.drop_cache(),
        }
    }

    fn resident(&self) -> Result<(u64, u64), String> {
        page_cache::resident_pages(&self.file, self.bytes).map_err(|errno| {
            let error = std::io::Error::from(errno);
            format!("cannot tell what the page cache has of {}: {error}", self.path.display())
        })
    }

    fn fill_cache(&self) -> Result<(), String> {
        let (mut resident, mut all) = self.resident()?;
        for _ in 0..ATTEMPTS {
            if resident == all {
                return Ok(());
            }
            page_cache::fill(&self.file, self.bytes).map_err(|errno| {
                format!("cannot read {}: {}", self.path.display(), std::io::Error::from(errno))
            })?;
            (resident, all) = self.resident()?;
        }
        if resident == all {
            return Ok(());
        }
        Err(format!(
            "only {resident} of {all} pages of {} stay in the page cache: memory is short; take a \
             smaller --size, or fewer --files or --jobs",
            self.path.display()
        ))
    }

    fn drop_cache(&self) -> Result<(), String> {
        let mut resident = 0;
        for _ in 0..ATTEMPTS {
            page_cache::drop_pages(&self.file).map_err(|errno| {
                let error = std::io::Error::from(errno);
                format!("cannot drop {} from the page cache: {error}", self.path.display())
            })?;
            (resident, _) = self.resident()?;
            if resident == 0 {
                return Ok(());
            }
        }
        Err(format!(
            "{resident} pages of {} stay in the page cache: its file system may be memory (tmpfs), \
             another program may use it, or you may not own it; measure --buffered, or elsewhere",
            self.path.display()
        ))
    }
}
