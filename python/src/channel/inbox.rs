//! The end that objects come out of: of one sender, or of all that connect to a listener, each with a
//! ring of its own.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytepath::channel::{
    Address, BufferReceiver, Buffers, ChannelError, Connection, Listener, OfferedBuffers, Users,
};
use pyo3::exceptions::{PyEOFError, PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use rustix::event::epoll;
use rustix::net::{RecvFlags, SocketAddrUnix, getpeername};

use super::accounts::Account;
use super::board::{Board, SAID_BYTES};
use super::errors::{error, os_error, raised, taken_fd};
use super::forks::{self, Lent};
use super::gate;
use super::given::Given;
use super::setup;
use super::waiting::{Deadline, PyError, Waiter, wait};
use crate::held::Passed;
use crate::sys::view::Block;

/// An inbox that finds messages all the time looks so often whether somebody new has come, and whether
/// somebody is gone.
const LOOK: Duration = Duration::from_millis(10);
/// Connections taken at once.
const ACCEPTS_MAX: usize = 64;
/// Rings that there is no room for yet, each of which keeps two descriptors.
const OFFERS_MAX: usize = 64;
/// Those that wait to be taken, and are told that nobody takes them any more; the kernel has fewer wait.
const TOLD_MAX: usize = 1 << 16;
/// Whoever has said what it is offers its ring at once, which is not waited for with what others
/// need.
const PATIENCE: Duration = Duration::from_secs(1);
/// Whoever has connected has begun to say it after so long, or is let go.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Descriptors that taking somebody in takes, at the most: two that may come with what it says, and one in
/// store.
pub(super) const TAKING_IN_FDS: usize = 3;
/// Somebody comes only where there are as many after that, and the one in store has been made.
const ACCEPTING_FDS: usize = TAKING_IN_FDS + 2;

/// With which the names of ends begin that a process has used.
pub(crate) const CLAIM: &[u8] = b"bytepath-end-";

/// The end of channels that messages come out of.
#[pyclass(frozen, module = "bytepath._bytepath")]
#[derive(Debug)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    events: Arc<OwnedFd>,
    /// Threads that wait in it.
    waiting: AtomicUsize,
}

#[derive(Debug)]
struct State {
    open: bool,
    listener: Option<Listener>,
    /// What counts for a queue, and knows what those say first who connect to its listener.
    board: Option<Py<Board>>,
    /// It has taken in all who had connected before it.
    has_met_all: bool,
    newcomers: Vec<Newcomer>,
    /// Who has offered a ring that there was no room for yet.
    offers: Vec<(OfferedBuffers, Option<Account>)>,
    lanes: Vec<Lane>,
    /// Whose turn it is.
    next: usize,
    looked: Instant,
    /// Why senders are no more, to be told.
    lost: VecDeque<ChannelError>,
    ring_bytes: usize,
}

/// What one sender's messages come out of.
#[derive(Debug)]
struct Lane {
    receiver: BufferReceiver,
    account: Option<Account>,
}

/// Somebody who has connected, and is not taken in yet.
#[derive(Debug)]
struct Newcomer {
    connection: Connection,
    since: Instant,
    is_watched: bool,
    /// Since when it says something, the account apart.
    begun: Option<Instant>,
    /// It has said its account, or need not.
    is_known: bool,
    account: Option<Account>,
}

/// What there is now.
enum Found {
    Message,
    Loss,
    Nothing,
    End,
}

#[pymethods]
impl Inbox {
    /// Receives from all that connect to an address.
    #[staticmethod]
    fn bind(py: Python<'_>, address: std::ffi::OsString, ring_bytes: usize) -> PyResult<Inbox> {
        let bound = Address::parse(address).and_then(|address| Listener::bind(&address));
        let inbox = Inbox::empty(ring_bytes)?;
        let listener = bound.map_err(|error| raised(py, error))?;
        inbox.watch_fd(&listener)?;
        inbox.state().listener = Some(listener);
        Ok(inbox)
    }

