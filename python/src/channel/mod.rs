//! Channels for Python: waiting without the interpreter's lock, and buffers handed to and fro. What an
//! object becomes is the package's own business (bytepath/channel.py, bytepath/queue.py).

mod accounts;
mod board;
mod errors;
mod first;
mod forks;
mod gate;
mod given;
mod head;
mod inbox;
mod meeting;
mod outbox;
mod pool;
mod signal;
mod waiting;

pub(crate) use board::Board;
pub(crate) use errors::find_exceptions;
pub(crate) use first::{make_first, make_once};
pub(crate) use forks::{Lent, about_to_fork, forked_in_child, forked_in_parent, gives_back_later};
pub(crate) use inbox::{CLAIM, Inbox};
pub(crate) use meeting::{Meeting, hear, introduce};
pub(crate) use outbox::Outbox;
pub(crate) use pool::Pool;

use std::time::Duration;

use bytepath::Wait;
use bytepath::channel::Setup;
use bytepath::pages::{HUGE_PAGE_BYTES, PageSize};

/// How an end is to be.
fn setup(ring_bytes: usize, patience: Duration) -> Setup {
    // A process may have many queues: a small ring is not to take all of a large page, which the kernel
    // fills with zeros first.
    let pages = if ring_bytes < HUGE_PAGE_BYTES { PageSize::Base } else { PageSize::Huge };
    // Waiting is done here, where Python's signals are seen.
    Setup { ring_bytes, pages, wait: Wait::Poll, patience, ..Setup::default() }
}
