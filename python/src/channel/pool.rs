//! What any number of processes put objects into, and any number take them from.
//!
//! Memory that all have mapped holds the messages in their order, a ring, each in one piece; a block of
//! what is very large is memory of its own, sealed, whose descriptor lies in a socket pair that all have,
//! in the same order and with a number that its message names. Whoever puts or takes does it when it is its turn ([`Turns`]),
//! and one store, of where the ring begins and ends, makes it so: a process that is killed before has
//! done nothing, and what it left in the socket is of a number that nobody asks for any more.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytepath::channel::{ChannelError, SealedParcel};
use bytepath::pages::{PageSize, PagesError, SharedMemory};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use super::board::{Board, own_identity};
use super::errors::{no_memory, os_error, raised, room_for, taken_fd};
use super::given::objects_of_copy;
use super::head::{Most, Plan};
use super::signal::{Signal, TURN_MAX, Turn, Turns, Words};
use super::waiting::{Deadline, PyError};
use crate::held::Passed;
use crate::sys::buffer::LentBytes;
use crate::sys::view::Block;

/// Buffers that are shorter go through the ring: pages for a block, which are fresh, cost more than copying
/// them twice.
const BUFFER_MAX: usize = 1 << 20;
/// All of a message that does, at the most, or a quarter of the ring.
const HEAD_MAX: usize = 2 << 20;
/// The ring begins anew behind so many bytes where there is room at its beginning: that is in the cache.
const HOT_BYTES: usize = 512 << 10;
/// Who finds more in the ring waits a moment while others take from it, for the same reason.
const AHEAD_MAX: usize = 2 << 20;
const MOMENT: Duration = Duration::from_millis(5);
const PAUSE: Duration = Duration::from_micros(100);

/// Words, in cache lines of their own: whose turn it is, where messages begin and end, and what else is
/// known of them.
const TURN: usize = 0;
const SPAN: usize = 16;
const ROOM: usize = 32;
const COUNT: usize = 48;
const BLOCK_BYTES: usize = 49;
const BLOCKS: usize = 50;
const TAKEN: usize = 51;
/// Where messages end with the one that is being put, and how many have been put then.
const NEXT_TO: usize = 52;
const NEXT_PUT: usize = 53;
/// Bytes before the ring.
const BEFORE: usize = 4096;

const WORD: usize = 8;
/// Before each message: its length, the number of its block, and that one's length.
const PREFIX: usize = 3;
/// Instead of a message: the next one is at the beginning of the ring.
const ANEW: u64 = u64::MAX;

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
    /// How many messages had been taken when a moment was waited in vain for more.
    in_vain: AtomicU64,
    /// Bytes that the last message which this process put, or would have, takes of the ring, and those of its block.
    last_bytes: AtomicUsize,
    last_block_bytes: AtomicUsize,
    closed: AtomicBool,
}

/// Where the descriptors of blocks lie.
#[derive(Debug)]
struct Blocks {
    put: OwnedFd,
    take: OwnedFd,
}

