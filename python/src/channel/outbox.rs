//! The end that objects go into.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytepath::channel::{BufferSender, ChannelError, Connection, Draft, Users};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::accounts::Account;
use super::board::Board;
use super::errors::{error, no_memory, os_error, raised, taken_fd};
use super::gate;
use super::head::{Most, Plan};
use super::meeting::{connected, connected_in_time};
use super::setup;
use super::waiting::{Deadline, PyError, Waiter, wait};
use crate::held::Passed;
use crate::sys::buffer::LentBytes;

/// Buffers that are shorter go with the pickle: keeping account of a block costs more.
const INLINE_MAX: usize = 16 << 10;
const HEAD_MAX: usize = 64 << 10;
/// Copies of more bytes are made without the interpreter's lock.
const COPY_HELD_MAX: usize = 256 << 10;
/// A receiver that is at work gives memory back within so many seconds.
const MOMENT: f64 = 0.005;
/// Each time it does not, twice as many blocks have to come back before it is waited for again, until there were so
/// many such times: it may keep most of what it gets, and give back but a little.
const IN_VAIN_MAX: u32 = 10;
/// That fewer messages are inside is waited for so many seconds at once.
const COUNTED_MAX: f64 = 0.05;
/// Why the ring cannot be handed over.
const TOO_MUCH: &str = "cannot hand the channel's memory over: as many descriptors of this user \
    are under way, to processes that have not taken them yet, as one may have open; try again when \
    they have, or raise `ulimit -n`";
/// An end that need not wait looks so often whether the other one is still there.
const LOOK: Duration = Duration::from_millis(10);

/// The end of a channel that messages go into.
#[pyclass(frozen, module = "bytepath._bytepath")]
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    events: Arc<OwnedFd>,
    /// Where a board counts what is in its ring.
    account: Option<Account>,
    board: Option<Py<Board>>,
    /// The process that made it.
    maker: u32,
}

#[derive(Debug)]
struct State {
    sender: Option<BufferSender>,
    /// It was let go because nobody receives, which those who still use it are told.
    is_lost: bool,
    looked: Instant,
    /// The last look found nobody: from then on every message is refused.
    is_alone: bool,
    lacked: Lacked,
    /// Bytes of the last message's block.
    block_bytes: usize,
    /// How many blocks have to have come back before waiting for warm memory is no more in vain.
    hopeful_from: u64,
    /// How often that was in vain, one time after the other.
    in_vain: u32,
}

/// What the last message that was refused was refused for.
#[derive(Debug, Clone, Copy)]
enum Lacked {
    Memory,
    Room { head: usize, buffers: usize },
}

/// A message that waits for room.
struct Parcel {
    head: Vec<u8>,
    drafts: Vec<Draft>,
}

#[pymethods]
impl Outbox {
    /// Connects to whoever receives at an address, or will; to the receiver of a queue with the
    /// token of its board, or to none where so many wait for it, or put, or so much of this user's is under way, that
    /// there was no room in time.
    #[staticmethod]
    #[pyo3(signature = (address, ring_bytes, capacity, patience, board=None))]
    fn connect(
        py: Python<'_>,
        address: std::ffi::OsString,
        ring_bytes: usize,
        capacity: usize,
        patience: f64,
        board: Option<Py<Board>>,
    ) -> PyResult<Option<Outbox>> {
        let Some(its_board) = board else {
            let connection = connected(py, address, patience)?;
            return Outbox::of(py, connection, ring_bytes, capacity, None).map(Some);
        };
        // First: each connection takes a place among those that wait until the receiver looks.
        if !Connection::can_hand_over().map_err(|error| raised(py, error))? {
            return Ok(None);
        }
        let board = its_board.get();
        let Some(account) = board.open_account(py)? else { return Ok(None) };
        let mut made = Outbox::counted(py, address, ring_bytes, capacity, patience, board, account);
        match &mut made {
            Ok(Some(made)) => made.board = Some(its_board),
            _ => board.close_account(account),
        }
        made
    }

    /// The end that was inherited, or passed on, as a descriptor, which it takes.
    #[staticmethod]
    fn from_fd(
        py: Python<'_>,
        fd: Passed<'_>,
        ring_bytes: usize,
        capacity: usize,
    ) -> PyResult<Outbox> {
        let connection = Connection::from_fd(taken_fd(fd)?).map_err(|error| raised(py, error))?;
        if !Connection::can_hand_over().map_err(|error| raised(py, error))? {
            return Err(os_error(TOO_MUCH, Errno::TOOMANYREFS));
        }
        Outbox::of(py, connection, ring_bytes, capacity, None)
    }

