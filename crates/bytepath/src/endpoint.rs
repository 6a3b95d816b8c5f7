//! One end of a movement: a descriptor, and what kind of thing it is open on.

use std::fmt;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, Mode, OFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::net::sockopt::socket_type;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType};

use crate::error::Refusal;
use crate::machine;
use crate::size::shown;
use crate::sys::open_file;
use crate::wait;

/// The offset that means "where the descriptor stands" to preadv2(2) and pwritev2(2).
pub(crate) const AT_POSITION: u64 = u64::MAX;

/// A place of the caller's for these calls and rings: never [`AT_POSITION`], but the place before it, which
/// is also behind all that a file has (EINVAL).
pub(crate) fn place(at: u64) -> u64 {
    at.min(AT_POSITION - 1)
}

/// What a descriptor is open on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file, memfd included.
    File,
    /// A pipe or FIFO.
    Pipe,
    /// A stream socket of the Unix family.
    UnixSocket,
    /// A stream socket of the Internet families.
    TcpSocket,
    /// Another socket.
    OtherSocket,
    /// A terminal.
    Terminal,
    /// /dev/null.
    Null,
    /// /dev/zero.
    Zero,
    /// Another character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// Something of no inode kind: eventfd, epoll and their like.
    Anonymous,
}

impl Kind {
    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Kind::File => "file",
            Kind::Pipe => "pipe",
            Kind::UnixSocket => "Unix socket",
            Kind::TcpSocket => "TCP socket",
            Kind::OtherSocket => "socket",
            Kind::Terminal => "terminal",
            Kind::Null => "/dev/null",
            Kind::Zero => "/dev/zero",
            Kind::CharDevice => "character device",
            Kind::BlockDevice => "block device",
            Kind::Anonymous => "anonymous descriptor",
        }
    }

    /// Whether it is a socket of any family.
    pub fn is_socket(self) -> bool {
        matches!(self, Kind::UnixSocket | Kind::TcpSocket | Kind::OtherSocket)
    }

    /// Whether its bytes live in the page cache, so that splicing them lends pages that later
    /// writes change.
    pub fn is_cached(self) -> bool {
        matches!(self, Kind::File | Kind::BlockDevice)
    }

    /// Whether splicing into it keeps references to pages instead of copying bytes.
    pub fn keeps_pages(self) -> bool {
        self == Kind::Pipe || self.is_socket()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a descriptor or path cannot be an end of a movement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The path could not be opened.
    #[error("cannot open {path}: {}{}", std::io::Error::from(*.errno), open_hint(*.errno))]
    Open {
        /// The path as given.
        path: String,
        /// The kernel's word.
        errno: Errno,
    },
    /// The descriptor is not open.
    #[error("{} is closed; was it redirected with <&- or >&-?", descriptor_name(*.fd))]
    Closed {
        /// The descriptor's number.
        fd: i32,
    },
    /// A directory.
    #[error("{name} is a directory; name a file in it, or use a tool for trees")]
    Directory {
        /// The path, or the descriptor's number.
        name: String,
    },
    /// Open for writing only, where reading is meant, or the reverse.
    #[error("{name} is not open for {need}; it is the wrong way round")]
    WrongWay {
        /// The path, or the descriptor's number.
        name: String,
        /// "reading" or "writing".
        need: &'static str,
    },
}

impl EndpointError {
    /// The kernel's word for it, as a call that met it would have said.
    pub fn errno(&self) -> Errno {
        match self {
            EndpointError::Open { errno, .. } => *errno,
            EndpointError::Directory { .. } => Errno::ISDIR,
            EndpointError::Closed { .. } | EndpointError::WrongWay { .. } => Errno::BADF,
        }
    }
}

fn open_hint(errno: Errno) -> &'static str {
    match errno {
        Errno::NOENT => "; check the path",
        Errno::ACCESS | Errno::PERM => "; check its permissions (ls -l), or run as its owner",
        Errno::ROFS => "; the file system is mounted read-only",
        Errno::NOSPC => "; the file system is full",
        Errno::MFILE => "; raise the limit of open files (ulimit -n)",
        _ => "",
    }
}

enum Descriptor<'fd> {
    Owned(OwnedFd),
    Borrowed(BorrowedFd<'fd>),
}