    /// Receives from all that connect to this listener, a descriptor that it takes, and say what those of the board do.
    #[staticmethod]
    fn listening(
        py: Python<'_>,
        fd: Passed<'_>,
        ring_bytes: usize,
        board: Py<Board>,
    ) -> PyResult<Inbox> {
        let listener = Listener::from_fd(taken_fd(fd)?);
        let listener = listener.map_err(|error| raised(py, error))?;
        let inbox = Inbox::empty(ring_bytes)?;
        inbox.watch_fd(&listener)?;
        inbox.state().listener = Some(listener);
        inbox.state().board = Some(board);
        Ok(inbox)
    }

    /// Receives from the other end of this connection, a descriptor that it takes.
    #[staticmethod]
    fn from_fd(py: Python<'_>, fd: Passed<'_>, ring_bytes: usize) -> PyResult<Inbox> {
        let connection = Connection::from_fd(taken_fd(fd)?);
        let connection = connection.map_err(|error| raised(py, error))?;
        let inbox = Inbox::empty(ring_bytes)?;
        inbox.watch_fd(&connection)?;
        let newcomer = Newcomer { is_watched: true, ..Newcomer::new(connection, true) };
        inbox.state().newcomers.push(newcomer);
        Ok(inbox)
    }

    /// A message, as its pickle and its buffers; None where none came in time. EOFError where none will. Where there is
    /// a board it counts that the message is to be done.
    #[pyo3(signature = (timeout, undone=None))]
    fn receive<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
        undone: Option<&Board>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyList>)>> {
        let deadline = Deadline::after(timeout);
        loop {
            if let Some(message) = self.taken(py, undone)? {
                return Ok(Some(message));
            }
            if self.waited(py, deadline)?.is_none() {
                return Ok(None);
            }
        }
    }

    /// Whether there is something to receive, be it an end.
    fn poll(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        if WaitsForMessage(self).look().map_err(|error| error(py))?.is_some() {
            return Ok(true);
        }
        Ok(self.waited(py, Deadline::after(timeout))?.is_some())
    }

    /// Whether there is a message, which an end is not.
    fn holds_message(&self, py: Python<'_>) -> PyResult<bool> {
        let found = self.state().find(&self.events);
        Ok(matches!(found.map_err(|error| error(py))?, Found::Message))
    }

    /// Whether a thread waits in it for something.
    fn is_waited_in(&self) -> bool {
        self.waiting.load(SeqCst) > 0
    }

    /// Has the descriptor become readable once there is something to receive; true where there is now.
    fn watch(&self, py: Python<'_>) -> PyResult<bool> {
        forks::give_back(py);
        Ok(WaitsForMessage(self).watch().map_err(|error| error(py))?.is_none())
    }

    fn fileno(&self) -> i32 {
        self.events.as_raw_fd()
    }

    /// Ends it, and tells the senders so. Views of what was received stay.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            let _look = gate::look();
            let mut state = self.state();
            state.open = false;
            let known = state.newcomers.drain(..).filter_map(|newcomer| newcomer.account);
            let mut lost: Vec<Account> = known.collect();
            lost.extend(state.lanes.drain(..).filter_map(|lane| lane.account));
            for (offer, account) in state.offers.drain(..) {
                // The last try, of which the sender is told.
                drop(offer.receiver());
                lost.extend(account);
            }
            // Others may have the same listener, where who has connected would wait for the next receiver, though
            // nobody is to get any more what it has sent.
            if let Some(listener) = state.listener.take() {
                for _ in 0..TOLD_MAX {
                    let Ok(Some(connection)) = listener.try_accept() else { break };
                    let board = state.board.as_ref().map(Py::get);
                    lost.extend(board.and_then(|board| account_of(&connection, board)));
                }
            }
            if let Some(board) = &state.board {
                lost.into_iter().for_each(|account| board.get().close_account(account));
            }
        });
    }

    /// Lets it go without a word: a forked process has inherited what is still its parent's.
    fn abandon(&self) {
        // A thread that is not here any more may hold it for ever, though hardly ever does (gate).
        if let Ok(mut state) = self.state.try_lock() {
            state.open = false;
            state.listener = None;
            state.newcomers.clear();
            state.offers.clear();
            state.lanes.clear();
        }
    }
}

