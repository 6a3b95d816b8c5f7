//! A BPF ring buffer as the kernel shares it: records that programs leave, in their order, taken out
//! as copies.
#![allow(unsafe_code)]

use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::bpf::{Map, MapKind};

/// A record that its program has not finished.
const BUSY: u32 = 1 << 31;
/// A record that its program gave up.
const DISCARDED: u32 = 1 << 30;
const HEADER_BYTES: u64 = 8;

/// The reading side of a ring.
#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) map: Map,
    /// One page, ours to write: up to where records were taken.
    consumer: NonNull<AtomicU64>,
    /// One page with the position up to which records were left, then the data, twice in a row, so
    /// that no record is ever in two pieces.
    producer: NonNull<AtomicU64>,
    page_bytes: usize,
    data_bytes: usize,
}

// SAFETY: the mappings belong to the process, not to a thread, and only the ring's one owner takes
// records.
unsafe impl Send for Ring {}

impl Ring {
    /// Makes a ring of `data_bytes`, a power of two and of whole pages.
    pub(crate) fn new(name: &str, data_bytes: usize) -> Result<Ring, Errno> {
        let page_bytes = rustix::param::page_size();
        let entries = u32::try_from(data_bytes).map_err(|_| Errno::INVAL)?;
        let map = Map::new(MapKind::RingBuffer, name, 0, 0, entries)?;
        let consumer = shared(&map, page_bytes, ProtFlags::READ | ProtFlags::WRITE, 0)?;
        let producer = shared(&map, page_bytes + 2 * data_bytes, ProtFlags::READ, page_bytes);
        let producer = producer.inspect_err(|_| {
            // SAFETY: mapped above with this size, and not used again.
            let _ = unsafe { munmap(consumer.as_ptr().cast(), page_bytes) };
        })?;
        Ok(Ring { map, consumer, producer, page_bytes, data_bytes })
    }

    /// Takes the records that are there, one after the other.
    pub(crate) fn take(&mut self, mut record: impl FnMut(&[u8])) {
        // SAFETY: a page of ours, mapped as long as the ring lives.
        let consumer = unsafe { self.consumer.as_ref() };
        // SAFETY: a page of the kernel's, mapped as long as the ring lives.
        let producer = unsafe { self.producer.as_ref() };
        let mut position = consumer.load(Ordering::Relaxed);
        let mut copy = Vec::new();
        while position < producer.load(Ordering::Acquire) {
            let header = self.header(position);
            if header & BUSY != 0 {
                break;
            }
            let len = (header & !(BUSY | DISCARDED)) as usize;
            if header & DISCARDED == 0 {
                self.copy(position + HEADER_BYTES, len, &mut copy);
                record(&copy);
            }
            position += (HEADER_BYTES + len as u64).next_multiple_of(8);
            consumer.store(position, Ordering::Release);
        }
    }

    fn header(&self, position: u64) -> u32 {
        let place = self.place(position);
        // SAFETY: positions are multiples of 8 inside the mapping; the kernel writes a header's
        // first word as one.
        unsafe { AtomicU32::from_ptr(place.cast::<u32>().as_ptr()) }.load(Ordering::Acquire)
    }

    fn copy(&self, position: u64, len: usize, into: &mut Vec<u8>) {
        into.clear();
        into.resize(len.min(self.data_bytes), 0);
        let from = self.place(position);
        // SAFETY: the data lie twice in a row, so that many bytes follow; the kernel does not write
        // to a finished record before it was taken.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), into.as_mut_ptr(), into.len()) };
    }

    fn place(&self, position: u64) -> NonNull<u8> {
        let offset = self.page_bytes + (position as usize & (self.data_bytes - 1));
        // SAFETY: an offset inside the mapping, which has the page and twice the data.
        unsafe { self.producer.cast::<u8>().add(offset) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this size; nobody else has the address.
        let _ = unsafe { munmap(self.consumer.as_ptr().cast(), self.page_bytes) };
        let producer_bytes = self.page_bytes + 2 * self.data_bytes;
        // SAFETY: likewise.
        let _ = unsafe { munmap(self.producer.as_ptr().cast(), producer_bytes) };
    }
}

fn shared(
    map: &Map,
    bytes: usize,
    protection: ProtFlags,
    offset: usize,
) -> Result<NonNull<AtomicU64>, Errno> {
    // SAFETY: a new mapping at an address of the kernel's choice takes nothing from anybody.
    let address = unsafe {
        mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, map.as_fd(), offset as u64)
    }?;
    NonNull::new(address.cast()).ok_or(Errno::NOMEM)
}
