//! How two ends find each other, and what they make sure of before they share memory.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_domain, socket_type};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, UCred,
};
use rustix::process::{getegid, geteuid, getpid};

use super::address::Address;
use super::error::ChannelError;
use super::hello::{Agreed, Flow, Hello, PACKET_BYTES, Role};
use super::setup::{Setup, Users};
use crate::machine::has_all_users;
use crate::sys::forks;
use crate::sys::peer_user::peer_user;

/// Connections that wait to be accepted, at the most.
const BACKLOG: i32 = 1024;

/// Descriptors that come with a packet, at the most: a ring's, and a receiver's page.
const FILES_MAX: usize = 2;

/// How often somebody who is not there yet is looked for.
const LOOK: Duration = Duration::from_millis(5);

/// How long a lock on a folder is waited for, which others need for a moment.
const LOCKED_BY_OTHERS: Duration = Duration::from_secs(1);

/// Names under which this process has begun to listen, and how many are tried.
static NAMES: AtomicU32 = AtomicU32::new(0);
const NAMES_TRIED: u32 = 100;

/// Waits at an address for others to connect.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    /// The socket in the file system, to be removed.
    made: Option<Made>,
}

#[derive(Debug)]
struct Made {
    /// By this process; what it forked leaves it there.
    forks: u32,
    path: PathBuf,
    /// Its device and inode: somebody may have replaced it.
    is: (u64, u64),
}

impl Listener {
    /// Listens at an address. A socket in the file system that nobody listens at any more is
    /// replaced.
    ///
    /// # Errors
    /// The address is taken, or cannot be made.
    pub fn bind(address: &Address) -> Result<Listener, ChannelError> {
        let bound = match address {
            Address::Path(path) => Listener::at_path(path, address),
            Address::Abstract(_) => Listener::at(address).map(|socket| (socket, None)),
        };
        let (socket, made) = bound.map_err(|error| match error {
            ChannelError::Socket { errno: Errno::EXIST, .. } if !is_socket(address) => {
                let doing = "cannot make the channel's socket: something else has its name";
                ChannelError::Socket { doing, errno: Errno::EXIST }
            }
            ChannelError::Socket { errno: Errno::ADDRINUSE | Errno::EXIST, .. } => {
                ChannelError::Taken(address.to_string())
            }
            error => error,
        })?;
        Ok(Listener { socket, made })
    }

    fn at(address: &Address) -> Result<OwnedFd, ChannelError> {
        let socket = socket(SocketType::SEQPACKET)?;
        rustix::net::bind(&socket, &address.socket()?)
            .map_err(ChannelError::socket("cannot make the channel's socket"))?;
        rustix::net::listen(&socket, BACKLOG)
            .map_err(ChannelError::socket("cannot listen at the channel's socket"))?;
        Ok(socket)
    }

    /// Listens under another name first, so that nobody ever finds the path without somebody who
    /// listens there, and takes that for what is left of one who is gone.
    fn at_path(path: &Path, address: &Address) -> Result<(OwnedFd, Option<Made>), ChannelError> {
        address.socket()?;
        let mut tries = 0..NAMES_TRIED;
        let (socket, other) = loop {
            let number = NAMES.fetch_add(1, Relaxed);
            let name = format!(".{:x}.{number:x}", getpid().as_raw_nonzero());
            let other = path.with_file_name(name);
            if Address::Path(other.clone()).socket().is_err() {
                // The path has room for no longer name.
                let _alone = match was_left(address)? {
                    true => cleared(path, address)?,
                    false => None,
                };
                return Listener::at(address).map(|socket| (socket, Made::at(path)));
            }
            match Listener::at(&Address::Path(other.clone())) {
                Ok(socket) => break (socket, other),
                // What a process of this number has left that is gone.
                Err(ChannelError::Socket { errno: Errno::ADDRINUSE, .. })
                    if tries.next().is_some() => {}
                Err(error) => return Err(error),
            }
        };
        let made = Made::at(&other);
        let named = named(&other, path, address);
        let _ = std::fs::remove_file(&other);
        named?;
        Ok((socket, made.map(|made| Made { path: path.into(), ..made })))
    }

