//! Buffers that a ring has in store for what is received: the kernel takes one when bytes are there
//! (IORING_REGISTER_PBUF_RING, Linux 5.19), so that a connection that is silent holds none.
//!
//! The kernel reads which buffers it may take from a queue in our memory, of which it moves the
//! beginning and we the end. Giving one back is two writes to memory, and no call.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use rustix::io::Errno;
use rustix::mm::MapFlags;

use super::{Ring, word};
use crate::error::Refusal;
use crate::ring::Piece;
use crate::size::shown;
use crate::sys::memory::Mapping;

/// The number of a ring's one store.
pub(super) const GROUP: u16 = 0;

/// More the kernel does not take.
const BUFFERS_MAX: u16 = 1 << 15;

/// The store: buffers of one size, one after the other, and the queue of those that may be taken.
pub(super) struct Provided {
    queue: Mapping,
    memory: Mapping,
    bytes_each: usize,
    /// A power of two.
    count: u16,
    /// How many were put into the queue so far; wraps, as the kernel's own count does.
    end: u16,
}

impl Ring<'_> {
    /// Gives the ring a store of buffers (rounded up to a power of two, 32,768 at most) of so many bytes each, for
    /// [`Operation::ReceiveEach`](crate::ring::Operation::ReceiveEach). Once per ring.
    ///
    /// # Errors
    /// The kernel's word: EINVAL before Linux 5.19, EEXIST where there is a store already; EOVERFLOW
    /// for buffers of 4 GiB and more.
    pub fn provide(&mut self, buffers: u16, bytes_each: usize) -> Result<(), Refusal> {
        let count = buffers.clamp(1, BUFFERS_MAX).next_power_of_two();
        let refused = |errno| {
            let all = shown(u64::from(count).saturating_mul(bytes_each as u64));
            let refusal = Refusal::errno(format!("cannot give a ring {all} of buffers"), errno);
            match errno {
                Errno::INVAL => refusal.remedy("Linux 5.19 and later can"),
                Errno::OVERFLOW => refusal.remedy("a buffer has less than 4 GiB"),
                Errno::EXIST => refusal.remedy("a ring takes a store once"),
                Errno::NOMEM => refusal.remedy("take fewer or smaller ones"),
                _ => refusal,
            }
        };
        if self.provided.is_some() {
            return Err(refused(Errno::EXIST));
        }
        let mut store = Provided::allocate(count, bytes_each.max(1)).map_err(refused)?;
        self.calls += 1;
        let (queue, submitter) = (store.queue.address() as u64, self.ring().submitter());
        // SAFETY: the queue is whole pages of its own that stay mapped until after the ring is
        // closed: `provided` is dropped after `ring`, or leaked.
        let answer = unsafe { submitter.register_buf_ring_with_flags(queue, count, GROUP, 0) };
        answer.map_err(|error| refused(word(error)))?;
        for index in 0..count {
            store.put(index);
        }
        self.provided = Some(store);
        Ok(())
    }

    /// The bytes of a piece.
    ///
    /// # Panics
    /// If another ring received it.
    pub fn piece(&self, piece: &Piece) -> &[u8] {
        let store = self.store_of(piece);
        assert!(piece.len <= store.bytes_each, "the kernel fills no more than a buffer");
        let at = usize::from(piece.index) * store.bytes_each;
        let start = store.memory.pointer_to(at..at + piece.len);
        // SAFETY: the kernel took this buffer out of the queue and has filled it; it is written to
        // again only once it was given back, which takes the piece away and needs `&mut self`.
        unsafe { std::slice::from_raw_parts(start, piece.len) }
    }

    /// Puts a piece's buffer back into the store.
    ///
    /// # Panics
    /// If another ring received it.
    pub fn give_back(&mut self, piece: Piece) {
        self.store_of(&piece);
        self.provided.as_mut().expect("it was just looked at").put(piece.index);
    }

    fn store_of(&self, piece: &Piece) -> &Provided {
        assert_eq!(piece.ring, self.id, "a piece belongs to the ring that received it");
        self.provided.as_ref().expect("what was received has a buffer")
    }
}

impl Provided {
    fn allocate(count: u16, bytes_each: usize) -> Result<Provided, Errno> {
        let mapped = |bytes: usize| {
            let page = rustix::param::page_size();
            let whole = bytes.checked_next_multiple_of(page).ok_or(Errno::NOMEM)?;
            Mapping::anonymous(whole, page, MapFlags::empty())
        };
        let all = bytes_each.checked_mul(usize::from(count)).ok_or(Errno::NOMEM)?;
        u32::try_from(bytes_each).map_err(|_| Errno::OVERFLOW)?;
        let queue = mapped(usize::from(count) * size_of::<BufRingEntry>())?;
        Ok(Provided { queue, memory: mapped(all)?, bytes_each, count, end: 0 })
    }

    /// Puts a buffer that the kernel does not have at the end of the queue.
    fn put(&mut self, index: u16) {
        let memory =
            self.memory.pointer_to(usize::from(index) * self.bytes_each..self.memory.len());
        let place = usize::from(self.end & (self.count - 1)) * size_of::<BufRingEntry>();
        let entry = self.queue.pointer_to(place..place + size_of::<BufRingEntry>());
        // SAFETY: the place lies within the queue, aligned as its pages are; only this thread writes
        // there, and the kernel does not look beyond the end, which is moved below.
        let entry = unsafe { &mut *entry.cast::<BufRingEntry>() };
        entry.set_addr(memory as u64);
        entry.set_len(self.bytes_each as u32);
        entry.set_bid(index);
        self.end = self.end.wrapping_add(1);
        let first = self.queue.pointer_to(0..size_of::<BufRingEntry>()).cast::<BufRingEntry>();
        // SAFETY: the first entry lies within the queue, whose pages began as zeros.
        let end = unsafe { BufRingEntry::tail(first) }.cast_mut();
        // SAFETY: the word is aligned and stays mapped as long as `self`; beside this thread, which
        // writes it only here, there is the kernel, which reads it as one word.
        unsafe { AtomicU16::from_ptr(end) }.store(self.end, Ordering::Release);
    }
}