/// A message to be put.
struct Message<'p> {
    plan: &'p Plan,
    pickle: &'p LentBytes,
    buffers: &'p [LentBytes],
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
        let ring_bytes = ring_bytes.clamp(BEFORE, u32::MAX as usize);
        let memory =
            SharedMemory::create(BEFORE + ring_bytes, PageSize::Base).map_err(no_memory)?;
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
    fn from_fds(
        memory: Passed<'_>,
        put: Passed<'_>,
        take: Passed<'_>,
        capacity: u64,
    ) -> PyResult<Pool> {
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
    /// in time. Where there is a board it counts what is to be done.
    #[pyo3(signature = (pickle, buffers, timeout, most, board=None))]
    fn send(
        &self,
        py: Python<'_>,
        pickle: &Bound<'_, PyAny>,
        buffers: Vec<Bound<'_, PyAny>>,
        timeout: Option<f64>,
        most: u64,
        board: Option<&Board>,
    ) -> PyResult<bool> {
        let deadline = Deadline::after(timeout);
        let lent = |buffer| LentBytes::of(buffer);
        let buffers = buffers.iter().map(lent).collect::<PyResult<Vec<_>>>()?;
        let pickle = LentBytes::of(pickle)?;
        let plan = self.plan(&pickle, &buffers);
        self.last_bytes.store(plan.head_bytes(), SeqCst);
        self.last_block_bytes.store(plan.block_bytes, SeqCst);
        let mut block = None;
        py.detach(|| self.wait_a_moment(deadline));
        loop {
            self.check_open()?;
            let before = self.span().load(SeqCst);
            let had_room = self.has_room(plan.block_bytes, most);
            if had_room && plan.block_bytes > 0 && block.is_none() {
                let made = py.detach(|| made_block(&plan, &pickle, &buffers));
                block = Some(made.map_err(no_memory)?);
            }
            let message = Message { plan: &plan, pickle: &pickle, buffers: &buffers };
            let put = self.alone(py, deadline, board, |ring| match &block {
                // Who comes after one that was killed counts again.
                None if plan.block_bytes > 0 => Ok(false),
                block => self.try_put(ring, &message, block.as_ref(), most, board),
            })?;
            if put == Some(true) {
                self.filled().wake(1);
                return Ok(true);
            }
            if !had_room && self.has_room(plan.block_bytes, most) {
                continue;
            }
            if deadline.is_over() {
                return Ok(false);
            }
            py.check_signals()?;
            let has_changed = || self.span().load(SeqCst) != before;
            py.detach(|| self.emptied().sleep(deadline.slice(), has_changed));
        }
    }

    /// Whether there is no room now for one more message like the last one of this process.
    fn is_full(&self) -> bool {
        let head_bytes = self.last_bytes.load(SeqCst) as u64;
        let words = Prefix { head_bytes, number: 0, block_bytes: 0 }.words();
        !self.has_room(self.last_block_bytes.load(SeqCst), u64::MAX)
            || self.room(Span::of(self.span().load(SeqCst)), words).is_none()
    }

    /// Takes a message, as its pickle and its buffers; None where none came in time. Where there is a board
    /// it counts what others have put who were killed.
    #[pyo3(signature = (timeout, board=None))]
    fn receive<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
        board: Option<&Board>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyList>)>> {
        let deadline = Deadline::after(timeout);
        let mut has_slept = false;
        loop {
            let there = || self.holds_some();
            if there() {
                let taken = self.alone(py, deadline, board, |ring| self.try_take(ring))?;
                if let Some(Some(Taken { head, block })) = taken {
                    self.emptied().wake(u32::MAX);
                    let objects = objects_of_copy(py, head, block.map(Block::Sealed));
                    if let (Err(_), Some(board)) = (&objects, board) {
                        // Nobody gets it, to say that it is done.
                        board.tell_done();
                    }
                    return objects.map(Some);
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
                self.filled().sleep(deadline.slice(), there);
            });
            has_slept = true;
        }
    }

    /// Has the board count what somebody has put who was killed before it was; false where no turn came in time.
    fn settle(&self, py: Python<'_>, timeout: Option<f64>, board: &Board) -> PyResult<bool> {
        let settled = self.alone(py, Deadline::after(timeout), Some(board), |_| Ok(()))?;
        Ok(settled.is_some())
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
        let ours = own_identity()?;
        let in_vain = AtomicU64::new(u64::MAX);
        Ok(Pool {
            words: memory,
            ring,
            blocks,
            capacity,
            ours,
            in_vain,
            last_bytes: AtomicUsize::new(0),
            last_block_bytes: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        })
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        Words(&self.words).word(index)
    }

    fn signal(&self, index: usize) -> Signal<'_> {
        Words(&self.words).signal(index)
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
        self.words.words().len() - BEFORE / WORD
    }

    fn check_open(&self) -> PyResult<()> {
        match self.closed.load(SeqCst) {
            true => Err(PyValueError::new_err("this queue is closed")),
            false => Ok(()),
        }
    }

    /// What of a message goes where.
    fn plan(&self, pickle: &LentBytes, buffers: &[LentBytes]) -> Plan {
        let head_bytes = HEAD_MAX.min(self.ring_words() * WORD / 4);
        let most = Most { head_bytes, buffer_bytes: BUFFER_MAX.min(head_bytes / 2) };
        Plan::of(pickle, buffers, most)
    }

    /// Whether there is room for one more message, with a block of so many bytes, but for the ring's.
    fn has_room(&self, block_bytes: usize, most: u64) -> bool {
        let held = self.word(BLOCK_BYTES).load(SeqCst);
        let lacks_memory =
            block_bytes > 0 && held > 0 && held.saturating_add(block_bytes as u64) > self.capacity;
        self.word(COUNT).load(SeqCst) < most && !lacks_memory
    }

    /// Lets those who take catch up, as long as they do.
    fn wait_a_moment(&self, deadline: Deadline) {
        let is_ahead = || {
            let Span { from, to } = Span::of(self.span().load(SeqCst));
            self.words_between(from, to) * WORD > AHEAD_MAX
        };
        let taken = || self.word(TAKEN).load(SeqCst);
        let (began, before) = (Instant::now(), taken());
        while is_ahead() && self.in_vain.load(SeqCst) != taken() {
            if began.elapsed() > MOMENT || deadline.is_over() {
                if taken() == before {
                    self.in_vain.store(before, SeqCst);
                }
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Does something when it is this thread's turn; `None` where that did not come in time. The
    /// interpreter is let go meanwhile.
    fn alone<T: Send>(
        &self,
        py: Python<'_>,
        deadline: Deadline,
        board: Option<&Board>,
        work: impl FnOnce(&mut SharedMemory) -> Result<T, PyError> + Send,
    ) -> PyResult<Option<T>> {
        let (mut work, mut last) = (Some(work), 0);
        let asked = Instant::now();
        loop {
            self.check_open()?;
            let done = py.detach(|| {
                let turns = Words(&self.words).turns(TURN);
                let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
                let turn = match turns.begin(self.ours, last) {
                    Ok(turn) => turn,
                    Err(theirs) => {
                        drop(ring);
                        last = theirs;
                        turns.wait();
                        return Ok(None);
                    }
                };
                let ends = Ends(turns);
                if turn == Turn::Inherited {
                    self.count_again(&mut ring, board)?;
                }
                let done = work.take().map(|work| work(&mut ring)).transpose();
                drop(ends);
                done
            });
            match done.map_err(|error| error(py))? {
                Some(done) => return Ok(Some(done)),
                // Others' turns are no reason for there to be no room, or nothing.
                None if deadline.is_over() && asked.elapsed() > TURN_MAX => return Ok(None),
                None => py.check_signals()?,
            }
        }
    }

    /// What is known of the messages, from themselves: who was killed may have been about to store it.
    fn count_again(&self, ring: &mut SharedMemory, board: Option<&Board>) -> Result<(), PyError> {
        self.count_put(board);
        let mut span = Span::of(self.span().load(SeqCst));
        let (mut count, mut block_bytes) = (0, 0);
        while span.from != span.to {
            let (at, prefix) = self.first(ring, span)?;
            span.from = at + prefix.words();
            count += 1;
            if count > self.ring_words() as u64 {
                return Err(broken("its messages have no end"));
            }
            block_bytes += prefix.block_bytes;
        }
        self.word(COUNT).store(count, SeqCst);
        self.word(BLOCK_BYTES).store(block_bytes, SeqCst);
        if block_bytes == 0 {
            self.blocks.clear();
        }
        Ok(())
    }

    /// Whether there was room for it.
    fn try_put(
        &self,
        ring: &mut SharedMemory,
        message: &Message<'_>,
        block: Option<&SealedParcel>,
        most: u64,
        board: Option<&Board>,
    ) -> Result<bool, PyError> {
        let Message { plan, pickle, buffers } = message;
        let span = Span::of(self.span().load(SeqCst));
        let (head_bytes, block_bytes) = (plan.head_bytes(), plan.block_bytes as u64);
        let (count, held) = (self.word(COUNT).load(SeqCst), self.word(BLOCK_BYTES).load(SeqCst));
        let mut prefix = Prefix { head_bytes: head_bytes as u64, number: 0, block_bytes };
        let Some(at) = self.room(span, prefix.words()) else { return Ok(false) };
        if !self.has_room(plan.block_bytes, most) {
            return Ok(false);
        }
        if let Some(block) = block {
            prefix.number = self.word(BLOCKS).fetch_add(1, SeqCst) + 1;
            if !self.blocks.put(prefix.number, block)? {
                return Ok(false);
            }
        }
        if at != span.to {
            ring.space(bytes_of(span.to, WORD)).copy_from(0, &ANEW.to_le_bytes());
        }
        ring.space(bytes_of(at, PREFIX * WORD)).copy_from(0, &prefix.bytes());
        plan.write_head(pickle, buffers, ring.space(bytes_of(at + PREFIX, head_bytes)));
        self.word(COUNT).store(count + 1, SeqCst);
        self.word(BLOCK_BYTES).store(held + block_bytes, SeqCst);
        let to = at + prefix.words();
        if let Some(board) = board {
            self.word(NEXT_TO).store(to as u64, SeqCst);
            self.word(NEXT_PUT).store((board.put() + 1) as u64, SeqCst);
        }
        self.span().store(Span { to, ..span }.word(), SeqCst);
        self.count_put(board);
        Ok(true)
    }

    /// Counts the last message that was put, unless it is: whoever put it may have been killed in between. No
    /// message ends where the one before does.
    fn count_put(&self, board: Option<&Board>) {
        let to = Span::of(self.span().load(SeqCst)).to as u64;
        if let Some(board) = board
            && to == self.word(NEXT_TO).load(SeqCst)
        {
            board.set_put(self.word(NEXT_PUT).load(SeqCst) as i64);
        }
    }

    /// Where so many words fit behind the others. One more stays free there, for what says that the next
    /// message is at the beginning, and so that a full ring is no empty one.
    fn room(&self, span: Span, words: usize) -> Option<usize> {
        let Span { from, to } = span;
        if to < from {
            return (to + words < from).then_some(to);
        }
        let fits_behind = to + words < self.ring_words();
        let fits_before = words < from;
        match (fits_behind, fits_before) {
            (_, true) if (to + words) * WORD > HOT_BYTES => Some(0),
            (true, _) => Some(to),
            (false, true) => Some(0),
            (false, false) => None,
        }
    }

    /// The first message, if there is one.
    fn try_take(&self, ring: &mut SharedMemory) -> Result<Option<Taken>, PyError> {
        let span = Span::of(self.span().load(SeqCst));
        if span.from == span.to {
            return Ok(None);
        }
        let (at, prefix) = self.first(ring, span)?;
        let block = match prefix.number {
            0 => None,
            number => Some(self.blocks.first(number, prefix.block_bytes)?),
        };
        let head_bytes = prefix.head_bytes as usize;
        let mut head = room_for(head_bytes)
            .map_err(|error| -> PyError { Box::new(move |_| no_memory(error)) })?;
        head.resize(head_bytes, 0);
        ring.bytes(bytes_of(at + PREFIX, head.len())).copy_to(&mut head);
        let from = at + prefix.words();
        // An empty one begins anew.
        let after = if from == span.to { Span { from: 0, to: 0 } } else { Span { from, ..span } };
        self.span().store(after.word(), SeqCst);
        self.word(COUNT).fetch_sub(1, SeqCst);
        self.word(BLOCK_BYTES).fetch_sub(prefix.block_bytes, SeqCst);
        self.word(TAKEN).fetch_add(1, SeqCst);
        if block.is_some() {
            self.blocks.drop_first();
        }
        Ok(Some(Taken { head, block }))
    }

    /// Where the first message is, and what is before it.
    fn first(&self, ring: &mut SharedMemory, span: Span) -> Result<(usize, Prefix), PyError> {
        let lengths = || broken("its lengths are none");
        let Span { from, to } = span;
        let words = self.ring_words();
        if from >= words || to >= words {
            return Err(lengths());
        }
        let mut word = [0; WORD];
        ring.bytes(bytes_of(from, WORD)).copy_to(&mut word);
        let at = if u64::from_le_bytes(word) == ANEW { 0 } else { from };
        let end = if to > at { to } else { words };
        if at + PREFIX > end {
            return Err(lengths());
        }
        let mut bytes = [0; PREFIX * WORD];
        ring.bytes(bytes_of(at, bytes.len())).copy_to(&mut bytes);
        let prefix = Prefix::of(bytes);
        let is_whole = prefix.head_bytes <= (words * WORD) as u64 && at + prefix.words() <= end;
        is_whole.then_some((at, prefix)).ok_or_else(lengths)
    }

    fn words_between(&self, from: usize, to: usize) -> usize {
        let words = self.ring_words();
        (to + words - from) % words
    }
}

/// So many bytes of the memory from this word of the ring on.
fn bytes_of(at: usize, bytes: usize) -> std::ops::Range<usize> {
    let start = BEFORE + at * WORD;
    start..start + bytes
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

    /// Whether there was one.
    fn drop_first(&self) -> bool {
        let flags = RecvFlags::DONTWAIT;
        let dropped = rustix::io::retry_on_intr(|| {
            rustix::net::recv(&self.take, &mut [0_u8; WORD], flags).map(drop)
        });
        dropped.is_ok()
    }

    /// Drops those that the killed have left, where there are no others.
    fn clear(&self) {
        while self.drop_first() {}
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

    fn bytes(self) -> [u8; PREFIX * WORD] {
        let mut bytes = [0; PREFIX * WORD];
        let (words, _) = bytes.as_chunks_mut::<WORD>();
        for (word, value) in words.iter_mut().zip([self.head_bytes, self.number, self.block_bytes])
        {
            *word = value.to_le_bytes();
        }
        bytes
    }

    /// Words of the ring, with what follows it.
    fn words(self) -> usize {
        PREFIX + (self.head_bytes as usize).div_ceil(WORD)
    }
}

/// The block of a message.
fn made_block(
    plan: &Plan,
    pickle: &LentBytes,
    buffers: &[LentBytes],
) -> Result<SealedParcel, PagesError> {
    let rest = if plan.is_far() { plan.rest(pickle, buffers)? } else { Vec::new() };
    SealedParcel::written(plan.block_bytes, &plan.parts(buffers, &rest))
}

/// Ends a turn, however it goes.
struct Ends<'m>(Turns<'m>);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
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

fn broken(what: &'static str) -> PyError {
    Box::new(move |py| raised(py, ChannelError::Broken(what)))
}

fn failed(doing: &'static str, errno: Errno) -> PyError {
    Box::new(move |_| os_error(doing, errno))
}
