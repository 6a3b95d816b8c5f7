//! What any number of processes put objects into, and any number take them from.
//!
//! Memory that all have mapped holds the messages in their order, a ring; a block of large buffers is
//! memory of its own, sealed, whose descriptor lies in a socket pair that all have, in the same order and
//! with a number that its message names. Whoever puts or takes does it when it is its turn ([`Turns`]),
//! and one store, of where the ring begins and ends, makes it so: a process that is killed before has
//! done nothing, and what it left in the socket is of a number that nobody asks for any more.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytepath::channel::{ChannelError, Parcel, SealedParcel, SharedBytes};
use bytepath::pages::{HUGE_PAGE_BYTES, PageSize, PagesError, SharedMemory};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use super::errors::{os_error, raised, taken_fd};
use super::given::Given;
use super::head::Plan;
use super::signal::{Signal, Turn, Turns, identity};
use super::waiting::{Deadline, PyError};
use crate::sys::buffer::LentBytes;
use crate::sys::view::Block;

/// Buffers that are shorter go with the pickle: making a block costs more than copying them twice.
const INLINE_MAX: usize = 32 << 10;

/// Words, in cache lines of their own: whose turn it is, where messages begin and end, and what else is
/// known of them. Behind each that is waited for are one that changes with it and one for how many wait.
const TURN: usize = 0;
const SPAN: usize = 16;
const ROOM: usize = 32;
const COUNT: usize = 48;
const BLOCK_BYTES: usize = 49;
const BLOCKS: usize = 50;
const CHANGES: usize = 1;
const WAITING: usize = 2;
/// Bytes before the ring.
const AHEAD: usize = 4096;

const WORD: usize = 8;
/// Before each message: its length, the number of its block, and that one's length.
const PREFIX: usize = 3;

/// Sleeps last no longer, so that signals are seen.
const SLICE: Duration = Duration::from_millis(50);
/// The first who waits for a message stays awake for so long: waking another CPU may cost as much.
const AWAKE: Duration = Duration::from_micros(50);
const LOOKS: u32 = 32;

/// The end that all processes of a queue have.
#[pyclass(frozen, module = "bytepath._bytepath")]
#[derive(Debug)]
pub(crate) struct Pool {
    words: SharedMemory,
    /// The same memory, for the thread of this process whose turn it is.
    ring: Mutex<SharedMemory>,
    blocks: Blocks,
    /// Bytes of blocks that it holds, but for one alone.
    capacity: u64,
    /// This process.
    ours: u64,
    closed: AtomicBool,
}

/// Where the descriptors of blocks lie.
#[derive(Debug)]
struct Blocks {
    put: OwnedFd,
    take: OwnedFd,
}

/// A message to be put.
struct Message {
    head: Vec<u8>,
    block: Option<SealedParcel>,
    block_bytes: usize,
}

/// One that was taken.
struct Taken {
    head: Vec<u8>,
    block: Option<SealedParcel>,
}

#[pymethods]
impl Pool {
    /// An empty one, whose ring has so many bytes, and which holds blocks of so many more.
    #[staticmethod]
    fn create(ring_bytes: usize, capacity: u64) -> PyResult<Pool> {
        let ring_bytes = ring_bytes.clamp(AHEAD, u32::MAX as usize);
        let memory = SharedMemory::create(AHEAD + ring_bytes, PageSize::Base).map_err(no_memory)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (put, take) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
                .map_err(|errno| os_error("cannot make a queue", errno))?;
        // More blocks under way, as many as the administrator allows.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&put, 1 << 20);
        Pool::of(memory, Blocks { put, take }, capacity)
    }

    /// One that was passed on, as descriptors, which it takes.
    #[staticmethod]
    fn from_fds(memory: i32, put: i32, take: i32, capacity: u64) -> PyResult<Pool> {
        let (memory, put, take) = (taken_fd(memory)?, taken_fd(put)?, taken_fd(take)?);
        let memory = SharedMemory::open(memory).map_err(no_memory)?;
        Pool::of(memory, Blocks { put, take }, capacity)
    }

