//! How much each ring of a queue holds, in words that all who have the queue share.
//!
//! Whoever puts opens an account for its ring, and says which it is when it connects. The receiver closes it once
//! the ring has ended, and so does whoever finds the receiver gone: of the rings that one had taken in, all is lost,
//! while the others wait for the next one. So a process that is killed leaves nothing wrong for longer than its ring
//! is there.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::signal::is_gone;

/// Words of an account: the process that puts, the state, the one that has taken the ring in, and the opening that
/// nothing more is put in.
const OWNER: usize = 0;
const STATE: usize = 1;
const TAKER: usize = 2;
const ENDED: usize = 3;
pub(super) const WORDS: usize = 4;
pub(super) const MOST: usize = 4096;
/// Bytes that say which it is.
pub(super) const ACCOUNT_BYTES: usize = 8;

/// All accounts of a queue. `used`: how many have ever been.
#[derive(Debug, Clone, Copy)]
pub(super) struct Accounts<'m> {
    pub(super) words: &'m [AtomicU64],
    pub(super) used: &'m AtomicU64,
}

/// One of them, as it was opened this time: once it is closed, nothing is counted any more. The number of the opening is
/// odd, and even while it is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Account {
    at: u32,
    opening: u16,
}

/// What it holds: objects, among them those that threads are in the middle of putting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    opening: u16,
    putting: u16,
    count: u32,
}

impl<'m> Accounts<'m> {
    /// A new one of this process; none where there are as many as may be.
    pub(super) fn open(self, ours: u64) -> Option<Account> {
        let at = self.claim(ours)?;
        let opening = self.state(at).opening.wrapping_add(1) | 1;
        self.word(at, TAKER).store(0, SeqCst);
        let state = State { opening, putting: 0, count: 0 };
        self.word(at, STATE).store(state.word(), SeqCst);
        Some(Account { at: at as u32, opening })
    }

    /// One more is about to be put.
    pub(super) fn begin_put(self, account: Account) {
        self.change(account, |state| State {
            putting: state.putting.saturating_add(1),
            count: state.count.saturating_add(1),
            ..state
        });
    }

    /// It was put, or was not.
    pub(super) fn end_put(self, account: Account, sent: bool) {
        self.change(account, |state| match (state.putting.checked_sub(1), sent) {
            (Some(putting), true) => State { putting, ..state },
            (Some(putting), false) => State { putting, ..state.fewer(1) },
            // This process was taken for gone, by one that sees other processes.
            (None, true) => State { count: state.count.saturating_add(1), ..state },
            (None, false) => state,
        });
    }

    /// One was got.
    pub(super) fn take(self, account: Account) {
        self.change(account, |state| state.fewer(1));
    }

    /// Notes who has the ring now.
    pub(super) fn taken_in(self, account: Account, receiver: u64) {
        let at = account.at as usize;
        if self.state(at).opening == account.opening {
            self.word(at, TAKER).store(receiver, SeqCst);
        }
    }

    /// Nothing more is put: it is closed once the receiver has got what is there.
    pub(super) fn end(self, account: Account) {
        self.word(account.at as usize, ENDED).store(account.opening.into(), SeqCst);
    }

    /// Nothing comes out of its ring any more.
    pub(super) fn close(self, account: Account) {
        let owner = self.word(account.at as usize, OWNER);
        let theirs = owner.load(SeqCst);
        let opening = account.opening.wrapping_add(1);
        if self.change(account, |_| State { opening, putting: 0, count: 0 }) {
            let _ = owner.compare_exchange(theirs, 0, SeqCst, SeqCst);
        }
    }

    /// Nothing comes out of the rings that this receiver has taken in.
    pub(super) fn close_all_of(self, receiver: u64) {
        for at in 0..self.used() {
            let opening = self.state(at).opening;
            if opening % 2 == 1 && self.word(at, TAKER).load(SeqCst) == receiver {
                self.close(Account { at: at as u32, opening });
            }
        }
    }

    /// Those of processes that are gone whose rings nobody has taken in: they wait for a receiver, or were lost with one
    /// that had not yet heard whose they are.
    pub(super) fn left(self) -> Vec<Account> {
        let accounts = (0..self.used()).map(|at| (at, self.state(at)));
        let open = accounts.filter(|(_, state)| state.opening % 2 == 1);
        let left = open.filter(|&(at, _)| {
            self.word(at, TAKER).load(SeqCst) == 0 && is_gone(self.word(at, OWNER).load(SeqCst))
        });
        left.map(|(at, state)| Account { at: at as u32, opening: state.opening }).collect()
    }