/// One end of a movement: source or sink.
pub struct Endpoint<'fd> {
    descriptor: Descriptor<'fd>,
    kind: Kind,
    bytes: u64,
    /// Bytes of storage that its inode claims.
    stored_bytes: u64,
    append: bool,
    /// See [`Endpoint::makes_messages`].
    messages: bool,
    /// See [`Endpoint::may_offload`].
    may_offload: bool,
    /// Whether it was opened with O_DIRECT.
    direct: bool,
    /// The device that its inode is on.
    device: u64,
    /// What tells a file from others, by its device and inode; or a block device, by its own number,
    /// whatever its inode.
    identity: (u64, u64),
}

impl fmt::Debug for Endpoint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({}, {:?})", self.kind, self.as_fd())
    }
}

impl AsFd for Endpoint<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.descriptor {
            Descriptor::Owned(fd) => fd.as_fd(),
            Descriptor::Borrowed(fd) => fd.as_fd(),
        }
    }
}

impl Endpoint<'static> {
    /// Opens a file, FIFO or device to read from. A FIFO that nobody has open to write to is waited for.
    ///
    /// # Errors
    /// The kernel's word, or that it is a directory.
    pub fn open_source(path: impl AsRef<Path>) -> Result<Self, EndpointError> {
        Self::open(path.as_ref(), OFlags::RDONLY, Way::Source)
    }

    /// Opens a file, FIFO or device to write to; a file is made where there is none, and emptied
    /// where there is one. A FIFO that nobody has open to read from is waited for.
    ///
    /// # Errors
    /// The kernel's word, or that it is a directory.
    pub fn open_sink(path: impl AsRef<Path>) -> Result<Self, EndpointError> {
        Self::open(path.as_ref(), OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC, Way::Sink)
    }

    /// Opens a file to add to its end, making it if there is none. What several processes add
    /// overwrites nothing; but what takes one of them several writes may have bytes of the others in
    /// between. A FIFO is waited for as by [`Endpoint::open_sink`].
    ///
    /// # Errors
    /// The kernel's word, or that it is a directory.
    pub fn open_sink_to_append(path: impl AsRef<Path>) -> Result<Self, EndpointError> {
        Self::open(path.as_ref(), OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND, Way::Sink)
    }

    fn open(path: &Path, flags: OFlags, way: Way) -> Result<Self, EndpointError> {
        let name = path.display().to_string();
        let mode = Mode::from_raw_mode(0o666);
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        match rustix::io::retry_on_intr(|| rustix::fs::open(path, flags, mode)) {
            Ok(fd) => Endpoint::classify(Descriptor::Owned(fd), way, Some(name)),
            Err(Errno::ISDIR) => Err(EndpointError::Directory { name }),
            Err(errno) => Err(EndpointError::Open { path: name, errno }),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Source,
    Sink,
}

impl<'fd> Endpoint<'fd> {
    /// A descriptor to read from. Costs two system calls, three for a device or large file,
    /// four or five for a socket.
    ///
    /// # Errors
    /// It is closed, a directory, or not open for reading.
    pub fn source(fd: BorrowedFd<'fd>) -> Result<Self, EndpointError> {
        Self::classify(Descriptor::Borrowed(fd), Way::Source, None)
    }

    /// A descriptor to write to. Costs two system calls, three for a device, four or five for a socket.
    ///
    /// # Errors
    /// It is closed, a directory, or not open for writing.
    pub fn sink(fd: BorrowedFd<'fd>) -> Result<Self, EndpointError> {
        Self::classify(Descriptor::Borrowed(fd), Way::Sink, None)
    }

    fn classify(
        descriptor: Descriptor<'fd>,
        way: Way,
        name: Option<String>,
    ) -> Result<Self, EndpointError> {
        use std::os::fd::AsRawFd;
        let mut end = Endpoint {
            descriptor,
            kind: Kind::Anonymous,
            bytes: 0,
            stored_bytes: 0,
            append: false,
            messages: false,
            may_offload: true,
            direct: false,
            device: 0,
            identity: (0, 0),
        };
        let number = end.as_fd().as_raw_fd();
        let closed = |_| EndpointError::Closed { fd: number };
        let named = || name.clone().unwrap_or_else(|| descriptor_name(number));
        let flags = rustix::fs::fcntl_getfl(end.as_fd()).map_err(closed)?;
        let stat = rustix::fs::fstat(end.as_fd()).map_err(closed)?;
        let file_type = FileType::from_raw_mode(stat.st_mode);
        if file_type == FileType::Directory {
            return Err(EndpointError::Directory { name: named() });
        }
        let (wrong, need) = match way {
            Way::Source => (OFlags::WRONLY, "reading"),
            Way::Sink => (OFlags::RDONLY, "writing"),
        };
        // O_PATH names a file without opening it for either.
        if flags & OFlags::RWMODE == wrong || flags.contains(OFlags::PATH) {
            return Err(EndpointError::WrongWay { name: named(), need });
        }
        end.kind = kind_of(file_type, stat.st_rdev, end.as_fd());
        end.bytes = u64::try_from(stat.st_size).unwrap_or(0);
        // Blocks of 512 bytes, whatever the file system's are: see stat(3type).
        end.stored_bytes = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
        end.messages =
            end.kind == Kind::OtherSocket && socket_type(end.as_fd()) != Ok(SocketType::STREAM);
        end.append = flags.contains(OFlags::APPEND);
        end.direct = flags.contains(OFlags::DIRECT);
        end.device = stat.st_dev;
        end.identity = match end.kind {
            Kind::BlockDevice => (stat.st_rdev, 0),
            _ => (stat.st_dev, stat.st_ino),
        };
        if way == Way::Source && end.kind == Kind::File && end.bytes >= ASK_FROM_BYTES {
            end.may_offload = !only_copies(end.as_fd());
        }
        Ok(end)
    }

    /// What it is open on.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The size that its inode gave when it was classified; 0 for what has none.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it is a file of no size, as those of /proc are too.
    pub(crate) fn says_empty(&self) -> bool {
        self.kind == Kind::File && self.bytes == 0
    }

    /// Whether it is a file that says it is empty, and is. Of those of /proc, of which a read may take
    /// what they give (kmsg), that is not asked.
    pub fn gives_nothing(&self) -> bool {
        // <linux/magic.h>
        const PROC_SUPER_MAGIC: u32 = 0x9fa0;
        let is_proc = || {
            let on = rustix::fs::fstatfs(self.as_fd());
            on.is_ok_and(|on| on.f_type as u32 == PROC_SUPER_MAGIC)
        };
        self.says_empty() && !is_proc() && self.is_at_end() == Ok(true)
    }

    /// Whether it is a file that stores less than its size: it has holes, or is compressed.
    pub(crate) fn may_have_holes(&self) -> bool {
        self.kind == Kind::File && self.stored_bytes < self.bytes
    }

    /// Whether its file system may do more for copy_file_range(2) than copy: share blocks, or have its
    /// server copy. Of files below 1 MiB, which do not repay the question, it is taken for granted.
    pub(crate) fn may_offload(&self) -> bool {
        self.may_offload
    }

    /// The number of the device that its inode is on (`st_dev`).
    pub fn device(&self) -> u64 {
        self.device
    }

    /// Whether both are open on one regular file, or one block device.
    pub fn same_file(&self, other: &Endpoint<'_>) -> bool {
        self.kind == other.kind && self.kind.is_cached() && self.identity == other.identity
    }

    /// Whether both are one open file or block device, of which dup(2) and fork(2) make several
    /// descriptors: they have one position, so that what is read of one moves the other.
    pub fn same_open_file(&self, other: &Endpoint<'_>) -> bool {
        self.same_file(other)
            && open_file::is_one(self, other).unwrap_or_else(|_| self.moves(other))
    }

    /// Whether setting the position of this end, which stays as it is, sets that of the other.
    fn moves(&self, other: &Endpoint<'_>) -> bool {
        let at = |end: &Endpoint<'_>| rustix::fs::tell(end.as_fd());
        let (Ok(own), Ok(theirs)) = (at(self), at(other)) else { return false };
        if own != theirs || rustix::fs::seek(self.as_fd(), SeekFrom::Current(1)).is_err() {
            return false;
        }
        let has_moved = at(other) != Ok(theirs);
        let _ = rustix::fs::seek(self.as_fd(), SeekFrom::Start(own));
        has_moved
    }

    /// Whether `sink` is written before where this end of the same file stands, so that what is written
    /// is never read. A device, whose bytes somebody may want to be written anew, also at that place.
    pub(crate) fn stands_behind(&self, sink: &Endpoint<'_>) -> bool {
        let at = |end: &Endpoint<'_>| rustix::fs::tell(end.as_fd());
        let is_before = |to: u64, from: u64| match self.kind {
            Kind::BlockDevice => to <= from,
            _ => to < from,
        };
        !sink.appends() && matches!((at(self), at(sink)), (Ok(from), Ok(to)) if is_before(to, from))
    }

    /// Whether this many bytes of one file, from where this end stands to where `sink` does, would be
    /// written over others of them that are yet to be read, or be more only because they are written; false
    /// too where that cannot be told.
    pub(crate) fn overlaps(&self, sink: &Endpoint<'_>, bytes: u64) -> bool {
        let at = |end: &Endpoint<'_>| rustix::fs::tell(end.as_fd());
        let (Ok(from), Ok(to), Ok(stat)) = (at(self), at(sink), rustix::fs::fstat(self.as_fd()))
        else {
            return false;
        };
        // The inode of a device has no size: as many are asked for as there may be.
        let size = match self.kind {
            Kind::BlockDevice => u64::MAX,
            _ => u64::try_from(stat.st_size).unwrap_or(0),
        };
        let to = if sink.appends() && self.kind == Kind::File { size } else { to };
        // What is written past its end makes the file longer, so that more is read than there was.
        size > from && to > from && to.min(size) - from < bytes
    }

    /// Whether it was opened with O_APPEND, which several routes refuse.
    pub fn appends(&self) -> bool {
        self.append
    }

    /// Whether it is a socket that makes a message of each write.
    pub(crate) fn makes_messages(&self) -> bool {
        self.messages
    }

    /// Whether it was opened with O_DIRECT: it is read and written in whole blocks, past the page cache.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    /// Sets the size of a pipe, as near as the kernel allows.
    ///
    /// # Errors
    /// Why not, with the remedy; the pipe stays as it was.
    pub fn set_pipe_bytes(&self, bytes: usize) -> Result<usize, Refusal> {
        if self.kind != Kind::Pipe {
            return Err(Refusal::because(format!("a {} has no pipe size", self.kind)));
        }
        set_pipe_bytes(self.as_fd(), bytes)
    }

    /// Makes a pipe, or the buffer of a Unix socket that is written to, at least so large; other ends
    /// stay as they are. (TCP sizes its own buffers, unless somebody sets them.)
    ///
    /// # Errors
    /// Why it is smaller, with the remedy; what it has works too.
    pub(crate) fn enlarge(&self, bytes: usize) -> Result<(), Refusal> {
        match self.kind {
            Kind::Pipe if crate::outlets::pipe_bytes(self.as_fd()) < bytes => {
                self.set_pipe_bytes(bytes).map(drop)
            }
            Kind::UnixSocket => enlarge_send_buffer(self.as_fd(), bytes),
            _ => Ok(()),
        }
    }

    /// One write, at the descriptor's position, that does not sleep where the kind of the end allows
    /// that: a file does not. Whether the descriptor is O_NONBLOCK makes no difference, and stays as it is.
    ///
    /// # Errors
    /// The kernel's word: EAGAIN where it would have to sleep.
    pub fn write_now(&self, bytes: &[u8]) -> Result<usize, Errno> {
        self.write_some(bytes, Blocking::No)
    }

    /// One read, at the descriptor's position. `Ok(0)` is the end.
    #[inline(always)]
    pub(crate) fn read_some(&self, into: &mut [u8], block: Blocking) -> Result<usize, Errno> {
        let fd = self.as_fd();
        match (block, self.kind) {
            (Blocking::No, Kind::Pipe) => read_now(fd, into),
            (Blocking::No, kind) if kind.is_socket() => {
                rustix::net::recv(fd, into, RecvFlags::DONTWAIT).map(|(count, _)| count)
            }
            (Blocking::No, Kind::Terminal | Kind::CharDevice | Kind::Anonymous) => {
                if !wait::ready(fd, rustix::event::PollFlags::IN) {
                    return Err(Errno::AGAIN);
                }
                rustix::io::read(fd, into)
            }
            _ => rustix::io::read(fd, into),
        }
    }

    /// One write, at the descriptor's position. A socket whose peer is gone answers with EPIPE alone,
    /// without SIGPIPE, which ends a program that does not ignore it.
    #[inline(always)]
    pub(crate) fn write_some(&self, from: &[u8], block: Blocking) -> Result<usize, Errno> {
        let fd = self.as_fd();
        match (block, self.kind) {
            (Blocking::No, Kind::Pipe) => write_now(fd, &[IoSlice::new(from)]),
            (Blocking::No, kind) if kind.is_socket() => {
                rustix::net::send(fd, from, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
            }
            (Blocking::Yes, kind) if kind.is_socket() => {
                rustix::net::send(fd, from, SendFlags::NOSIGNAL)
            }
            (Blocking::No, Kind::Terminal | Kind::CharDevice | Kind::Anonymous) => {
                if !wait::ready(fd, rustix::event::PollFlags::OUT) {
                    return Err(Errno::AGAIN);
                }
                rustix::io::write(fd, &from[..from.len().min(self.ready_bytes())])
            }
            _ => rustix::io::write(fd, from),
        }
    }

    /// How many bytes it takes without sleeping when poll(2) says that it is ready, for calls that
    /// cannot be told not to sleep.
    pub(crate) fn ready_bytes(&self) -> usize {
        match self.kind {
            // A third of the buffer is free then (sk_stream_is_writeable), or three quarters
            // (unix_writable). It may grow while it is used, so it is asked each time.
            kind if kind.is_socket() => rustix::net::sockopt::socket_send_buffer_size(self.as_fd())
                .map_or(1, |bytes| (bytes / 4).max(1)),
            // n_tty_poll says ready below this many bytes in the buffer (WAKEUP_CHARS), and the
            // smallest buffers (those of pseudo-terminals) are made of pieces of as many.
            Kind::Terminal => 256,
            _ => usize::MAX,
        }
    }

    /// Whether splice(2) and sendfile(2) may sleep for it whatever their flags say: sockets go by
    /// the O_NONBLOCK of the open file, and devices do as they like.
    pub(crate) fn sleeps_unasked(&self) -> bool {
        use Kind::{BlockDevice, File, Null, Pipe, Zero};
        !matches!(self.kind, File | BlockDevice | Pipe | Null | Zero)
    }

    /// Whether a read of a file at its position would give nothing. Leaves the position.
    pub(crate) fn is_at_end(&self) -> Result<bool, Errno> {
        let at = rustix::fs::tell(self.as_fd())?;
        loop {
            match rustix::io::pread(self.as_fd(), &mut [0_u8; 1], at) {
                Err(Errno::INTR) => {}
                answer => return answer.map(|count| count == 0),
            }
        }
    }

    /// Whether a read would find the end, as far as that shows without taking anything: false where
    /// it has yet to come, and where only a read can tell.
    pub(crate) fn has_ended(&self) -> bool {
        match self.kind {
            Kind::Pipe => {
                let mut fds = [PollFd::from_borrowed_fd(self.as_fd(), PollFlags::IN)];
                let polled = rustix::io::retry_on_intr(|| {
                    rustix::event::poll(&mut fds, Some(&Timespec::default()))
                });
                polled.is_ok() && fds[0].revents() == PollFlags::HUP
            }
            Kind::File | Kind::BlockDevice => self.is_at_end() == Ok(true),
            Kind::Null => true,
            _ => false,
        }
    }

    /// Sets a seekable source back by `bytes`, so that bytes read and not delivered are read
    /// again. Whether it could.
    pub(crate) fn take_back(&self, bytes: usize) -> bool {
        let back = i64::try_from(bytes).ok().map(|bytes| SeekFrom::Current(-bytes));
        self.kind.is_cached()
            && back.is_some_and(|back| rustix::fs::seek(self.as_fd(), back).is_ok())
    }
}

/// Whether a call may sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blocking {
    Yes,
    No,
}

impl Blocking {
    pub(crate) fn unless(nonblocking: bool) -> Self {
        if nonblocking { Blocking::No } else { Blocking::Yes }
    }
}

/// Reads a pipe without sleeping, whatever its O_NONBLOCK says: the flag belongs to everybody who
/// shares the open file, so it is not ours to set.
pub(crate) fn read_now(pipe: BorrowedFd<'_>, into: &mut [u8]) -> Result<usize, Errno> {
    let mut into = [IoSliceMut::new(into)];
    match rustix::io::preadv2(pipe, &mut into, AT_POSITION, ReadWriteFlags::NOWAIT) {
        Err(errno) if has_no_nowait(errno) => {
            if !wait::ready(pipe, rustix::event::PollFlags::IN) {
                return Err(Errno::AGAIN);
            }
            rustix::io::readv(pipe, &mut into)
        }
        answer => answer,
    }
}

/// Writes to a pipe without sleeping; see [`read_now`].
pub(crate) fn write_now(pipe: BorrowedFd<'_>, from: &[IoSlice<'_>]) -> Result<usize, Errno> {
    match rustix::io::pwritev2(pipe, from, AT_POSITION, ReadWriteFlags::NOWAIT) {
        Err(errno) if has_no_nowait(errno) => {
            if !wait::ready(pipe, rustix::event::PollFlags::OUT) {
                return Err(Errno::AGAIN);
            }
            // A writable pipe takes at least PIPE_BUF bytes without sleeping.
            let first = from.iter().find(|slice| !slice.is_empty()).map_or(&[][..], |slice| slice);
            rustix::io::write(pipe, &first[..first.len().min(rustix::pipe::PIPE_BUF)])
        }
        answer => answer,
    }
}