    /// Its descriptors: of the memory, and of the two ends of the socket.
    fn filenos(&self) -> (i32, i32, i32) {
        let Blocks { put, take } = &self.blocks;
        (self.words.as_fd().as_raw_fd(), put.as_raw_fd(), take.as_raw_fd())
    }

    /// The same for this process, which was forked from the one that had it.
    fn inherited(&self) -> PyResult<Pool> {
        let again = |fd: &dyn AsFd| {
            let copy = rustix::io::fcntl_dupfd_cloexec(fd.as_fd(), 3);
            copy.map_err(|errno| os_error("cannot take the queue over", errno))
        };
        let memory = SharedMemory::open(again(&self.words)?).map_err(no_memory)?;
        let (put, take) = (again(&self.blocks.put)?, again(&self.blocks.take)?);
        Pool::of(memory, Blocks { put, take }, self.capacity)
    }

    /// Puts a pickle and its buffers where fewer than so many messages are; false where there was no room
    /// in time.
    fn send(
        &self,
        py: Python<'_>,
        pickle: &Bound<'_, PyAny>,
        buffers: Vec<Bound<'_, PyAny>>,
        timeout: Option<f64>,
        most: u64,
    ) -> PyResult<bool> {
        let deadline = Deadline::after(timeout);
        let lent = |buffer| LentBytes::of(buffer);
        let buffers = buffers.iter().map(lent).collect::<PyResult<Vec<_>>>()?;
        let message = self.packed(py, &LentBytes::of(pickle)?, &buffers)?;
        loop {
            let before = self.span().load(SeqCst);
            let put = self.alone(py, deadline, |ring| self.try_put(ring, &message, most))?;
            if put == Some(true) {
                self.filled().wake(1);
                return Ok(true);
            }
            if deadline.is_over() {
                return Ok(false);
            }
            py.check_signals()?;
            let has_changed = || self.span().load(SeqCst) != before;
            py.detach(|| self.emptied().sleep(deadline.slice().min(SLICE), has_changed));
        }
    }

    /// Takes a message, as its pickle and its buffers; None where none came in time.
    fn receive<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyList>)>> {
        let deadline = Deadline::after(timeout);
        let mut has_slept = false;
        loop {
            let there = || self.holds_some();
            if there() {
                let taken = self.alone(py, deadline, |ring| self.try_take(ring))?;
                if let Some(Some(Taken { head, block })) = taken {
                    self.emptied().wake(i32::MAX as u32);
                    let block = block.map(Block::Sealed);
                    let head = SharedBytes::from(&head[..]);
                    return Given::of(py, head, block)?.objects(py).map(Some);
                }
            }
            self.check_open()?;
            if deadline.is_over() {
                return Ok(None);
            }
            py.check_signals()?;
            py.detach(|| {
                if !has_slept && self.filled().waiting.load(SeqCst) == 0 && awake(there, deadline) {
                    return;
                }
                self.filled().sleep(deadline.slice().min(SLICE), there);
            });
            has_slept = true;
        }
    }

    /// How many messages are in it.
    fn count(&self) -> u64 {
        self.word(COUNT).load(SeqCst)
    }

    /// Has whoever waits in this process wait no more.
    fn close(&self) {
        self.closed.store(true, SeqCst);
    }
}

impl Pool {
    fn of(memory: SharedMemory, blocks: Blocks, capacity: u64) -> PyResult<Pool> {
        let again = rustix::io::fcntl_dupfd_cloexec(memory.as_fd(), 3)
            .map_err(|errno| os_error("cannot make a queue", errno))?;
        let ring = Mutex::new(SharedMemory::open(again).map_err(no_memory)?);
        let ours = identity(std::process::id());
        if ours == 0 {
            let what =
                "cannot tell which processes live, which a queue that several get from has to know";
            return Err(os_error(&format!("{what}: /proc is not there"), Errno::NOENT));
        }
        Ok(Pool { words: memory, ring, blocks, capacity, ours, closed: AtomicBool::new(false) })
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        &self.words.words()[index]
    }