impl Inbox {
    fn empty(ring_bytes: usize) -> PyResult<Inbox> {
        let events = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|errno| os_error("cannot watch the channel", errno))?;
        let state = State {
            open: true,
            listener: None,
            board: None,
            has_met_all: false,
            newcomers: Vec::new(),
            offers: Vec::new(),
            lanes: Vec::new(),
            next: 0,
            looked: Instant::now(),
            lost: VecDeque::new(),
            ring_bytes,
        };
        let (state, waiting) = (Mutex::new(state), AtomicUsize::new(0));
        Ok(Inbox { state, events: Arc::new(events), waiting })
    }

    fn waited(&self, py: Python<'_>, deadline: Deadline) -> PyResult<Option<()>> {
        self.waiting.fetch_add(1, SeqCst);
        let waited = wait(py, &WaitsForMessage(self), deadline);
        self.waiting.fetch_sub(1, SeqCst);
        waited
    }

    fn watch_fd(&self, fd: impl AsFd) -> PyResult<()> {
        watch_fd(&self.events, fd).map_err(|errno| os_error("cannot watch the channel", errno))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next message. No code of Python's runs while the state is locked.
    fn taken<'py>(
        &self,
        py: Python<'py>,
        undone: Option<&Board>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyList>)>> {
        forks::give_back(py);
        let mut guard = self.state();
        let state = &mut *guard;
        if state.looked.elapsed() > LOOK {
            // What keeps others from being taken in is told where there is nothing else: that asks again.
            drop(state.meet(&self.events));
        }
        match state.find(&self.events).map_err(|error| error(py))? {
            Found::Nothing => return Ok(None),
            Found::Loss => {
                let lost = state.lost.pop_front().unwrap_or(ChannelError::HungUp);
                return Err(raised(py, lost));
            }
            Found::End => return Err(PyEOFError::new_err("the other end is closed")),
            Found::Message => {}
        }
        let lane = &mut state.lanes[state.next];
        let keeps_many = lane.receiver.keeps_many();
        let account = lane.account;
        let taken = lane.receiver.try_receive().map(|received| {
            let Buffers::Message(mut message) = received else { return None };
            // First, so that it is either inside or to be done at every moment.
            if let Some(board) = undone {
                board.add_undone();
            }
            if let Some((board, account)) = state.board.as_ref().zip(account) {
                board.get().has_got(account);
            }
            let block = message.take_buffers().into_iter().next();
            let block = block.map(|borrowed| Block::Lent(Lent::new(borrowed)));
            Some(Given::of(py, message.head(), block))
        });
        let given = match taken {
            Ok(Some(given)) => given,
            Ok(None) => return Ok(None),
            Err(error) => {
                if is_short_of_something(&error) {
                    // The others come first then.
                    state.next += 1;
                } else {
                    state.end_lane(state.next);
                }
                return Err(raised(py, error));
            }
        };
        match &given {
            // It sends what is none of this package's.
            Err(error) if !error.is_instance_of::<PyMemoryError>(py) => state.end_lane(state.next),
            _ => state.next += 1,
        }
        drop(guard);
        let objects = given.and_then(|mut given| {
            if keeps_many {
                given.keep_copy(py);
            }
            given.objects(py)
        });
        if let (Err(_), Some(board)) = (&objects, undone) {
            // Nobody gets it, to say that it is done.
            board.tell_done();
        }
        objects.map(Some)
    }
}