/// Whether RWF_NOWAIT is not to be had: pipes have it since Linux 6.4 (commit afed6271f5b0), and
/// sandboxes that do not know preadv2(2) and pwritev2(2) refuse them.
fn has_no_nowait(errno: Errno) -> bool {
    matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM)
}

/// Has a socket take so many bytes before it makes the writer wait, if it takes fewer.
fn enlarge_send_buffer(socket: BorrowedFd<'_>, bytes: usize) -> Result<(), Refusal> {
    use rustix::net::sockopt;
    let failed = |errno| Refusal::errno("the socket keeps its send buffer", errno);
    // The kernel reckons with twice the size, for what it keeps beside the bytes: socket(7).
    let (enough, now) =
        (bytes.saturating_mul(2), || sockopt::socket_send_buffer_size(socket).map_err(failed));
    if now()? >= enough {
        return Ok(());
    }
    sockopt::set_socket_send_buffer_size(socket, bytes).map_err(failed)?;
    match now()? {
        given if given >= enough => Ok(()),
        given => Err(Refusal::because(format!(
            "the socket's send buffer is {} and not {}, as net.core.wmem_max is less",
            shown(given as u64 / 2),
            shown(bytes as u64)
        ))
        .remedy(format!("sysctl -w net.core.wmem_max={bytes}, as root"))),
    }
}