    fn signal(&self, index: usize) -> Signal<'_> {
        let changes = self.words.half_word(index + CHANGES);
        Signal { changes, waiting: self.word(index + WAITING) }
    }

    /// A message was put.
    fn filled(&self) -> Signal<'_> {
        self.signal(SPAN)
    }

    /// One was taken.
    fn emptied(&self) -> Signal<'_> {
        self.signal(ROOM)
    }

    /// Where the first message begins, and, in the upper half, where the last one ends, in words of the
    /// ring. Storing it is what puts and takes.
    fn span(&self) -> &AtomicU64 {
        self.word(SPAN)
    }

    fn holds_some(&self) -> bool {
        let Span { from, to } = Span::of(self.span().load(SeqCst));
        from != to
    }

    /// Words of the ring.
    fn ring_words(&self) -> usize {
        self.words.words().len() - AHEAD / WORD
    }

    fn check_open(&self) -> PyResult<()> {
        match self.closed.load(SeqCst) {
            true => Err(PyValueError::new_err("this queue is closed")),
            false => Ok(()),
        }
    }

    /// The message as it goes: what is large is in a block of its own, which nobody changes any more.
    fn packed(
        &self,
        py: Python<'_>,
        pickle: &LentBytes,
        buffers: &[LentBytes],
    ) -> PyResult<Message> {
        let longest = (self.ring_words() - 1 - PREFIX) * WORD;
        let plan = Plan::of(pickle, buffers, longest, INLINE_MAX);
        let block_bytes = plan.block_bytes;
        let block = (block_bytes > 0).then(|| {
            py.detach(|| {
                let mut parcel = parcel(block_bytes)?;
                plan.fill(pickle, buffers, parcel.as_mut_slice().into());
                parcel.seal(block_bytes)
            })
        });
        let block = block.transpose().map_err(no_memory)?;
        Ok(Message { head: plan.head(pickle, buffers), block, block_bytes })
    }

    /// Does something when it is this thread's turn; `None` where that did not come in time. The
    /// interpreter is let go meanwhile.
    fn alone<T: Send>(
        &self,
        py: Python<'_>,
        deadline: Deadline,
        work: impl FnOnce(&mut SharedMemory) -> Result<T, PyError> + Send,
    ) -> PyResult<Option<T>> {
        let mut work = Some(work);
        loop {
            self.check_open()?;
            let done = py.detach(|| {
                let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
                let turns = Turns { whose: self.word(TURN), ends: self.signal(TURN) };
                let Some(turn) = turns.begin(self.ours) else { return Ok(None) };
                let ends = Ends(turns);
                if turn == Turn::Inherited {
                    self.count_again(&ring)?;
                }
                let done = work.take().map(|work| work(&mut ring)).transpose();
                drop(ends);
                done
            });
            match done.map_err(|error| error(py))? {
                Some(done) => return Ok(Some(done)),
                None if deadline.is_over() => return Ok(None),
                None => py.check_signals()?,
            }
        }
    }

    /// What is known of the messages, from themselves: who was killed may have been about to store it.
    fn count_again(&self, ring: &SharedMemory) -> Result<(), PyError> {
        let Span { mut from, to } = Span::of(self.span().load(SeqCst));
        let (mut count, mut block_bytes) = (0, 0);
        while from != to {
            let prefix = self.prefix(ring, Span { from, to })?;
            from = self.behind(from, prefix.words());
            count += 1;
            block_bytes += prefix.block_bytes;
        }
        self.word(COUNT).store(count, SeqCst);
        self.word(BLOCK_BYTES).store(block_bytes, SeqCst);
        Ok(())
    }

    /// Whether there was room for it.
    fn try_put(
        &self,
        ring: &mut SharedMemory,
        message: &Message,
        most: u64,
    ) -> Result<bool, PyError> {
        let Span { from, to } = Span::of(self.span().load(SeqCst));
        let block_bytes = message.block_bytes as u64;
        let (count, held) = (self.word(COUNT).load(SeqCst), self.word(BLOCK_BYTES).load(SeqCst));
        let mut prefix = Prefix { head_bytes: message.head.len() as u64, number: 0, block_bytes };
        let lacks_memory = block_bytes > 0 && held > 0 && held + block_bytes > self.capacity;
        let free = self.ring_words() - 1 - self.words_between(from, to);
        if count >= most || lacks_memory || prefix.words() > free {
            return Ok(false);
        }
        if let Some(block) = &message.block {
            prefix.number = self.word(BLOCKS).fetch_add(1, SeqCst) + 1;
            if !self.blocks.put(prefix.number, block)? {
                return Ok(false);
            }
        }
        self.write(ring, to, &prefix.bytes());
        self.write(ring, self.behind(to, PREFIX), &message.head);
        self.word(COUNT).store(count + 1, SeqCst);
        self.word(BLOCK_BYTES).store(held + block_bytes, SeqCst);
        let to = self.behind(to, prefix.words());
        self.span().store(Span { from, to }.word(), SeqCst);
        Ok(true)
    }

    /// The first message, if there is one.
    fn try_take(&self, ring: &mut SharedMemory) -> Result<Option<Taken>, PyError> {
        let span = Span::of(self.span().load(SeqCst));
        if span.from == span.to {
            return Ok(None);
        }
        let prefix = self.prefix(ring, span)?;
        let block = match prefix.number {
            0 => None,
            number => Some(self.blocks.first(number, prefix.block_bytes)?),
        };
        let mut head = vec![0; prefix.head_bytes as usize];
        self.read(ring, self.behind(span.from, PREFIX), &mut head);
        let from = self.behind(span.from, prefix.words());
        // An empty one begins anew, where the cache has it.
        let after = if from == span.to { Span { from: 0, to: 0 } } else { Span { from, ..span } };
        self.span().store(after.word(), SeqCst);
        self.word(COUNT).fetch_sub(1, SeqCst);
        self.word(BLOCK_BYTES).fetch_sub(prefix.block_bytes, SeqCst);
        if block.is_some() {
            self.blocks.drop_first();
        }
        Ok(Some(Taken { head, block }))
    }

    /// What is before the first message.
    fn prefix(&self, ring: &SharedMemory, span: Span) -> Result<Prefix, PyError> {
        let mut bytes = [0; PREFIX * WORD];
        self.read(ring, span.from, &mut bytes);
        let prefix = Prefix::of(bytes);
        let held = self.words_between(span.from, span.to);
        let is_whole = prefix.head_bytes <= (held * WORD) as u64 && prefix.words() <= held;
        is_whole.then_some(prefix).ok_or_else(|| broken("its lengths are none"))
    }

    fn words_between(&self, from: usize, to: usize) -> usize {
        let words = self.ring_words();
        (to + words - from) % words
    }

    fn behind(&self, at: usize, words: usize) -> usize {
        (at + words) % self.ring_words()
    }

    /// Both parts of a range of the ring, in bytes of the memory.
    fn parts(&self, at: usize, bytes: usize) -> (usize, usize) {
        (AHEAD + at * WORD, bytes.min((self.ring_words() - at) * WORD))
    }

    fn write(&self, ring: &mut SharedMemory, at: usize, bytes: &[u8]) {
        let (start, first) = self.parts(at, bytes.len());
        let (here, there) = bytes.split_at(first);
        ring.space(start..start + first).copy_from(0, here);
        ring.space(AHEAD..AHEAD + there.len()).copy_from(0, there);
    }

    fn read(&self, ring: &SharedMemory, at: usize, into: &mut [u8]) {
        let (start, first) = self.parts(at, into.len());
        let (here, there) = into.split_at_mut(first);
        ring.bytes(start..start + first).copy_to(here);
        ring.bytes(AHEAD..AHEAD + there.len()).copy_to(there);
    }
}