impl State {
    fn check_open(&self) -> Result<(), PyError> {
        let closed: PyError = Box::new(|_| PyValueError::new_err("this end is closed"));
        if self.open { Ok(()) } else { Err(closed) }
    }

    /// Looks at each sender once, beginning with the one whose turn it is; where there is a message it is
    /// left there, and `next` says whose it is.
    fn find(&mut self, events: &OwnedFd) -> Result<Found, PyError> {
        self.check_open()?;
        let mut met = false;
        loop {
            let mut looked_at = 0;
            while looked_at < self.lanes.len() {
                self.next %= self.lanes.len();
                match self.lanes[self.next].receiver.is_there() {
                    Ok(Some(true)) => return Ok(Found::Message),
                    Ok(Some(false)) => self.end_lane(self.next),
                    Ok(None) => {
                        self.next += 1;
                        looked_at += 1;
                    }
                    Err(error) if is_short_of_something(&error) => {
                        // The others come first then.
                        self.next += 1;
                        return Err(self::error(error));
                    }
                    Err(error) => {
                        self.end_lane(self.next);
                        self.lost.push_back(error);
                    }
                }
            }
            if met {
                break;
            }
            met = true;
            let before = self.lanes.len();
            let meeting = self.meet(events);
            if self.lanes.len() == before {
                if self.lost.is_empty() {
                    meeting?;
                }
                break;
            }
        }
        if !self.lost.is_empty() {
            return Ok(Found::Loss);
        }
        let is_over = self.listener.is_none()
            && self.newcomers.is_empty()
            && self.offers.is_empty()
            && self.lanes.is_empty();
        Ok(if is_over { Found::End } else { Found::Nothing })
    }

    /// Takes in those who have come.
    fn meet(&mut self, events: &OwnedFd) -> Result<(), PyError> {
        self.looked = Instant::now();
        for lane in &mut self.lanes {
            lane.receiver.look().map_err(error)?;
        }
        let board = self.board.as_ref().filter(|_| !self.has_met_all).map(Py::get);
        let left = board.map(Board::accounts_left);
        let accepted = self.accept();
        let mut lacking = Ok(());
        for (offer, account) in std::mem::take(&mut self.offers) {
            lacking = lacking.and(self.take_offer(offer, account));
        }
        let mut at = 0;
        while at < self.newcomers.len() {
            // What this process is short of may be there the next time; until then the newcomer stays one.
            self.newcomers[at].be_watched(events)?;
            let newcomer = &mut self.newcomers[at];
            match newcomer.heard(self.board.as_ref().map(Py::get)) {
                Heard::All => {
                    make_sure_of_descriptors(&newcomer.connection, TAKING_IN_FDS)?;
                    let newcomer = self.newcomers.remove(at);
                    lacking = lacking.and(self.take_in(newcomer));
                }
                Heard::Stranger => drop(self.newcomers.remove(at)),
                Heard::Part
                    if self.listener.is_some() && newcomer.since.elapsed() > SILENCE_MAX =>
                {
                    let account = self.newcomers.remove(at).account;
                    self.close_account(account);
                }
                Heard::Part => at += 1,
            }
        }
        let is_anybody_left = self.listener.as_ref().is_some_and(is_readable)
            || self.newcomers.iter().any(|newcomer| !newcomer.is_known);
        if let (Some(board), Some(left), false) = (&self.board, left, is_anybody_left) {
            board.get().close_still_left(left);
            self.has_met_all = true;
        }
        accepted.and(lacking)
    }

    /// Lets those come who can be taken in. The others wait better where they are, and do not take the
    /// descriptors of those who came before.
    fn accept(&mut self) -> Result<(), PyError> {
        let Some(listener) = &self.listener else { return Ok(()) };
        for _ in 0..ACCEPTS_MAX {
            if !is_readable(listener) {
                break;
            }
            make_sure_of_descriptors(listener, ACCEPTING_FDS)?;
            let Some(connection) = listener.try_accept().map_err(error)? else { break };
            self.newcomers.push(Newcomer::new(connection, self.board.is_none()));
        }
        Ok(())
    }