/// Sets the size of a pipe; the size that the kernel gave, at least what was asked.
pub(crate) fn set_pipe_bytes(pipe: BorrowedFd<'_>, bytes: usize) -> Result<usize, Refusal> {
    rustix::pipe::fcntl_setpipe_size(pipe, bytes).map_err(|errno| {
        let refusal = |why: &str| {
            Refusal::errno(format!("cannot set the pipe to {}: {why}", shown(bytes as u64)), errno)
        };
        match errno {
            Errno::PERM => too_large(bytes, refusal),
            Errno::BUSY => {
                refusal("it holds more than that").remedy("set the size before anything is written")
            }
            Errno::INVAL => refusal("not a size that a pipe can have"),
            Errno::BADF => refusal("not a pipe"),
            _ => refusal("the kernel refused"),
        }
    })
}

/// EPERM has two causes, of which the first shows: the limit on one pipe, and that on all of a
/// user's (fs.pipe-user-pages-soft).
fn too_large(bytes: usize, refusal: impl Fn(&str) -> Refusal) -> Refusal {
    let text = std::fs::read_to_string("/proc/sys/fs/pipe-max-size").unwrap_or_default();
    match text.trim().parse::<usize>() {
        Ok(limit) if bytes > limit => {
            refusal(&format!("above fs.pipe-max-size ({})", shown(limit as u64)))
                .remedy("ask for no more than that, or raise it as root")
        }
        _ => refusal("your pipes use up fs.pipe-user-pages-soft")
            .remedy("close some, ask for less, or raise it as root"),
    }
}