impl Blocks {
    /// Puts a block behind the others; whether there was room.
    fn put(&self, number: u64, block: &SealedParcel) -> Result<bool, PyError> {
        let (number, files) = (number.to_le_bytes(), [block.as_fd()]);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut with = SendAncillaryBuffer::new(&mut space);
        with.push(SendAncillaryMessage::ScmRights(&files));
        loop {
            let sent = rustix::net::sendmsg(
                &self.put,
                &[IoSlice::new(&number)],
                &mut with,
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            );
            match sent {
                Ok(_) => return Ok(true),
                // The socket is full, or as many are under way as a process may have open.
                Err(Errno::AGAIN | Errno::TOOMANYREFS | Errno::NOBUFS) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed("cannot hand a block over", errno)),
            }
        }
    }

    /// The block of this number, which is the first but for what the killed have left. It stays there.
    fn first(&self, number: u64, bytes: u64) -> Result<SealedParcel, PyError> {
        loop {
            let (found, file) =
                self.look().map_err(|errno| failed("cannot take a block", errno))?;
            if found < number {
                self.drop_first();
                continue;
            }
            if found > number {
                return Err(broken("a block is not there"));
            }
            let Some(file) = file else {
                return Err(failed("cannot take a block", Errno::MFILE));
            };
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            return SealedParcel::open(file, bytes)
                .map_err(|error| -> PyError { Box::new(move |py| raised(py, error)) });
        }
    }

    /// The first one's number, and its descriptor, unless this process has too many.
    fn look(&self) -> Result<(u64, Option<OwnedFd>), Errno> {
        let mut number = [0; WORD];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut with = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let into = &mut [IoSliceMut::new(&mut number)];
        rustix::io::retry_on_intr(|| rustix::net::recvmsg(&self.take, into, &mut with, flags))?;
        let file = with.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        Ok((u64::from_le_bytes(number), file))
    }

    fn drop_first(&self) {
        let flags = RecvFlags::DONTWAIT;
        let _ = rustix::io::retry_on_intr(|| {
            rustix::net::recv(&self.take, &mut [0_u8; WORD], flags).map(drop)
        });
    }
}

