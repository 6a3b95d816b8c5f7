//! A whole buffer by descriptor: filled, sealed against every further change, and handed over
//! without a copy.
//!
//! Costs the sender the pages (made, zeroed and mapped once a buffer), and each end a few system
//! calls a buffer; no byte is copied. Unlike a ring's, a sealed buffer's bytes stay as they are
//! whatever the other end does, so they are an ordinary slice.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;

use super::connection::{Connection, deadline};
use super::error::ChannelError;
use super::link::is_hugetlb;
use crate::pages::{PageSize, PagesError, look_for_room, set_size};
use crate::sys::sealed::{Draft, Sealed};
use crate::sys::shared_bytes::SharedBytes;

/// A buffer that is being filled, and that nobody else has yet.
#[derive(Debug)]
pub struct Parcel {
    draft: Draft,
    bytes: usize,
}

impl Parcel {
    /// Makes a buffer of this many bytes (above 0), zero until written. Huge pages are asked for
    /// where shared memory may have them. One of [`PageSize::Hugetlb`] is for this process and those that it
    /// forks: [`SealedParcel::open`] takes none.
    ///
    /// # Errors
    /// The kernel has no such memory to give.
    pub fn allocate(bytes: usize, size: PageSize) -> Result<Parcel, PagesError> {
        Ok(Parcel { draft: Draft::allocate(bytes, size)?, bytes })
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.draft.as_slice()[..self.bytes]
    }

    /// The bytes, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.draft.as_mut_slice()[..self.bytes]
    }

    /// Seals the first so many bytes against every change, for good.
    ///
    /// # Errors
    /// The kernel does not seal it: somebody else in this process has it mapped.
    ///
    /// # Panics
    /// There are not so many.
    pub fn seal(self, bytes: usize) -> Result<SealedParcel, PagesError> {
        assert!(bytes <= self.bytes, "no more is sealed than there is");
        let failed = |errno| PagesError::Map { bytes, size: "sealed", errno };
        let file = self.draft.into_file();
        rustix::fs::fcntl_add_seals(&file, SEALS).map_err(failed)?;
        let sealed = Sealed::of(file.as_fd()).map_err(failed)?;
        Ok(SealedParcel { sealed, file, bytes })
    }
}

/// What a buffer is sealed against: writing, and becoming shorter or longer.
const SEALS: SealFlags =
    SealFlags::WRITE.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::SEAL);

/// A buffer that nobody can change any more.
#[derive(Debug)]
pub struct SealedParcel {
    sealed: Sealed,
    file: OwnedFd,
    bytes: usize,
}

impl SealedParcel {
    /// Makes a buffer of this many bytes (above 0) with these at these places of it, zero elsewhere. They
    /// are written to it by the kernel, which does not have to zero the pages first: half the time that
    /// filling a [`Parcel`] takes.
    ///
    /// # Errors
    /// The kernel has no such memory to give.
    ///
    /// # Panics
    /// A place is behind the end.
    pub fn written(
        bytes: usize,
        parts: &[(usize, SharedBytes<'_>)],
    ) -> Result<SealedParcel, PagesError> {
        look_for_room(bytes)?;
        let failed = |errno| PagesError::Map { bytes, size: "sealed", errno };
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let size = PageSize::Base.name();
        let file = rustix::fs::memfd_create(c"bytepath", flags)
            .map_err(|errno| PagesError::Map { bytes, size, errno })?;
        set_size(&file, bytes).map_err(failed)?;
        for (at, part) in parts {
            assert!(at.checked_add(part.len()).is_some_and(|end| end <= bytes), "they fit");
            part.write_all_at(&file, *at as u64)
                .map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        }
        rustix::fs::fcntl_add_seals(&file, SEALS).map_err(failed)?;
        let sealed = Sealed::of(file.as_fd()).map_err(failed)?;
        Ok(SealedParcel { sealed, file, bytes })
    }

    /// Takes a buffer that was received as a descriptor, of which so many bytes count.
    ///
    /// # Errors
    /// It is not sealed against every change, or is of the pool of huge pages ([`PageSize::Hugetlb`]), or
    /// is shorter, or cannot be mapped.
    pub fn open(file: OwnedFd, bytes: usize) -> Result<SealedParcel, ChannelError> {
        let refused = |errno| match errno {
            Errno::PERM | Errno::INVAL => {
                ChannelError::Unsafe("the buffer is not sealed against every change")
            }
            errno => ChannelError::Memory(PagesError::Map { bytes, size: "sealed", errno }),
        };
        if is_hugetlb(file.as_fd()) {
            return Err(ChannelError::Unsafe(
                "its pages are of the pool, which may have none left for what was never written",
            ));
        }
        let sealed = Sealed::of(file.as_fd()).map_err(refused)?;
        match sealed.as_slice().len() >= bytes {
            true => Ok(SealedParcel { sealed, file, bytes }),
            false => Err(ChannelError::Unsafe("the buffer is shorter than was said")),
        }
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.sealed.as_slice()[..self.bytes]
    }
}

polled!(SealedParcel, file);

impl Connection {
    /// Hands a buffer to the other end, which takes it by [`Connection::take`]. Waits while the
    /// socket holds too many that were not taken.
    ///
    /// # Errors
    /// The other end is gone.
    pub fn give(&self, parcel: &SealedParcel) -> Result<(), ChannelError> {
        let bytes = parcel.bytes as u64;
        loop {
            match self.say(&bytes.to_le_bytes(), &[parcel.as_fd()]) {
                Err(ChannelError::Socket { errno: FULL, .. }) => self.wait_writable()?,
                // As many as a process may have open are under way (ETOOMANYREFS).
                Err(ChannelError::Socket { errno: TOO_MANY, .. }) => std::thread::sleep(MOMENT),
                said => return said,
            }
        }
    }

    /// Waits for a buffer; `None` once the other end is gone. Of processes that share an end, one takes: a
    /// buffer that two take at once is both's, and the next one nobody's.
    ///
    /// # Errors
    /// What came is no sealed buffer, or nothing did for so long; or this process is out of descriptors, and the
    /// buffer is there again later.
    pub fn take(&mut self, patience: Duration) -> Result<Option<SealedParcel>, ChannelError> {
        let (packet, files) = match self.hear_if_kept(deadline(patience), patience) {
            Err(ChannelError::HungUp) => return Ok(None),
            heard => heard?,
        };
        let bytes = packet.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
        let file = files.into_iter().next();
        let (bytes, file) = bytes.zip(file).ok_or(ChannelError::Stray("it sent no buffer"))?;
        SealedParcel::open(file, bytes).map(Some)
    }
}

const FULL: Errno = Errno::AGAIN;
const TOO_MANY: Errno = Errno::TOOMANYREFS;
const MOMENT: Duration = Duration::from_millis(1);