    /// Whether somebody has its ring.
    pub(super) fn is_taken_in(self, account: Account) -> bool {
        self.word(account.at as usize, TAKER).load(SeqCst) != 0
    }

    /// What processes that were killed were putting is in no ring; whether there was any.
    pub(super) fn forget_gone(self) -> bool {
        let mut forgot = false;
        for at in 0..self.used() {
            let state = self.state(at);
            if state.putting > 0 && is_gone(self.word(at, OWNER).load(SeqCst)) {
                let rest = State { putting: 0, ..state.fewer(state.putting.into()) };
                forgot |= self.replace(at, state, rest);
            }
        }
        forgot
    }

    /// How many objects all rings hold.
    pub(super) fn count(self) -> i64 {
        (0..self.used()).map(|at| i64::from(self.state(at).count)).sum()
    }

    /// Whether there are as many as may be, all of processes that live and may put more.
    pub(super) fn are_all_in_use(self) -> bool {
        (0..MOST).all(|at| {
            let owner = self.word(at, OWNER).load(SeqCst);
            let ended = self.word(at, ENDED).load(SeqCst);
            owner != 0 && ended != u64::from(self.state(at).opening) && !is_gone(owner)
        })
    }

    /// One that nobody has: of those there have been, one more, or one whose process was killed and has nothing in it.
    fn claim(self, ours: u64) -> Option<usize> {
        let is_ours = |at: usize, before: u64| {
            self.word(at, OWNER).compare_exchange(before, ours, SeqCst, SeqCst).is_ok()
        };
        loop {
            if let Some(at) = (0..self.used()).find(|&at| is_ours(at, 0)) {
                return Some(at);
            }
            let one_more = |used: u64| (used < MOST as u64).then_some(used + 1);
            match self.used.fetch_update(SeqCst, SeqCst, one_more) {
                Ok(at) if is_ours(at as usize, 0) => return Some(at as usize),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        (0..MOST).find(|&at| {
            let theirs = self.word(at, OWNER).load(SeqCst);
            let state = self.state(at);
            if (state.putting, state.count) != (0, 0) || !is_gone(theirs) {
                return false;
            }
            if state.opening % 2 == 1 {
                // First, so that nobody closes it for one who is gone when another has it.
                self.close(Account { at: at as u32, opening: state.opening });
                return is_ours(at, 0);
            }
            is_ours(at, theirs)
        })
    }

    /// Whether it was still open, and so was changed.
    fn change(self, account: Account, to: impl Fn(State) -> State) -> bool {
        let changed = |word: u64| {
            let state = State::of(word);
            (state.opening == account.opening).then(|| to(state).word())
        };
        self.word(account.at as usize, STATE).fetch_update(SeqCst, SeqCst, changed).is_ok()
    }

    fn replace(self, at: usize, state: State, by: State) -> bool {
        let word = self.word(at, STATE);
        word.compare_exchange(state.word(), by.word(), SeqCst, SeqCst).is_ok()
    }

    fn state(self, at: usize) -> State {
        State::of(self.word(at, STATE).load(SeqCst))
    }

    fn used(self) -> usize {
        (self.used.load(SeqCst) as usize).min(MOST)
    }

    fn word(self, at: usize, which: usize) -> &'m AtomicU64 {
        &self.words[at * WORDS + which]
    }
}

impl Account {
    /// As whoever puts says it.
    pub(super) fn bytes(self) -> [u8; ACCOUNT_BYTES] {
        (u64::from(self.opening) << 32 | u64::from(self.at)).to_le_bytes()
    }

    /// As it was said; none where that is no account.
    pub(super) fn said(bytes: [u8; ACCOUNT_BYTES]) -> Option<Account> {
        let said = u64::from_le_bytes(bytes);
        let (at, opening) = (said as u32, u16::try_from(said >> 32).ok()?);
        (at < MOST as u32 && opening % 2 == 1).then_some(Account { at, opening })
    }
}

impl State {
    fn of(word: u64) -> State {
        let (opening, putting) = ((word >> 48) as u16, (word >> 32) as u16);
        State { opening, putting, count: word as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.opening) << 48 | u64::from(self.putting) << 32 | u64::from(self.count)
    }

    fn fewer(self, count: u32) -> State {
        State { count: self.count.saturating_sub(count), ..self }
    }
}