    /// Sends a pickle and its buffers; false where there was no room in time. Where there is a board, which counts
    /// them, only where fewer than so many messages are inside: None where that did not come in a moment.
    #[pyo3(signature = (pickle, buffers, timeout, board=None, most=i64::MAX))]
    fn send(
        &self,
        py: Python<'_>,
        pickle: &Bound<'_, PyAny>,
        buffers: Vec<Bound<'_, PyAny>>,
        timeout: Option<f64>,
        board: Option<&Board>,
        most: i64,
    ) -> PyResult<Option<bool>> {
        let deadline = Deadline::after(timeout);
        let Some((board, account)) = board.zip(self.account) else {
            return self.sent(py, pickle, &buffers, deadline).map(Some);
        };
        let moment = Deadline::after(Some(COUNTED_MAX)).earlier(deadline);
        if !board.take_room(py, account, most, moment)? {
            return Ok(None);
        }
        let sent = self.sent(py, pickle, &buffers, deadline);
        board.has_put(account, matches!(sent, Ok(true)));
        sent.map(Some)
    }

    /// For event loops, after a send that was refused: has the descriptor become readable once there is
    /// what it lacked; true where there is now.
    fn watch(&self, py: Python<'_>) -> PyResult<bool> {
        let mut state = self.state();
        let lacked = state.lacked;
        let sender = state.open().map_err(|error| error(py))?;
        let watched = match lacked {
            Lacked::Memory => sender.watch_buffers(),
            Lacked::Room { head, buffers } => sender.watch(head, buffers),
        };
        watched.map_err(|error| raised(py, error))
    }

    /// Whether there is memory for one more message like the last one, and the ring has room for it, or, where the last
    /// one lacked memory, for an empty one.
    fn has_room(&self, py: Python<'_>) -> PyResult<bool> {
        let mut state = self.state();
        let (head, buffers) = match state.lacked {
            Lacked::Memory => (0, 0),
            Lacked::Room { head, buffers } => (head, buffers),
        };
        let block_bytes = state.block_bytes;
        let sender = state.open().map_err(|error| error(py))?;
        let room = sender.has_room(head, buffers).map_err(|error| raised(py, error))?;
        Ok(room && (block_bytes == 0 || sender.would_lend(block_bytes)))
    }

    /// Whether a receiver has come.
    fn is_answered(&self, py: Python<'_>) -> PyResult<bool> {
        let mut state = self.state();
        let sender = state.open().map_err(|error| error(py))?;
        sender.look().map_err(|error| raised(py, error))?;
        Ok(sender.is_answered())
    }

    /// Bytes of memory that its buffers take now.
    fn buffer_bytes(&self) -> usize {
        self.state().sender.as_ref().map_or(0, BufferSender::buffer_bytes)
    }

    fn fileno(&self) -> i32 {
        self.events.as_raw_fd()
    }

    /// Ends it, with the word that no more comes.
    fn close(&self, py: Python<'_>) {
        let taken = py.detach(|| {
            let _look = gate::look();
            self.state().sender.take()
        });
        if let Some(sender) = taken {
            self.end(sender);
        }
    }

    /// Ends it, as nobody receives any more, which takes no room then.
    fn lose(&self, py: Python<'_>, board: &Board) {
        self.state().is_lost = true;
        self.close(py);
        if let Some(account) = self.account {
            board.close_account(account);
        }
    }

    /// Lets it go without a word: a forked process has inherited what is still its parent's.
    fn abandon(&self) {
        // A thread that is not here any more may hold it for ever, though hardly ever does (gate).
        if let Ok(mut state) = self.state.try_lock() {
            drop(state.sender.take());
        }
    }
}

impl Outbox {
    /// One that a board counts.
    fn counted(
        py: Python<'_>,
        address: std::ffi::OsString,
        ring_bytes: usize,
        capacity: usize,
        patience: f64,
        board: &Board,
        account: Account,
    ) -> PyResult<Option<Outbox>> {
        let Some(connection) = connected_in_time(py, address, patience)? else { return Ok(None) };
        connection.check_user(Users::Same).map_err(|error| raised(py, error))?;
        // One who is gone by now is told of by what is said next.
        let _ = rustix::net::send(&connection, &board.says(account), SendFlags::NOSIGNAL);
        Outbox::of(py, connection, ring_bytes, capacity, Some(account)).map(Some)
    }

