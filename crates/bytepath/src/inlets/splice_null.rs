//! `splice-null`: the pipe's pages go to /dev/null without being looked at.
//!
//! Costs per chunk: one system call; per slot one reference dropped.

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::pipe::SpliceFlags;

use crate::endpoint::{Endpoint, Kind};
use crate::error::{Refusal, Stop};
use crate::inlets::{Consumer, Inlet, Setup, Source};
use crate::seal::Sealed;

/// See the module.
pub(super) struct SpliceNull;

const NAME: &str = "splice-null";

impl Sealed for SpliceNull {}

impl Inlet for SpliceNull {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "splice(2) from a pipe to /dev/null; nobody looks at the bytes"
    }

    fn touches(&self) -> bool {
        false
    }

    fn suits(&self, source: &Endpoint<'_>) -> Result<(), Refusal> {
        if source.kind() == Kind::Pipe {
            return Ok(());
        }
        Err(Refusal::because(format!("splice-null needs a pipe, not a {}", source.kind()))
            .remedy("pipe a program into it, or use the inlet read"))
    }

    fn open<'a>(
        &self,
        source: &'a Endpoint<'a>,
        setup: &Setup<'a>,
    ) -> Result<Box<dyn Consumer + 'a>, Stop> {
        self.suits(source).map_err(Stop::Declined)?;
        let null = File::options().write(true).open("/dev/null").map_err(|error| {
            Stop::Declined(Refusal::because(format!("cannot open /dev/null: {error}")))
        })?;
        let source = Source::open(NAME, source, setup)?;
        let mut flags = SpliceFlags::empty();
        flags.set(SpliceFlags::NONBLOCK, source.nonblocking());
        flags.set(SpliceFlags::MOVE, setup.move_flag);
        Ok(Box::new(Dropping {
            source,
            null: null.into(),
            buf_bytes: setup.buf_bytes.max(1),
            flags,
        }))
    }
}

struct Dropping<'a> {
    source: Source<'a>,
    null: OwnedFd,
    buf_bytes: usize,
    flags: SpliceFlags,
}

impl Sealed for Dropping<'_> {}

impl Consumer for Dropping<'_> {
    #[inline(always)]
    fn take(&mut self, most: u64) -> Result<u64, Stop> {
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(self.buf_bytes);
        let (null, flags) = (&self.null, self.flags);
        let count = self.source.until_moved("splice", |source| {
            rustix::pipe::splice(source, None, null, None, most, flags)
        })?;
        Ok(count as u64)
    }

    fn bytes(&self) -> &[u8] {
        &[]
    }

    fn checksum(&self) -> Option<u64> {
        None
    }
}
