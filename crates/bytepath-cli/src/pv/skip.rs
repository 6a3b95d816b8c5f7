//! `--skip-errors`: steps over what cannot be read, and makes up zeros for it.

use std::num::NonZeroU64;

use bytepath::Kind;
use rustix::fs::{Advice, OFlags, SeekFrom};
use rustix::io::Errno;

use super::Settings;
use super::ends::Source;
use super::live::Live;
use crate::errno::word;

/// Without --error-skip-block, what is skipped at once grows to this.
const SKIP_BYTES_MAX: u64 = 512;

/// What is read block by block around a fault, and a multiple of this: no folio of the page cache is larger,
/// and of one that could not be read as a whole no part can be.
const CLOSE_BYTES: u64 = 2 << 20;

/// What could not be read of one input.
pub(crate) struct Skips<'a> {
    settings: &'a Settings,
    live: &'a Live,
    /// Up to here one block is read at a time: a larger read fails as a whole, wherever in it the fault is.
    close_to: Option<u64>,
    in_a_row: u32,
    told: bool,
}

impl<'a> Skips<'a> {
    /// Nothing so far.
    pub(crate) fn none(settings: &'a Settings, live: &'a Live) -> Skips<'a> {
        Skips { settings, live, close_to: None, in_a_row: 0, told: false }
    }

    /// Whether what cannot be read is to be skipped.
    pub(crate) fn wanted(&self) -> bool {
        self.settings.options.transfer.skip_errors > 0
    }

    /// Something could be read.
    pub(crate) fn went_well(&mut self) {
        self.in_a_row = 0;
    }

    /// The most that the next read may ask for.
    pub(crate) fn most_bytes(&mut self, source: &Source<'_>) -> usize {
        let Some(close_to) = self.close_to else { return usize::MAX };
        match rustix::fs::tell(&source.endpoint) {
            Ok(at) if at < close_to => {
                let block = block_bytes(source);
                usize::try_from(block - at % block).unwrap_or(usize::MAX)
            }
            _ => {
                self.close_to = None;
                let _ = rustix::fs::fadvise(&source.endpoint, 0, None, Advice::Normal);
                usize::MAX
            }
        }
    }

    /// A read of so many bytes failed: whether the same place is to be read again, block by block. Not where
    /// that was done, nor where there are no places: the error would not come twice.
    pub(crate) fn looks_closer(&mut self, source: &Source<'_>, bytes: usize) -> bool {
        let Ok(at) = rustix::fs::tell(&source.endpoint) else { return false };
        if self.close_to.is_some() {
            return false;
        }
        let begin = at - at % CLOSE_BYTES;
        let end = at.saturating_add(bytes as u64).div_ceil(CLOSE_BYTES).saturating_mul(CLOSE_BYTES);
        // Reading ahead would fail with what is ahead, and what it left in the page cache is no better.
        let _ = rustix::fs::fadvise(&source.endpoint, 0, None, Advice::Random);
        let whole = NonZeroU64::new(end - begin);
        let _ = rustix::fs::fadvise(&source.endpoint, begin, whole, Advice::DontNeed);
        self.close_to = Some(end);
        true
    }

    /// Steps over what cannot be read; how many zeros stand for it. Gives the error back where
    /// nothing can be skipped.
    pub(crate) fn step(
        &mut self,
        source: &Source<'_>,
        buffer: &mut [u8],
        errno: Errno,
    ) -> Result<usize, Errno> {
        let at = rustix::fs::tell(&source.endpoint).map_err(|_| errno)?;
        let mut count = self.next_bytes(at).min(buffer.len() as u64);
        // Files of /proc have no size, and more than nothing in them: how much is told then.
        let is_told = self.settings.size.is_some() && self.settings.options.transfer.stop_at_size;
        let end = end_of(source).filter(|end| *end > 0 || !is_told);
        if let Some(left) = end.map(|end| end.saturating_sub(at)) {
            // Beyond the end there is nothing that could not be read.
            count = count.min(left);
        }
        if count == 0 {
            return Err(errno);
        }
        rustix::fs::seek(&source.endpoint, SeekFrom::Start(at + count)).map_err(|_| errno)?;
        self.tell(source, at, count, errno);
        let count = usize::try_from(count).unwrap_or(buffer.len());
        buffer[..count].fill(0);
        Ok(count)
    }

    fn next_bytes(&mut self, at: u64) -> u64 {
        let bytes = match self.settings.skip_block_bytes {
            Some(block) => block - at % block,
            None => 1 << self.in_a_row.min(SKIP_BYTES_MAX.ilog2()),
        };
        self.in_a_row += 1;
        bytes
    }

    fn tell(&mut self, source: &Source<'_>, at: u64, count: u64, errno: Errno) {
        let once = self.settings.options.transfer.skip_errors > 1;
        if once && self.told {
            return;
        }
        self.told = true;
        let what = match once {
            true => "it has parts that cannot be read; zeros are written for them".to_owned(),
            false => format!("skipped {at} - {} ({count} B), zeros are written for it", at + count),
        };
        self.live.say(format_args!("{}: {what}: {}", source.name, word(errno)));
    }
}

/// The least that a source may be asked for: by O_DIRECT what a device reads at once, else a page.
fn block_bytes(source: &Source<'_>) -> u64 {
    let flags = rustix::fs::fcntl_getfl(&source.endpoint).unwrap_or(OFlags::empty());
    let direct = source.endpoint.kind() == Kind::BlockDevice && flags.contains(OFlags::DIRECT);
    let block = direct.then(|| rustix::fs::ioctl_blksszget(&source.endpoint).ok()).flatten();
    let block = block.filter(|block| *block > 0).map(u64::from);
    block.unwrap_or(rustix::param::page_size() as u64)
}

fn end_of(source: &Source<'_>) -> Option<u64> {
    match source.endpoint.kind() {
        Kind::File => {
            let stat = rustix::fs::fstat(&source.endpoint).ok()?;
            u64::try_from(stat.st_size).ok()
        }
        Kind::BlockDevice => {
            let at = rustix::fs::tell(&source.endpoint).ok()?;
            super::ends::device_bytes(&source.endpoint).map(|left| at + left)
        }
        _ => None,
    }
}