    /// Waits until somebody connects.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn accept(&self) -> Result<Connection, ChannelError> {
        loop {
            if let Some(connection) = self.accepted()? {
                return Ok(connection);
            }
            // Others have it not wait.
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            match rustix::event::poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => {
                    return Err(ChannelError::Socket { doing: "cannot wait for a channel", errno });
                }
            }
        }
    }

    /// Somebody who has connected; where nobody has, it waits or gives none, as the socket is set.
    pub(super) fn accepted(&self) -> Result<Option<Connection>, ChannelError> {
        loop {
            match rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC) {
                Ok(socket) => return Ok(Some(Connection { socket })),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(errno) => {
                    return Err(ChannelError::Socket { doing: "cannot accept a channel", errno });
                }
            }
        }
    }

    /// A listener that was inherited as a descriptor, or passed on. A path that it listens at is left
    /// to who made it.
    ///
    /// # Errors
    /// It is no Unix socket of packets (SOCK_SEQPACKET).
    pub fn from_fd(socket: OwnedFd) -> Result<Listener, ChannelError> {
        let Connection { socket } = Connection::from_fd(socket)?;
        Ok(Listener { socket, made: None })
    }

    /// Somebody who has connected; `None` where nobody has.
    ///
    /// # Errors
    /// The kernel's word, such as that there are no more descriptors to be had.
    pub fn try_accept(&self) -> Result<Option<Connection>, ChannelError> {
        self.wait_no_more()?;
        self.accepted()
    }

    /// From now on [`Listener::accepted`] does not wait.
    pub(super) fn wait_no_more(&self) -> Result<(), ChannelError> {
        rustix::io::ioctl_fionbio(&self.socket, true)
            .map_err(ChannelError::socket("cannot set up the channel's socket"))
    }
}

polled!(Listener, socket, "Readable when somebody wants to connect.");

impl Made {
    fn at(path: &std::path::Path) -> Option<Made> {
        let found = std::fs::symlink_metadata(path).ok()?;
        let is = (found.dev(), found.ino());
        Some(Made { forks: forks::count(), path: path.into(), is })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(made) = &self.made
            && made.forks == forks::count()
            && Made::at(&made.path).is_some_and(|now| now.is == made.is)
        {
            let _ = std::fs::remove_file(&made.path);
        }
    }
}

/// Whether any of these is ready now. A signal ends the call (EINTR) only where none is.
pub(super) fn is_any_ready(fds: &mut [PollFd<'_>]) -> Result<bool, Errno> {
    match rustix::event::poll(fds, Some(&Timespec::default())) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// When patience that begins now is over; a patience without end is one of some years.
pub(super) fn deadline(patience: Duration) -> Instant {
    const YEARS: Duration = Duration::from_secs(100_000_000);
    Instant::now() + patience.min(YEARS)
}

fn socket(kind: SocketType) -> Result<OwnedFd, ChannelError> {
    rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
        .map_err(ChannelError::socket("cannot make a socket"))
}

/// Gives a socket that somebody listens at the name that it is to have, in the place of one that a
/// listener who is gone had left there.
fn named(other: &Path, path: &Path, address: &Address) -> Result<(), ChannelError> {
    let mut linked = rustix::fs::link(other, path);
    if linked == Err(Errno::EXIST) && was_left(address)? {
        let _alone = cleared(path, address)?;
        linked = rustix::fs::link(other, path);
    }
    linked.map_err(ChannelError::socket("cannot make the channel's socket"))
}

/// Removes what a listener who is gone had left there. One at a time, while the answer is kept: else one
/// could remove what another has put there since both looked.
fn cleared(path: &Path, address: &Address) -> Result<Option<std::fs::File>, ChannelError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = std::fs::File::open(folder.unwrap_or(Path::new("."))).ok();
    // A folder that may not be read is gone on with, and so is one that somebody holds for something else.
    if let Some(folder) = &folder {
        let (lock, until) = (FlockOperation::NonBlockingLockExclusive, deadline(LOCKED_BY_OTHERS));
        while rustix::fs::flock(folder, lock) == Err(Errno::WOULDBLOCK) && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
    }
    if was_left(address)? {
        match rustix::fs::unlink(path) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => {
                let doing = "a socket that nobody listens at is in the way and cannot be removed";
                return Err(ChannelError::Socket { doing, errno });
            }
        }
    }
    Ok(folder)
}

/// Whether a listener that is gone had left its socket there. One that lives is asked for a connection
/// of another kind, so that the kernel refuses without telling it.
fn was_left(address: &Address) -> Result<bool, ChannelError> {
    if !is_socket(address) {
        return Ok(false);
    }
    let asks = socket(SocketType::DGRAM)?;
    match rustix::net::connect(asks, &address.socket()?) {
        Err(errno @ (Errno::ACCESS | Errno::PERM)) => {
            let doing = "a socket is in the way, and this user may not ask who listens there";
            Err(ChannelError::Socket { doing, errno })
        }
        asked => Ok(asked == Err(Errno::CONNREFUSED)),
    }
}

