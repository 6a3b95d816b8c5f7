//! What all who have a queue know of it: who receives from it, how much is in it, and how much of that is
//! not done. Shared words, which count only for how to wait, and for what is told to people.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Instant;

use bytepath::pages::{PageSize, SharedMemory};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use super::accounts::{self, ACCOUNT_BYTES, Account, Accounts};
use super::errors::{no_memory, ours, taken_fd};
use super::signal::{Signal, TURN_MAX, Words, identity, is_gone};
use super::waiting::Deadline;
use crate::held::Passed;

/// Words, of which two are the token.
/// Behind them are the accounts of the rings, and how many there have been.
const RECEIVER: usize = 0;
const INSIDE: usize = 16;
const UNDONE: usize = 32;
const TOKEN: usize = 48;
/// How often something was told to be done.
const DONE: usize = 50;
const ACCOUNTS_USED: usize = 51;
/// How many have been put where no ring has an account.
const PUT: usize = 52;
/// Whose turn it is to look whether there is room for one more, and to count it.
const TURN: usize = 64;
const ACCOUNTS: usize = 80;
/// Why nobody more can put.
const TOO_MANY: &str = "4096 ends put into this queue, as many as can at once, and all of \
    their processes live: have some close it, or end, or make it with receivers=\"many\"";
const _: () = assert!(accounts::MOST == 4096, "the message says so");

const BYTES: usize = ((ACCOUNTS + accounts::MOST * accounts::WORDS) * 8).next_multiple_of(4096);

/// The token, and an account.
pub(super) const SAID_BYTES: usize = TOKEN_BYTES + ACCOUNT_BYTES;
const TOKEN_BYTES: usize = 16;
pub(super) type Said = [u8; SAID_BYTES];

/// Words that processes share.
#[pyclass(frozen, module = "bytepath._bytepath")]
#[derive(Debug)]
pub(crate) struct Board(SharedMemory);

#[pymethods]
impl Board {
    /// A new one, with a number that nobody else knows.
    #[staticmethod]
    fn create(token: u128) -> PyResult<Board> {
        let board = SharedMemory::create(BYTES, PageSize::Base).map(Board).map_err(no_memory)?;
        board.word(TOKEN).store(token as u64, SeqCst);
        board.word(TOKEN + 1).store((token >> 64) as u64, SeqCst);
        Ok(board)
    }

    /// One that was inherited, or passed on, as a descriptor, which it takes.
    #[staticmethod]
    fn from_fd(fd: Passed<'_>) -> PyResult<Board> {
        let memory = SharedMemory::open(taken_fd(fd)?);
        memory.map(Board).map_err(no_memory)
    }

    fn fileno(&self) -> i32 {
        self.0.as_fd().as_raw_fd()
    }

    /// Makes this process the receiver; the process that is, where another one is.
    fn claim(&self) -> PyResult<u32> {
        let (word, ours) = (self.word(RECEIVER), own_identity()?);
        loop {
            let theirs = word.load(SeqCst);
            if theirs == ours {
                return Ok(0);
            }
            if theirs != 0 && !is_gone(theirs) {
                return Ok((theirs >> 32) as u32);
            }
            let claimed = match theirs {
                0 => word.compare_exchange(0, ours, SeqCst, SeqCst).is_ok(),
                gone => self.follow(gone, ours),
            };
            if claimed {
                return Ok(0);
            }
        }
    }

    /// Ends that, if it is so.
    fn unclaim(&self) {
        let word = self.word(RECEIVER);
        let theirs = word.load(SeqCst);
        if (theirs >> 32) as u32 == std::process::id() {
            let _ = word.compare_exchange(theirs, 0, SeqCst, SeqCst);
        }
    }

    /// For who has found that the receiver is gone: unless another one has come since, what was put for it
    /// takes no room any more.
    fn lose_receiver(&self) {
        let theirs = self.word(RECEIVER).load(SeqCst);
        if theirs != 0 && is_gone(theirs) {
            self.follow(theirs, 0);
        }
    }

    /// Of a queue that many get from: all that was ever put.
    fn inside(&self) -> i64 {
        self.accounts().count() + self.put()
    }

    /// Of what was got; below zero where more was told to be done.
    fn undone(&self) -> i64 {
        self.count(UNDONE)
    }