    fn of(
        py: Python<'_>,
        connection: Connection,
        ring_bytes: usize,
        capacity: usize,
        account: Option<Account>,
    ) -> PyResult<Outbox> {
        let made = py.detach(|| {
            // First: once something is said, there is no other try.
            let failed = |errno| ChannelError::Socket { doing: "cannot watch the channel", errno };
            let events = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
            let sender = connection.buffer_sender(&setup(ring_bytes, Duration::ZERO), capacity)?;
            let (data, flags) = (epoll::EventData::new_u64(0), epoll::EventFlags::IN);
            epoll::add(&events, sender.as_fd(), data, flags).map_err(failed)?;
            Ok((sender, events))
        });
        let (sender, events) = made.map_err(|error| raised(py, error))?;
        let state = Mutex::new(State {
            sender: Some(sender),
            is_lost: false,
            looked: Instant::now(),
            is_alone: false,
            lacked: Lacked::Memory,
            block_bytes: 0,
            hopeful_from: 0,
            in_vain: 0,
        });
        let (events, maker) = (Arc::new(events), std::process::id());
        Ok(Outbox { state, events, account, board: None, maker })
    }

    fn end(&self, sender: BufferSender) {
        sender.finish();
        if let Some((board, account)) = self.board.as_ref().zip(self.account) {
            board.get().end_account(account);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a message was sent, and did not lack room until the time was over.
    fn sent(
        &self,
        py: Python<'_>,
        pickle: &Bound<'_, PyAny>,
        buffers: &[Bound<'_, PyAny>],
        deadline: Deadline,
    ) -> PyResult<bool> {
        self.look(py)?;
        let buffers =
            buffers.iter().map(|buffer| LentBytes::of(buffer)).collect::<PyResult<Vec<_>>>()?;
        let pickle = LentBytes::of(pickle)?;
        let Some(mut parcel) = self.packed(py, &pickle, &buffers, deadline)? else {
            return Ok(false);
        };
        if self.try_send(&mut parcel).map_err(|error| error(py))?.is_some() {
            return Ok(true);
        }
        let buffers = parcel.drafts.len();
        let head = parcel.head.len();
        let waits = WaitsForRoom { outbox: self, parcel: Mutex::new(parcel), head, buffers };
        Ok(wait(py, &waits, deadline)?.is_some())
    }

    fn look(&self, py: Python<'_>) -> PyResult<()> {
        let mut state = self.state();
        if state.looked.elapsed() < LOOK && state.sender.is_some() && !state.is_alone {
            return Ok(());
        }
        state.looked = Instant::now();
        let looked = state.open().map_err(|error| error(py))?.look();
        state.is_alone = looked.is_err();
        looked.map_err(|error| raised(py, error))
    }

    /// The message as it goes: what is large is in a block of the channel's.
    fn packed(
        &self,
        py: Python<'_>,
        pickle: &LentBytes,
        buffers: &[LentBytes],
        deadline: Deadline,
    ) -> PyResult<Option<Parcel>> {
        let longest = self.state().open().map_err(|error| error(py))?.longest(1);
        let plan = Plan::of(
            pickle,
            buffers,
            Most { head_bytes: HEAD_MAX.min(longest / 2), buffer_bytes: INLINE_MAX },
        );
        self.state().block_bytes = plan.block_bytes;
        let mut drafts = Vec::new();
        if plan.block_bytes > 0 {
            let Some(mut draft) = self.lent(py, plan.block_bytes, deadline)? else {
                return Ok(None);
            };
            match plan.block_bytes > COPY_HELD_MAX {
                true => py.detach(|| plan.fill(pickle, buffers, draft.space())),
                false => plan.fill(pickle, buffers, draft.space()),
            }
            drafts.push(draft);
        }
        let head = plan.head(pickle, buffers).map_err(no_memory)?;
        Ok(Some(Parcel { head, drafts }))
    }

    /// A block: of memory that is warm, if some comes back in a moment; else of any.
    fn lent(&self, py: Python<'_>, bytes: usize, deadline: Deadline) -> PyResult<Option<Draft>> {
        let mut waits = WaitsForMemory { outbox: self, bytes, warm: true };
        if let Some(draft) = waits.look().map_err(|error| error(py))? {
            return Ok(Some(draft));
        }
        if !self.is_hopeless(py)? {
            let moment = Deadline::after(Some(MOMENT)).earlier(deadline);
            if let Some(draft) = wait(py, &waits, moment)? {
                return Ok(Some(draft));
            }
            let mut state = self.state();
            let returned = state.open().map_err(|error| error(py))?.returned();
            state.hopeful_from = returned + (1 << state.in_vain);
            state.in_vain = IN_VAIN_MAX.min(state.in_vain + 1);
        }
        waits.warm = false;
        match waits.look().map_err(|error| error(py))? {
            Some(draft) => Ok(Some(draft)),
            None => wait(py, &waits, deadline),
        }
    }

    /// Whether a moment was waited in vain for what comes back, and not enough has since.
    fn is_hopeless(&self, py: Python<'_>) -> PyResult<bool> {
        let mut state = self.state();
        let returned = state.open().map_err(|error| error(py))?.returned();
        Ok(returned < state.hopeful_from)
    }

    fn try_send(&self, parcel: &mut Parcel) -> Result<Option<()>, PyError> {
        let mut state = self.state();
        state.lacked = Lacked::Room { head: parcel.head.len(), buffers: parcel.drafts.len() };
        let sent = state.open()?.try_send(&parcel.head, &mut parcel.drafts);
        sent.map(|sent| sent.then_some(())).map_err(error)
    }

    fn watched(
        &self,
        watch: impl FnOnce(&mut BufferSender) -> Result<bool, ChannelError>,
    ) -> Result<Option<Arc<OwnedFd>>, PyError> {
        let mut state = self.state();
        let there = watch(state.open()?).map_err(error)?;
        Ok((!there).then(|| Arc::clone(&self.events)))
    }

    fn spins_in_vain(&self) -> bool {
        // One that nobody has taken yet is not waited for awake.
        self.state().sender.as_mut().is_none_or(|it| !it.is_answered() || it.shares_cpu())
    }
}

/// What a handler of a signal raises may come before anybody has the new end: its process is not gone because of that.
impl Drop for Outbox {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        // A forked process has inherited what is still its parent's.
        if let Some(sender) = state.sender.take()
            && self.maker == std::process::id()
        {
            self.end(sender);
        }
    }
}

impl State {
    fn open(&mut self) -> Result<&mut BufferSender, PyError> {
        let closed: PyError = match self.is_lost {
            true => error(ChannelError::HungUp),
            false => Box::new(|_| PyValueError::new_err("this end is closed")),
        };
        self.sender.as_mut().ok_or(closed)
    }
}

struct WaitsForMemory<'o> {
    outbox: &'o Outbox,
    bytes: usize,
    warm: bool,
}

impl Waiter for WaitsForMemory<'_> {
    type Got = Draft;

