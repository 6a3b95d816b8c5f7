//! aio_read(3) and aio_write(3) of the C library as a type that owns what is in flight: its threads
//! may still read or write the memory, so it can be neither freed nor touched meanwhile.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use super::last_errno;
use crate::pages::Memory;

/// As many requests as there are pieces of memory.
pub(crate) struct Requests {
    /// The control blocks, each of which stays where it is: the threads read and write them.
    blocks: Box<[UnsafeCell<libc::aiocb>]>,
    memory: Vec<Memory>,
    flying: Vec<bool>,
    in_flight: usize,
    /// For aio_suspend(3): the blocks in flight, null for the others.
    list: Vec<*const libc::aiocb>,
}

impl Requests {
    /// A slot for each piece of memory.
    pub(crate) fn new(memory: Vec<Memory>) -> Requests {
        let block = |_: &Memory| {
            // SAFETY: all zero is a valid block: numbers, and pointers that may be null.
            UnsafeCell::new(unsafe { std::mem::zeroed::<libc::aiocb>() })
        };
        Requests {
            blocks: memory.iter().map(block).collect(),
            flying: vec![false; memory.len()],
            in_flight: 0,
            list: vec![std::ptr::null(); memory.len()],
            memory,
        }
    }

    /// How many are in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The memory of a slot that is not in flight.
    pub(crate) fn memory(&self, slot: usize) -> &Memory {
        assert!(!self.flying[slot], "the slot is free");
        &self.memory[slot]
    }

    /// The same, to be filled.
    pub(crate) fn memory_mut(&mut self, slot: usize) -> &mut Memory {
        assert!(!self.flying[slot], "the slot is free");
        &mut self.memory[slot]
    }

    /// Begins to read. The descriptor has to stay open for as long as the request is in flight; one
    /// that does not makes the request fail, or be about another file.
    pub(crate) fn read(
        &mut self,
        slot: usize,
        file: BorrowedFd<'_>,
        at: u64,
        bytes: usize,
    ) -> Result<(), Errno> {
        let block = self.prepared(slot, file, at, bytes);
        // SAFETY: the block and the memory it names are owned by `self` until the request is done:
        // nobody touches them while `flying` is set, and `Drop` waits for it.
        let answer = unsafe { libc::aio_read(block) };
        self.began(slot, answer)
    }

    /// Begins to write; as `read`.
    pub(crate) fn write(
        &mut self,
        slot: usize,
        file: BorrowedFd<'_>,
        at: u64,
        bytes: usize,
    ) -> Result<(), Errno> {
        let block = self.prepared(slot, file, at, bytes);
        // SAFETY: as in `read`.
        let answer = unsafe { libc::aio_write(block) };
        self.began(slot, answer)
    }

    fn prepared(
        &mut self,
        slot: usize,
        file: BorrowedFd<'_>,
        at: u64,
        bytes: usize,
    ) -> *mut libc::aiocb {
        assert!(!self.flying[slot], "the slot is free");
        let block = self.blocks[slot].get_mut();
        block.aio_fildes = file.as_raw_fd();
        block.aio_offset = at as libc::off_t;
        block.aio_nbytes = bytes;
        block.aio_buf = self.memory[slot].mapping().pointer_to(0..bytes).cast();
        block.aio_sigevent.sigev_notify = libc::SIGEV_NONE;
        self.blocks[slot].get()
    }

    fn began(&mut self, slot: usize, answer: libc::c_int) -> Result<(), Errno> {
        if answer != 0 {
            return Err(last_errno());
        }
        self.flying[slot] = true;
        self.in_flight += 1;
        self.list[slot] = self.blocks[slot].get();
        Ok(())
    }

    /// Tells of each request that is done, whose slot is then free.
    pub(crate) fn take(&mut self, mut each: impl FnMut(usize, Result<usize, Errno>)) {
        for slot in 0..self.flying.len() {
            if self.flying[slot]
                && let Some(answer) = self.answer(slot)
            {
                self.flying[slot] = false;
                self.in_flight -= 1;
                self.list[slot] = std::ptr::null();
                each(slot, answer);
            }
        }
    }

    /// What a request in flight came to; `None` where it is still in flight.
    fn answer(&self, slot: usize) -> Option<Result<usize, Errno>> {
        let block = self.blocks[slot].get();
        // SAFETY: the block is one that was handed over and has not been taken back.
        let errno = unsafe { libc::aio_error(block) };
        if errno == libc::EINPROGRESS {
            return None;
        }
        // SAFETY: the request is done, and asked for its answer this once.
        let count = unsafe { libc::aio_return(block) };
        Some(usize::try_from(count).map_err(|_| Errno::from_raw_os_error(errno)))
    }

    /// Waits until at least one is done.
    pub(crate) fn suspend(&self) -> Result<(), Errno> {
        let (list, none) = (self.list.as_ptr(), std::ptr::null());
        let many = libc::c_int::try_from(self.list.len()).unwrap_or(libc::c_int::MAX);
        loop {
            // SAFETY: the list has as many entries; each is null or a block in flight.
            if unsafe { libc::aio_suspend(list, many, none) } == 0 {
                return Ok(());
            }
            match last_errno() {
                Errno::INTR => {}
                errno => return Err(errno),
            }
        }
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        while self.in_flight > 0 {
            self.take(|_, _| {});
            if self.in_flight > 0 && self.suspend().is_err() {
                // The threads may still write there, and nobody can wait for them.
                std::mem::forget(std::mem::take(&mut self.memory));
                std::mem::forget(std::mem::take(&mut self.blocks));
                return;
            }
        }
    }
}