    fn take_in(&mut self, newcomer: Newcomer) -> Result<(), PyError> {
        let Newcomer { connection, account, .. } = newcomer;
        // What a listener's newcomers had to say they have said, or have had their time for.
        let patience = if self.listener.is_some() { Duration::ZERO } else { PATIENCE };
        let mut setup = setup(self.ring_bytes, patience);
        // A process that has dropped its rights since it was given the queue is another user's.
        if self.board.is_some() && connection.check_user(Users::Same).is_err() {
            setup.users = Users::Any;
        }
        let was_used = is_claimed(&connection);
        match connection.offered_buffers(&setup) {
            Ok(offer) => return self.take_offer(offer, account),
            // Whoever has used its end and closes it says so.
            Err(ChannelError::HungUp) if was_used => {
                self.lost.push_back(ChannelError::Gone { passed: None });
            }
            Err(error) => self.keep(Err(error), account),
        }
        Ok(())
    }

    /// Takes the ring, if there is room for it now, or keeps the offer for the next time. One too many is
    /// refused, which its sender and who receives are told.
    fn take_offer(
        &mut self,
        mut offer: OfferedBuffers,
        account: Option<Account>,
    ) -> Result<(), PyError> {
        if let Err(error @ (ChannelError::Memory(_) | ChannelError::Socket { .. })) = offer.map() {
            if offer.is_void() {
                self.keep(Err(ChannelError::HungUp), account);
                return Ok(());
            }
            if self.offers.len() < OFFERS_MAX {
                self.offers.push((offer, account));
                return Err(self::error(error));
            }
        }
        self.keep(offer.receiver(), account);
        Ok(())
    }

    /// Receives from a sender from now on, or tells why it does not.
    fn keep(&mut self, made: Result<BufferReceiver, ChannelError>, account: Option<Account>) {
        match made {
            Ok(receiver) => return self.lanes.push(Lane { receiver, account }),
            // Whoever connects to a listener may be anybody; such is let go and forgotten.
            Err(
                ChannelError::Stranger { .. }
                | ChannelError::Stray(_)
                | ChannelError::Silent(_)
                | ChannelError::Mismatch(_)
                | ChannelError::Unsafe(_)
                | ChannelError::TooLarge { .. },
            ) if self.listener.is_some() => {}
            // It ended before it had begun.
            Err(ChannelError::HungUp) => {}
            Err(error) => self.lost.push_back(error),
        }
        self.close_account(account);
    }

    fn end_lane(&mut self, at: usize) {
        let account = self.lanes.remove(at).account;
        self.close_account(account);
    }

    fn close_account(&self, account: Option<Account>) {
        if let Some((board, account)) = self.board.as_ref().zip(account) {
            board.get().close_account(account);
        }
    }
}

/// Whether this process is out of descriptors or addresses: it is tried again.
fn is_short_of_something(error: &ChannelError) -> bool {
    matches!(error, ChannelError::Socket { .. } | ChannelError::Memory(_))
}

/// What a newcomer has said.
enum Heard {
    /// All that it is taken in with, or that it is not.
    All,
    /// Not yet all.
    Part,
    /// Not what those of the queue say.
    Stranger,
}

impl Newcomer {
    fn new(connection: Connection, is_known: bool) -> Newcomer {
        let since = Instant::now();
        Newcomer { connection, since, is_watched: false, begun: None, is_known, account: None }
    }

