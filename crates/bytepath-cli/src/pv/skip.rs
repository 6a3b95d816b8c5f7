//! `--skip-errors`: steps over what cannot be read, and makes up zeros for it.

use bytepath::Kind;
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::Settings;
use super::ends::Source;
use super::live::Live;

/// Without --error-skip-block, what is skipped at once grows to this.
const SKIP_BYTES_MAX: u64 = 512;

/// What could not be read of one input.
pub(crate) struct Skips<'a> {
    settings: &'a Settings,
    live: &'a Live,
    in_a_row: u32,
    told: bool,
}

impl<'a> Skips<'a> {
    /// Nothing so far.
    pub(crate) fn none(settings: &'a Settings, live: &'a Live) -> Skips<'a> {
        Skips { settings, live, in_a_row: 0, told: false }
    }

    /// Whether what cannot be read is to be skipped.
    pub(crate) fn wanted(&self) -> bool {
        self.settings.options.transfer.skip_errors > 0
    }

    /// Something could be read.
    pub(crate) fn went_well(&mut self) {
        self.in_a_row = 0;
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
        if let Some(left) = end_of(source).map(|end| end.saturating_sub(at)) {
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
        self.live.say(format_args!("{}: {what}: {}", source.name, super::errno_word(errno)));
    }
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