    /// Tells that something is done, be it inside or got; false where nothing is to be done.
    pub(super) fn tell_done(&self) -> bool {
        // First, for who looks meanwhile.
        self.word(DONE).fetch_add(1, SeqCst);
        let told = |undone| (undone > 0 || undone > -self.inside()).then(|| undone - 1);
        // What was inside may have been lost, or got, before that.
        let taken_back = |undone| (undone < 0 && undone < -self.inside()).then(|| undone + 1);
        let is_told = self.set_undone(told) && !self.set_undone(taken_back);
        self.signal(UNDONE).wake(u32::MAX);
        is_told
    }

    /// Waits until nothing is inside, and all that was got is done; false where that did not come in time.
    fn wait_until_done(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        // That less is inside without having been got is seen at the next look.
        self.wait(py, UNDONE, Deadline::after(timeout), || self.is_done())
    }
}

impl Board {
    /// How many have been put where no ring has an account.
    pub(super) fn put(&self) -> i64 {
        self.count(PUT)
    }

    /// Now it is so many.
    pub(super) fn set_put(&self, put: i64) {
        self.word(PUT).store(put as u64, SeqCst);
    }

    /// Something is to be done that was got.
    pub(super) fn add_undone(&self) {
        self.word(UNDONE).fetch_add(1, SeqCst);
    }

    /// An account for a ring of this process; none where there are as many as may be, until the
    /// receiver has got what those have put who are gone, or have closed the queue.
    ///
    /// # Errors
    /// None is of one of these: that may last for ever.
    pub(super) fn open_account(&self, py: Python<'_>) -> PyResult<Option<Account>> {
        let account = self.accounts().open(known_identity()?);
        if account.is_none() && self.accounts().are_all_in_use() {
            return Err(ours(py, "ChannelError", TOO_MANY.to_owned()));
        }
        Ok(account)
    }

    /// Waits until fewer than so many are inside, and counts one more, which is about to be put; whether that came in
    /// time. Nothing is counted in an account that was closed, as nobody gets what is put.
    pub(super) fn take_room(
        &self,
        py: Python<'_>,
        account: Account,
        most: i64,
        deadline: Deadline,
    ) -> PyResult<bool> {
        if most == i64::MAX {
            self.accounts().begin_put(account);
            return Ok(true);
        }
        loop {
            let is_room = || self.inside() < most;
            if self.in_turn(py, deadline, || {
                let room = is_room();
                if room {
                    self.accounts().begin_put(account);
                }
                room
            })? {
                return Ok(true);
            }
            if !self.wait(py, INSIDE, deadline, is_room)? {
                return Ok(false);
            }
        }
    }

    /// It was put, or was not.
    pub(super) fn has_put(&self, account: Account, sent: bool) {
        self.accounts().end_put(account, sent);
        if !sent {
            self.has_lost();
        }
    }

    pub(super) fn has_got(&self, account: Account) {
        self.accounts().take(account);
        // For a moment it was both inside and to be done, and may have been told twice to be.
        self.has_lost();
    }

    /// This process receives what comes out of the ring.
    pub(super) fn take_in(&self, account: Account) {
        // Where it cannot be known, nobody finds out that it is gone either.
        if let Ok(ours) = known_identity() {
            self.accounts().taken_in(account, ours);
        }
    }

    /// Accounts of processes that are gone whose rings nobody has taken in.
    pub(super) fn accounts_left(&self) -> Vec<Account> {
        self.accounts().left()
    }

    /// For who has since taken in all who had connected: the rings of the others are nowhere.
    pub(super) fn close_still_left(&self, left: Vec<Account>) {
        let accounts = self.accounts();
        left.into_iter().filter(|&account| !accounts.is_taken_in(account)).for_each(|account| {
            self.close_account(account);
        });
    }

    /// Nothing more is put into its ring.
    pub(super) fn end_account(&self, account: Account) {
        self.accounts().end(account);
    }

    /// Nothing comes out of the ring any more.
    pub(super) fn close_account(&self, account: Account) {
        self.accounts().close(account);
        self.has_lost();
    }

    /// What whoever puts into this account says first, as only those can who have the queue, whatever user they are by
    /// now.
    pub(super) fn says(&self, account: Account) -> Said {
        let mut said = [0; SAID_BYTES];
        said[..TOKEN_BYTES].copy_from_slice(&self.token());
        said[TOKEN_BYTES..].copy_from_slice(&account.bytes());
        said
    }

    /// The account that was said; none where it was not said so.
    pub(super) fn heard(&self, said: &[u8]) -> Option<Account> {
        let (token, account) = said.split_at_checked(TOKEN_BYTES)?;
        (token == self.token()).then_some(Account::said(account.try_into().ok()?)).flatten()
    }