/// How people call the first descriptors.
fn descriptor_name(number: i32) -> String {
    match number {
        0 => "standard input".to_owned(),
        1 => "standard output".to_owned(),
        2 => "standard error".to_owned(),
        _ => format!("descriptor {number}"),
    }
}

/// Files from this size on are worth a question more.
const ASK_FROM_BYTES: u64 = 1 << 20;

/// Whether a file is on a file system that has neither shared blocks nor a server.
fn only_copies(file: BorrowedFd<'_>) -> bool {
    const ONLY_COPY: &[&str] = &["ext4", "tmpfs", "ramfs", "f2fs", "vfat", "exfat"];
    machine::type_of(file).is_some_and(|kind| ONLY_COPY.contains(&kind))
}

fn kind_of(file_type: FileType, device: u64, fd: BorrowedFd<'_>) -> Kind {
    match file_type {
        FileType::RegularFile => Kind::File,
        FileType::Fifo => Kind::Pipe,
        FileType::Socket => socket_kind(fd),
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::CharacterDevice => char_device_kind(device, fd),
        _ => Kind::Anonymous,
    }
}

fn socket_kind(fd: BorrowedFd<'_>) -> Kind {
    let stream = socket_type(fd) == Ok(SocketType::STREAM);
    match rustix::net::sockopt::socket_domain(fd) {
        Ok(AddressFamily::UNIX) if stream => Kind::UnixSocket,
        Ok(AddressFamily::INET | AddressFamily::INET6) if stream => Kind::TcpSocket,
        _ => Kind::OtherSocket,
    }
}

