//! A range of a file, where others copy the rest of it at the same time: holes stay holes, and only
//! the range is written.

use bytepath::holes::Holes;
use rustix::io::Errno;

use super::{Data, Fault, Way};
use crate::cp::holes::has_holes;
use crate::cp::settings::Sparse;

impl Data<'_> {
    /// Copies the bytes from one place to another into a sink that has its size already.
    pub(in crate::cp) fn copy_range(&mut self, start: u64, end: u64) -> Result<(), Fault> {
        let sparse = self.shared.settings.sparse;
        if sparse == Sparse::Never || !has_holes(self.source_stat) && sparse != Sparse::Always {
            return self.copy_between(start, end);
        }
        let (holes, mut at) = (Holes::of(self.source), start);
        if self.is_looked_through(&holes) {
            return self.look_between(start, end);
        }
        while at < end {
            let data = match holes.data(at) {
                Ok(Some(data)) if data < end => data,
                Ok(Some(_)) => break,
                // Nothing but a hole up to the end, if it was not cut before that.
                Ok(None) => return whole(self.source_end()? >= end),
                Err(Errno::INVAL | Errno::OPNOTSUPP) => return self.copy_between(at, end),
                Err(errno) => return Err(Fault::Seeking(errno)),
            };
            at = match holes.hole(data) {
                Err(Errno::NXIO) => return whole(false),
                hole => hole.map_err(Fault::Seeking)?.min(end),
            };
            self.copy_between(data, at)?;
        }
        Ok(())
    }

    fn copy_between(&mut self, start: u64, end: u64) -> Result<(), Fault> {
        if self.shared.settings.sparse == Sparse::Always {
            return self.look_between(start, end);
        }
        self.stand_at(start)?;
        let count = self.carry(Some(end - start), Way::Any)?;
        whole(count == end - start)
    }

    fn look_between(&mut self, start: u64, end: u64) -> Result<(), Fault> {
        self.stand_at(start)?;
        let reached = self.look_through(end - start)?;
        whole(reached == end)
    }
}

fn whole(is_whole: bool) -> Result<(), Fault> {
    match is_whole {
        true => Ok(()),
        false => Err(Fault::Other("it became shorter while it was copied".into())),
    }
}