/// Where messages are.
#[derive(Debug, Clone, Copy)]
struct Span {
    from: usize,
    to: usize,
}

impl Span {
    fn of(word: u64) -> Span {
        Span { from: (word & u64::from(u32::MAX)) as usize, to: (word >> 32) as usize }
    }

    fn word(self) -> u64 {
        self.from as u64 | (self.to as u64) << 32
    }
}

#[derive(Debug, Clone, Copy)]
struct Prefix {
    head_bytes: u64,
    number: u64,
    block_bytes: u64,
}

impl Prefix {
    fn of(bytes: [u8; PREFIX * WORD]) -> Prefix {
        let (words, _) = bytes.as_chunks::<WORD>();
        let word = |at: usize| u64::from_le_bytes(words[at]);
        Prefix { head_bytes: word(0), number: word(1), block_bytes: word(2) }
    }

    fn bytes(self) -> Vec<u8> {
        let words = [self.head_bytes, self.number, self.block_bytes];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Words of the ring, with what follows it.
    fn words(self) -> usize {
        PREFIX + (self.head_bytes as usize).div_ceil(WORD)
    }
}

/// Ends a turn, however it goes.
struct Ends<'m>(Turns<'m>);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Memory for a block, by huge pages where it is long enough and the machine has them.
fn parcel(bytes: usize) -> Result<Parcel, PagesError> {
    if bytes >= HUGE_PAGE_BYTES
        && let Ok(parcel) = Parcel::allocate(bytes, PageSize::Huge)
    {
        return Ok(parcel);
    }
    Parcel::allocate(bytes, PageSize::Base)
}

/// Looks for a moment without sleeping; whether that was worth it.
fn awake(there: impl Fn() -> bool, deadline: Deadline) -> bool {
    let began = Instant::now();
    while began.elapsed() < AWAKE && !deadline.is_over() {
        for _ in 0..LOOKS {
            if there() {
                return true;
            }
            std::hint::spin_loop();
        }
        std::thread::yield_now();
    }
    false
}

fn no_memory(error: PagesError) -> PyErr {
    PyMemoryError::new_err(error.to_string())
}

fn broken(what: &'static str) -> PyError {
    Box::new(move |py| raised(py, ChannelError::Broken(what)))
}

fn failed(doing: &'static str, errno: Errno) -> PyError {
    Box::new(move |_| os_error(doing, errno))
}