fn is_socket(address: &Address) -> bool {
    let Address::Path(path) = address else { return false };
    std::fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket())
}

/// Whether the kernel tells this number of users that have none here: those of other namespaces.
fn may_be_anybody(user: u32) -> bool {
    const OVERFLOW: u32 = 65_534;
    let told = std::fs::read_to_string("/proc/sys/kernel/overflowuid").ok();
    let overflow = told.and_then(|text| text.trim().parse().ok());
    user == overflow.unwrap_or(OVERFLOW) && !has_all_users()
}

/// Two ends that have found each other. What each of them is to be is said next.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
}

impl Connection {
    /// Connects to the listener at an address; waits so long for one to come.
    ///
    /// # Errors
    /// Nobody came.
    pub fn connect(address: &Address, patience: Duration) -> Result<Connection, ChannelError> {
        let (at, until) = (address.socket()?, deadline(patience));
        loop {
            let socket = socket(SocketType::SEQPACKET)?;
            // Else a listener that never accepts would hold it for ever.
            let left = until.saturating_duration_since(Instant::now());
            let _ = set_socket_timeout(&socket, Timeout::Send, Some(left.max(LOOK)));
            match rustix::net::connect(&socket, &at) {
                Ok(()) => return Ok(Connection { socket }),
                Err(Errno::NOENT | Errno::CONNREFUSED | Errno::INTR) if Instant::now() < until => {
                    std::thread::sleep(LOOK);
                }
                Err(Errno::PROTOTYPE) => {
                    return Err(ChannelError::Stray("its socket is of another type"));
                }
                Err(Errno::AGAIN | Errno::INTR) => return Err(ChannelError::Silent(patience)),
                Err(errno @ (Errno::ACCESS | Errno::PERM)) => {
                    let doing = "cannot connect to the channel's socket";
                    return Err(ChannelError::Socket { doing, errno });
                }
                Err(errno) => {
                    return Err(ChannelError::Absent { address: address.to_string(), errno });
                }
            }
        }
    }