/// Character devices by their numbers in the kernel's Documentation/admin-guide/devices.txt.
fn char_device_kind(device: u64, fd: BorrowedFd<'_>) -> Kind {
    match (rustix::fs::major(device), rustix::fs::minor(device)) {
        (1, 3) => Kind::Null,
        (1, 5) => Kind::Zero,
        _ if rustix::termios::isatty(fd) => Kind::Terminal,
        _ => Kind::CharDevice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_pipes_and_sockets_are_told_apart() {
        let null = Endpoint::open_sink("/dev/null").expect("/dev/null opens");
        let zero = Endpoint::open_source("/dev/zero").expect("/dev/zero opens");
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
        assert_eq!(null.kind(), Kind::Null);
        assert_eq!(zero.kind(), Kind::Zero);
        assert_eq!(Endpoint::source(reader.as_fd()).map(|end| end.kind()).ok(), Some(Kind::Pipe));
        assert_eq!(Endpoint::sink(writer.as_fd()).map(|end| end.kind()).ok(), Some(Kind::Pipe));
        assert_eq!(
            Endpoint::sink(socket.as_fd()).map(|end| end.kind()).ok(),
            Some(Kind::UnixSocket)
        );
    }

    #[test]
    fn a_descriptor_the_wrong_way_round_is_refused_by_name() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let refused = Endpoint::sink(reader.as_fd()).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("not open for writing"), "{refused}");
        let refused = Endpoint::source(writer.as_fd()).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("not open for reading"), "{refused}");
    }

    #[test]
    fn a_directory_is_no_endpoint() {
        let refused = Endpoint::open_source("/").map(|_| ()).unwrap_err();
        assert!(matches!(refused, EndpointError::Directory { .. }), "{refused}");
    }

    #[test]
    fn descriptors_of_one_open_file_are_told_from_those_of_one_file() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let open = || std::fs::File::options().read(true).write(true).open(file.path());
        let (one, again) = (open().expect("it opens"), open().expect("it opens"));
        let copy = one.try_clone().expect("a duplicate");
        let source = Endpoint::source(one.as_fd()).expect("a source");
        for (sink, is_same) in [(&one, true), (&copy, true), (&again, false)] {
            let sink = Endpoint::sink(sink.as_fd()).expect("a sink");
            assert!(source.same_file(&sink));
            assert_eq!(source.same_open_file(&sink), is_same);
            // Where the kernel may not be asked.
            assert_eq!(source.moves(&sink), is_same);
            assert_eq!(rustix::fs::tell(&one), Ok(0), "it stands where it stood");
        }
    }

    #[test]
    fn a_socket_cannot_have_every_size_and_says_so() {
        let (socket, _far) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let sink = Endpoint::sink(socket.as_fd()).expect("a sink");
        let refused = sink.enlarge(usize::MAX).expect_err("nobody has so much");
        assert!(refused.to_string().contains("send buffer"), "{refused}");
    }

    #[test]
    fn an_empty_pipe_is_read_without_sleeping() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        assert_eq!(read_now(reader.as_fd(), &mut [0; 8]), Err(Errno::AGAIN));
        let full = vec![7; 1 << 20];
        assert!(write_now(writer.as_fd(), &[IoSlice::new(&full)]).is_ok_and(|n| n < full.len()));
        assert_eq!(write_now(writer.as_fd(), &[IoSlice::new(&full)]), Err(Errno::AGAIN));
    }
}