    fn token(&self) -> [u8; TOKEN_BYTES] {
        let [low, high] = [TOKEN, TOKEN + 1].map(|at| u128::from(self.word(at).load(SeqCst)));
        (high << 64 | low).to_le_bytes()
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        Words(&self.0).word(index)
    }

    fn signal(&self, index: usize) -> Signal<'_> {
        Words(&self.0).signal(index)
    }

    fn count(&self, index: usize) -> i64 {
        self.word(index).load(SeqCst) as i64
    }

    /// Whether nothing is inside, and all is done. Whoever puts what follows from a task, and then
    /// tells that the task is done, may do so between the two looks: so both count only where
    /// nothing was told meanwhile.
    fn is_done(&self) -> bool {
        let before = self.count(DONE);
        self.inside() + self.undone() <= 0 && self.count(DONE) == before
    }

    /// Another receiver, or none, follows one that is gone, if that is still so: what that one had not got is lost.
    fn follow(&self, gone: u64, ours: u64) -> bool {
        self.accounts().close_all_of(gone);
        self.has_lost();
        self.word(RECEIVER).compare_exchange(gone, ours, SeqCst, SeqCst).is_ok()
    }

    fn accounts(&self) -> Accounts<'_> {
        Accounts { words: &self.0.words()[ACCOUNTS..], used: self.word(ACCOUNTS_USED) }
    }

    /// What was told to be done of what nobody gets any more is not counted against what comes.
    fn has_lost(&self) {
        if self.undone() < 0 {
            self.set_undone(|undone| Some(-self.inside()).filter(|&least| undone < least));
        }
        self.has_fewer();
    }

    /// Whether it was to be another number, which it is then. Who gets changes it before what is inside: so what `to`
    /// finds inside counts only where it is still the same afterwards.
    fn set_undone(&self, to: impl Fn(i64) -> Option<i64>) -> bool {
        let mut undone = self.undone();
        loop {
            let set = to(undone);
            let (before, after) = (undone as u64, set.unwrap_or(undone) as u64);
            match self.word(UNDONE).compare_exchange(before, after, SeqCst, SeqCst) {
                Ok(_) => return set.is_some(),
                Err(now) => undone = now as i64,
            }
        }
    }

    fn has_fewer(&self) {
        self.signal(INSIDE).wake(u32::MAX);
    }

    /// What `look` finds while no other process looks; false where that did not come in time.
    fn in_turn(
        &self,
        py: Python<'_>,
        deadline: Deadline,
        look: impl FnOnce() -> bool,
    ) -> PyResult<bool> {
        let ours = known_identity()?;
        let turns = Words(&self.0).turns(TURN);
        let (asked, mut last) = (Instant::now(), 0);
        // No other thread of this process is in the middle of it: that has the interpreter all the time.
        while let Err(theirs) = turns.begin(ours, last) {
            last = theirs;
            if deadline.is_over() && asked.elapsed() > TURN_MAX {
                return Ok(false);
            }
            py.check_signals()?;
            py.detach(|| turns.wait());
        }
        let found = look();
        turns.end();
        Ok(found)
    }

    fn wait(
        &self,
        py: Python<'_>,
        index: usize,
        deadline: Deadline,
        is_enough: impl Fn() -> bool + Sync,
    ) -> PyResult<bool> {
        while !is_enough() {
            if py.detach(|| self.accounts().forget_gone()) {
                self.has_lost();
            }
            if is_enough() {
                break;
            }
            if deadline.is_over() {
                return Ok(false);
            }
            py.check_signals()?;
            py.detach(|| self.signal(index).sleep(deadline.slice(), &is_enough));
        }
        Ok(true)
    }
}

/// The same, looked up once in a process.
fn known_identity() -> PyResult<u64> {
    static KNOWN: AtomicU64 = AtomicU64::new(0);
    let known = KNOWN.load(SeqCst);
    if (known >> 32) as u32 == std::process::id() {
        return Ok(known);
    }
    let ours = own_identity()?;
    KNOWN.store(ours, SeqCst);
    Ok(ours)
}

/// This process.
pub(super) fn own_identity() -> PyResult<u64> {
    identity(std::process::id()).map_err(|error| {
        let message =
            format!("cannot look at this process in /proc, for others to know it: {error}");
        PyOSError::new_err((error.raw_os_error(), message))
    })
}
