//! `uring` and its kin: requests by io_uring, plain, with files and buffers registered, handed over
//! by a thread of the kernel's, or polled for.
//!
//! Costs per request: one copy where the page cache has the bytes; a system call for each batch, or
//! none where the kernel's thread watches the queue.

use std::ops::RangeInclusive;

use rustix::io::Errno;

use super::{Cache, Direction, Done, Engine, Io, Kind, Opening};
use crate::error::Refusal;
use crate::machine;
use crate::pages::Pages;
use crate::ring::{Buffer, Completions, Operation, Request, Ring, Setup, Submission, Target};

/// So often the completions are looked at before the thread sleeps, where a thread of the kernel's
/// is at work on them: twice as often after looking has found one, half as often after it was in
/// vain, as it is where both share a CPU. A few microseconds at the least, about a hundred at the
/// most.
const LOOKS: RangeInclusive<u32> = 256..=8192;

/// Requests by a ring.
pub(super) struct Uring {
    name: &'static str,
    summary: &'static str,
    variant: Variant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Plain,
    Registered,
    Thread,
    Polled,
}

pub(super) const URING: Uring =
    Uring { name: "uring", summary: "io_uring, nothing registered", variant: Variant::Plain };

pub(super) const REGISTERED: Uring = Uring {
    name: "uring-registered",
    summary: "io_uring with its files and buffers registered",
    variant: Variant::Registered,
};

pub(super) const SQPOLL: Uring = Uring {
    name: "uring-sqpoll",
    summary: "io_uring whose requests a thread of the kernel's takes, which uses a CPU up",
    variant: Variant::Thread,
};

pub(super) const IOPOLL: Uring = Uring {
    name: "uring-iopoll",
    summary: "io_uring that asks the device whether it is done, instead of being interrupted",
    variant: Variant::Polled,
};

impl Kind for Uring {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn queues(&self) -> bool {
        true
    }

    fn suits(&self, cache: Cache, _: bool) -> Result<(), Refusal> {
        match (self.variant, cache) {
            (Variant::Polled, Cache::Buffered) => {
                Err(Refusal::because("only a device can be polled, not the page cache"))
            }
            _ => Ok(()),
        }
    }

    fn open<'fd>(&self, opening: &Opening<'_, 'fd>) -> Result<Box<dyn Engine + 'fd>, Refusal> {
        opening.files.iter().try_for_each(|span| machine::takes_ring(span.file))?;
        let entries = u32::try_from(opening.depth).unwrap_or(u32::MAX);
        let mut setup = Setup::with_entries(entries);
        match self.variant {
            Variant::Thread => setup.submission = Submission::Thread { idle: opening.idle },
            Variant::Polled => setup.completions = Completions::Polled,
            Variant::Plain | Variant::Registered => {}
        }
        let mut ring = Ring::open(&setup)?;
        if ring.room() < opening.depth {
            return Err(Refusal::because("a ring has at most 32,768 entries")
                .remedy("take a smaller --depth"));
        }
        let one = |_| Buffer::allocate(opening.io_bytes, &Pages::default());
        let buffers: Result<Vec<_>, _> = (0..opening.depth).map(one).collect();
        let mut buffers = buffers.map_err(|error| Refusal::because(error.to_string()))?;
        let files: Vec<_> = opening.files.iter().map(|span| span.file).collect();
        let targets = if self.variant == Variant::Registered {
            buffers = ring.register_buffers(buffers)?;
            ring.register_files(&files)?
        } else {
            files.into_iter().map(Target::Borrowed).collect()
        };
        Ok(Box::new(OnRing {
            ring,
            targets,
            slots: buffers.into_iter().map(Some).collect(),
            io_bytes: opening.io_bytes,
            looks: (self.variant == Variant::Thread).then_some(*LOOKS.start()),
        }))
    }
}

struct OnRing<'fd> {
    ring: Ring<'fd>,
    targets: Vec<Target<'fd>>,
    /// The memory of free slots; that of the others is the ring's.
    slots: Vec<Option<Buffer>>,
    io_bytes: usize,
    /// How often to look before sleeping, where looking makes sense.
    looks: Option<u32>,
}

impl OnRing<'_> {
    /// Takes what is done already, without a call.
    fn take(&mut self, done: &mut Vec<Done>) {
        while let Some(completion) = self.ring.take() {
            let slot = completion.token as usize;
            self.slots[slot] = completion.buffer;
            done.push(Done { slot, answer: completion.first });
        }
    }

    /// Looks so often whether something is done, and takes it; whether it was.
    fn look(&mut self, done: &mut Vec<Done>, looks: u32) -> bool {
        let before = done.len();
        for _ in 0..looks {
            std::hint::spin_loop();
            self.take(done);
            if done.len() > before {
                return true;
            }
        }
        false
    }
}

impl Engine for OnRing<'_> {
    fn push(&mut self, slot: usize, io: Io) {
        let buffer = self.slots[slot].take().expect("the slot is free");
        let (file, at, bytes) = (self.targets[io.file], io.at, 0..self.io_bytes);
        let operation = match io.direction {
            Direction::Read => Operation::Read { file, at, bytes },
            Direction::Write => Operation::Write { file, at, bytes },
        };
        self.ring.push(Request::new(slot as u64, operation).buffer(buffer));
    }

    fn submit(&mut self) -> Result<(), Errno> {
        self.ring.submit()
    }

    fn wait(&mut self, done: &mut Vec<Done>) -> Result<(), Errno> {
        let before = done.len();
        self.take(done);
        if done.len() == before
            && let Some(looks) = self.looks
        {
            let found = self.look(done, looks);
            let next = if found { looks * 2 } else { looks / 2 };
            self.looks = Some(next.clamp(*LOOKS.start(), *LOOKS.end()));
        }
        if done.len() == before
            && let Some(completion) = self.ring.wait()?
        {
            let slot = completion.token as usize;
            self.slots[slot] = completion.buffer;
            done.push(Done { slot, answer: completion.first });
            self.take(done);
        }
        Ok(())
    }

    fn bytes(&self, slot: usize) -> &[u8] {
        self.slots[slot].as_ref().expect("the slot is free").as_slice()
    }

    fn bytes_mut(&mut self, slot: usize) -> &mut [u8] {
        self.slots[slot].as_mut().expect("the slot is free").as_mut_slice()
    }

    fn calls(&self) -> Option<u64> {
        Some(self.ring.calls())
    }

    fn refusal(&self, errno: Errno) -> Refusal {
        match errno {
            Errno::OPNOTSUPP | Errno::INVAL => self.ring.refusal(errno),
            _ => super::refusal(errno),
        }
    }
}