    fn look(&self) -> Result<Option<Draft>, PyError> {
        let mut state = self.outbox.state();
        state.lacked = Lacked::Memory;
        let sender = state.open()?;
        if !self.warm {
            return sender.try_lend(self.bytes).map_err(error);
        }
        let lent = sender.try_lend_warm(self.bytes).map_err(error)?;
        if lent.is_some() {
            state.in_vain = 0;
        }
        Ok(lent)
    }

    fn spins_in_vain(&self) -> bool {
        self.outbox.spins_in_vain()
    }

    fn watch(&self) -> Result<Option<Arc<OwnedFd>>, PyError> {
        self.outbox.watched(BufferSender::watch_buffers)
    }
}

struct WaitsForRoom<'o> {
    outbox: &'o Outbox,
    parcel: Mutex<Parcel>,
    head: usize,
    buffers: usize,
}

impl Waiter for WaitsForRoom<'_> {
    type Got = ();

    fn look(&self) -> Result<Option<()>, PyError> {
        self.outbox.try_send(&mut self.parcel.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn spins_in_vain(&self) -> bool {
        self.outbox.spins_in_vain()
    }

    fn watch(&self) -> Result<Option<Arc<OwnedFd>>, PyError> {
        self.outbox.watched(|sender| sender.watch(self.head, self.buffers))
    }
}