    /// Two ends, one of which is for another process: one that is forked has it, and a program that is
    /// started gets it as its standard input, say. Both are closed on exec (FD_CLOEXEC), so that no program
    /// has one by accident; as another number it is inherited once that flag is cleared, in the child. Whoever
    /// passes an end on closes its own copy, else nobody notices that the other process is gone.
    ///
    /// ```standalone_crate
    /// use std::io::{Read, Write};
    /// use std::os::fd::{AsFd, OwnedFd};
    /// use std::process::Command;
    ///
    /// use bytepath::channel::{Connection, Setup};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // This program starts itself; the one that is started has an argument.
    /// if std::env::args().len() > 1 {
    ///     let end = std::io::stdin().as_fd().try_clone_to_owned()?;
    ///     let mut sender = Connection::from_fd(end)?.sender(&Setup::default())?;
    ///     sender.write_all(b"from the child")?;
    ///     sender.finish();
    ///     return Ok(());
    /// }
    /// let (here, there) = Connection::pair()?;
    /// let mut program = Command::new(std::env::current_exe()?);
    /// let mut child = program.arg("child").stdin(OwnedFd::from(there)).spawn()?;
    /// drop(program); // its copy of the other end
    /// let mut all = Vec::new();
    /// here.receiver(&Setup::default())?.read_to_end(&mut all)?;
    /// assert_eq!(all, b"from the child");
    /// assert!(child.wait()?.success());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The process or the system is out of descriptors.
    pub fn pair() -> Result<(Connection, Connection), ChannelError> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let pair = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None);
        let (one, other) = pair.map_err(ChannelError::socket("cannot make a pair of sockets"))?;
        Ok((Connection { socket: one }, Connection { socket: other }))
    }

    /// Whether as many descriptors can be handed over now as a sender begins with, its ring's and
    /// its table's: no more of a user may be under way than a process may have open (ETOOMANYREFS).
    ///
    /// # Errors
    /// The process or the system is out of descriptors.
    pub fn can_hand_over() -> Result<bool, ChannelError> {
        let (one, _other) = Connection::pair()?;
        for _ in 0..2 {
            match one.say(&[0], &[one.as_fd()]) {
                Err(ChannelError::Socket { errno: Errno::TOOMANYREFS, .. }) => return Ok(false),
                said => said?,
            }
        }
        Ok(true)
    }

    /// An end that was inherited as a descriptor, such as one of [`Connection::pair`].
    ///
    /// # Errors
    /// It is no Unix socket of packets (SOCK_SEQPACKET).
    pub fn from_fd(socket: OwnedFd) -> Result<Connection, ChannelError> {
        let is_unix = socket_domain(&socket) == Ok(AddressFamily::UNIX);
        if !is_unix || socket_type(&socket) != Ok(SocketType::SEQPACKET) {
            return Err(ChannelError::Stray("the descriptor is no Unix socket of packets"));
        }
        Ok(Connection { socket })
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The other end is told that this one is gone, even where a process that was forked still has it.
    pub(super) fn hang_up(&self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    /// Whether the other end is gone, as far as it can be seen now.
    pub(super) fn has_hung_up(&self) -> bool {
        is_any_ready(&mut [PollFd::new(&self.socket, PollFlags::RDHUP)]).unwrap_or(true)
    }

    pub(super) fn into_socket(self) -> OwnedFd {
        self.socket
    }

    /// Says hello, and hears what the other end is.
    pub(super) fn greet(
        &self,
        role: Role,
        flow: Flow,
        setup: &Setup,
        until: Instant,
    ) -> Result<Agreed, ChannelError> {
        let ours = self.introduce(role, flow, setup.users)?;
        let (packet, _) = self.hear(until, setup.patience)?;
        ours.understood(&packet)
    }

    /// Says hello, if the other end's user may hear it; what was said.
    pub(super) fn introduce(
        &self,
        role: Role,
        flow: Flow,
        users: Users,
    ) -> Result<Hello, ChannelError> {
        self.check_user(users)?;
        let ours = Hello::ours(role, flow, users.takes());
        match self.say(&ours.packet(), &[]) {
            // What it said before it went may tell why.
            Ok(()) | Err(ChannelError::HungUp) => Ok(ours),
            Err(error) => Err(error),
        }
    }

    /// Refuses the other end where its user may not be there: the one that connected, or the one that began to
    /// listen. Both ends of a channel ask this while it is made; whoever says something before that asks first.
    ///
    /// # Errors
    /// [`ChannelError::Stranger`], or the kernel's word.
    pub fn check_user(&self, users: Users) -> Result<(), ChannelError> {
        let theirs = peer_user(self.socket.as_fd()).map_err(|error| ChannelError::Socket {
            doing: "cannot tell whose the other end is",
            errno: Errno::from_io_error(&error).unwrap_or(Errno::IO),
        })?;
        let ours = geteuid().as_raw();
        let is_same = theirs == ours && !may_be_anybody(theirs);
        match users {
            Users::Same if !is_same && theirs != 0 => Err(ChannelError::Stranger { theirs, ours }),
            _ => Ok(()),
        }
    }

    /// Sends a packet, and up to [`FILES_MAX`] descriptors with it.
    pub(super) fn say(&self, packet: &[u8], files: &[BorrowedFd<'_>]) -> Result<(), ChannelError> {
        say(self.socket.as_fd(), packet, files)
    }

    /// Sends a packet that says, by the kernel's word, which process this is.
    pub(super) fn say_who(&self, packet: &[u8]) -> Result<(), ChannelError> {
        let ours = UCred { pid: getpid(), uid: geteuid(), gid: getegid() };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut with = SendAncillaryBuffer::new(&mut space);
        assert!(with.push(SendAncillaryMessage::ScmCredentials(ours)), "there is room for one");
        said(self.socket.as_fd(), packet, &mut with)
    }

    /// Sends a packet; waits while the socket holds too many that were not taken.
    pub(super) fn say_when_there_is_room(&self, packet: &[u8]) -> Result<(), ChannelError> {
        loop {
            match self.say(packet, &[]) {
                Err(ChannelError::Socket { errno: Errno::AGAIN, .. }) => self.wait_writable()?,
                said => return said,
            }
        }
    }

    /// Waits for a packet, and the descriptors that may come with it, at most [`FILES_MAX`].
    pub(super) fn hear(
        &self,
        until: Instant,
        patience: Duration,
    ) -> Result<(Vec<u8>, Vec<OwnedFd>), ChannelError> {
        self.hear_by(RecvFlags::empty(), until, patience)
    }

    /// Likewise, but where there is no room for what comes with the packet it comes again. By one thread at a
    /// time: the packet is looked at, and then taken.
    pub(super) fn hear_if_kept(
        &mut self,
        until: Instant,
        patience: Duration,
    ) -> Result<(Vec<u8>, Vec<OwnedFd>), ChannelError> {
        let heard = self.hear_by(RecvFlags::PEEK, until, patience)?;
        take_peeked(self.socket.as_fd());
        Ok(heard)
    }

    fn hear_by(
        &self,
        peek: RecvFlags,
        until: Instant,
        patience: Duration,
    ) -> Result<(Vec<u8>, Vec<OwnedFd>), ChannelError> {
        let mut bytes = [0; PACKET_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut with = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC | peek;
        let mut reset = false;
        loop {
            let into = &mut [IoSliceMut::new(&mut bytes)];
            match rustix::net::recvmsg(&self.socket, into, &mut with, flags) {
                Ok(got) if got.bytes == 0 => return Err(ChannelError::HungUp),
                Ok(got) => {
                    let files = with.drain().flat_map(|message| match message {
                        RecvAncillaryMessage::ScmRights(files) => files.collect(),
                        _ => Vec::new(),
                    });
                    let files: Vec<OwnedFd> = files.collect();
                    // There would have been room for more.
                    if got.flags.contains(ReturnFlags::CTRUNC) && files.len() < FILES_MAX {
                        return Err(ChannelError::Socket {
                            doing: "cannot keep what the other end hands over",
                            errno: Errno::MFILE,
                        });
                    }
                    return Ok((bytes[..got.bytes].to_vec(), files));
                }
                Err(Errno::AGAIN) if Instant::now() < until => self.wait_readable(until)?,
                Err(Errno::AGAIN) => return Err(ChannelError::Silent(patience)),
                Err(Errno::INTR) => {}
                // Told once, where the other end went without having read all; before what it said.
                Err(Errno::CONNRESET) if !reset => reset = true,
                Err(Errno::CONNRESET) => return Err(ChannelError::HungUp),
                Err(errno) => {
                    return Err(ChannelError::Socket { doing: "cannot hear the other end", errno });
                }
            }
        }
    }

    pub(super) fn wait_readable(&self, until: Instant) -> Result<(), ChannelError> {
        self.poll(PollFlags::IN, Timespec::try_from(until - Instant::now()).ok())
    }

    /// Waits until there is room for a packet, or nobody to take it.
    pub(super) fn wait_writable(&self) -> Result<(), ChannelError> {
        self.poll(PollFlags::OUT, None)
    }

    /// Waits until there is room for a packet, or one to be heard.
    pub(super) fn wait_any(&self) -> Result<(), ChannelError> {
        self.poll(PollFlags::IN | PollFlags::OUT, None)
    }

    fn poll(&self, interest: PollFlags, most: Option<Timespec>) -> Result<(), ChannelError> {
        let mut fds = [PollFd::from_borrowed_fd(self.socket.as_fd(), interest)];
        match rustix::event::poll(&mut fds, most.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => {
                Err(ChannelError::Socket { doing: "cannot wait for the other end", errno })
            }
        }
    }
}

polled!(Connection, socket, "Readable once the other end has said something, or is gone.");

impl From<Connection> for OwnedFd {
    /// For a process that is to inherit it; [`Connection::from_fd`] takes it there.
    fn from(connection: Connection) -> OwnedFd {
        connection.socket
    }
}

/// Takes the packet that was peeked at (MSG_PEEK), once all that came with it is here.
pub(super) fn take_peeked(socket: BorrowedFd<'_>) {
    // That the other end went in between (ECONNRESET) is told once, before the packet.
    let again = [Err(Errno::INTR), Err(Errno::CONNRESET)];
    while again.contains(&rustix::net::recv(socket, &mut [0; 1], RecvFlags::DONTWAIT).map(drop)) {}
}

/// Sends a packet, and up to [`FILES_MAX`] descriptors with it.
pub(super) fn say(
    socket: BorrowedFd<'_>,
    packet: &[u8],
    files: &[BorrowedFd<'_>],
) -> Result<(), ChannelError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut with = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        assert!(with.push(SendAncillaryMessage::ScmRights(files)), "there is room for them");
    }
    said(socket, packet, &mut with)
}

fn said(
    socket: BorrowedFd<'_>,
    packet: &[u8],
    with: &mut SendAncillaryBuffer<'_, '_, '_>,
) -> Result<(), ChannelError> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    match rustix::net::sendmsg(socket, &[IoSlice::new(packet)], with, flags) {
        Ok(_) => Ok(()),
        Err(Errno::PIPE | Errno::CONNRESET) => Err(ChannelError::HungUp),
        Err(errno) => Err(ChannelError::Socket { doing: "cannot greet the other end", errno }),
    }
}