    /// Looks at what it has said, without waiting for more.
    fn heard(&mut self, board: Option<&Board>) -> Heard {
        if !self.is_known && is_readable(&self.connection) {
            let said = board.and_then(|board| Some((board, account_of(&self.connection, board)?)));
            let Some((board, account)) = said else { return Heard::Stranger };
            board.take_in(account);
            self.account = Some(account);
            self.is_known = true;
        }
        if !self.is_known || !is_readable(&self.connection) {
            return Heard::Part;
        }
        let begun = *self.begun.get_or_insert_with(Instant::now);
        // Another user is not waited for, unless it has the queue.
        let is_refused = || board.is_none() && self.connection.check_user(Users::Same).is_err();
        let is_over = begun.elapsed() > PATIENCE;
        match is_over || self.connection.has_offered_buffers() || is_refused() {
            true => Heard::All,
            false => Heard::Part,
        }
    }

    fn be_watched(&mut self, events: &OwnedFd) -> Result<(), PyError> {
        if !self.is_watched {
            watch_fd(events, &self.connection).map_err(|errno| -> PyError {
                Box::new(move |_| os_error("cannot watch the channel", errno))
            })?;
            self.is_watched = true;
        }
        Ok(())
    }
}

/// Whether there are as many descriptors to be had as taking somebody in takes. What it says comes but
/// once, and is lost where the descriptor that comes with it cannot be had: so this is asked before. Another
/// thread may take them in between, which is not seen to.
pub(super) fn make_sure_of_descriptors(of: impl AsFd, count: usize) -> Result<(), PyError> {
    let mut spare = Vec::with_capacity(count);
    for _ in 0..count {
        let copy = rustix::io::fcntl_dupfd_cloexec(&of, 0).map_err(|errno| -> PyError {
            Box::new(move |_| os_error("cannot take in who has connected", errno))
        })?;
        spare.push(copy);
    }
    Ok(())
}

/// The account that it says first, if it says what those of the queue do.
fn account_of(connection: &Connection, board: &Board) -> Option<Account> {
    let mut said = [0; SAID_BYTES + 1];
    let (into, _) = rustix::net::recv(connection, &mut said, RecvFlags::DONTWAIT).ok()?;
    board.heard(&said[..into])
}

/// Whether a process has used the other end, which has a name then (`Channel._claim`), also once it is gone.
fn is_claimed(connection: &Connection) -> bool {
    let name = getpeername(connection).ok().flatten();
    let name = name.and_then(|name| SocketAddrUnix::try_from(name).ok());
    name.as_ref().and_then(SocketAddrUnix::abstract_name).is_some_and(|it| it.starts_with(CLAIM))
}

fn watch_fd(events: &OwnedFd, fd: impl AsFd) -> Result<(), rustix::io::Errno> {
    let (data, flags) = (epoll::EventData::new_u64(0), epoll::EventFlags::IN);
    epoll::add(events, fd, data, flags)
}

pub(super) fn is_readable(fd: impl AsFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec};
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

struct WaitsForMessage<'i>(&'i Inbox);

impl Waiter for WaitsForMessage<'_> {
    type Got = ();

    fn look(&self) -> Result<Option<()>, PyError> {
        let found = self.0.state().find(&self.0.events)?;
        Ok((!matches!(found, Found::Nothing)).then_some(()))
    }

    fn spins_in_vain(&self) -> bool {
        let mut state = self.0.state();
        state.lanes.is_empty() || state.lanes.iter_mut().any(|lane| lane.receiver.shares_cpu())
    }

    fn watch(&self) -> Result<Option<Arc<OwnedFd>>, PyError> {
        let mut state = self.0.state();
        state.check_open()?;
        let mut there = !state.lost.is_empty();
        for lane in &mut state.lanes {
            there |= lane.receiver.watch().or_else(ended).map_err(error)?;
        }
        Ok((!there).then(|| Arc::clone(&self.0.events)))
    }
}

/// An end is something to receive, too.
fn ended(error: ChannelError) -> Result<bool, ChannelError> {
    match error {
        ChannelError::Gone { .. } | ChannelError::Broken(_) => Ok(true),
        error => Err(error),
    }
}
