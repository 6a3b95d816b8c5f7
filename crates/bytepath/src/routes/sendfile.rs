//! `sendfile`: from what the page cache holds to anything, inside the kernel.
//!
//! Costs per chunk: one system call; a copy where the sink is a file, none where it keeps pages
//! (pipe, socket). The kernel does it through a hidden pipe of 16 slots, so 64 KiB at a time.

use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::error::{Refusal, Stop};
use crate::routes::{Aliasing, Allowed, Job, Rank, Route, Span, judged_at_end, splice};
use crate::seal::Sealed;
use crate::wait::Ends;

/// One call's worth: long enough to forget the call, short enough to show progress.
const CHUNK_BYTES: usize = 2 << 20;

/// See the module.
pub(super) struct Sendfile;

const NAME: &str = "sendfile";

impl Sealed for Sendfile {}

impl Route for Sendfile {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "sendfile(2): a file to anything, inside the kernel"
    }

    fn aliasing(&self, job: &Job<'_>) -> Aliasing {
        if job.sink.kind().keeps_pages() { Aliasing::Source } else { Aliasing::None }
    }

    fn suits(&self, job: &Job<'_>) -> Result<Rank, Refusal> {
        if job.keep_source {
            return Err(Refusal::because("sendfile would take the bytes from the source"));
        }
        if !job.source.kind().is_cached() {
            return Err(Refusal::because(format!(
                "sendfile reads files and block devices, not a {}",
                job.source.kind()
            )));
        }
        if job.sink.appends() {
            return Err(Refusal::because("sendfile refuses a sink opened with O_APPEND"));
        }
        if job.source.same_file(job.sink) {
            return Err(Refusal::because(splice::WRITTEN_WHILE_THEY_WAIT));
        }
        if self.aliasing(job) != Aliasing::None && job.aliasing == Allowed::No {
            return Err(Refusal::because(
                "the sink would hold pages of the file, and later writes to it would show",
            )
            .remedy("allow aliasing where nobody writes to the file meanwhile"));
        }
        Ok(if job.sink.kind().keeps_pages() { Rank::ByReference } else { Rank::InKernel })
    }

    fn carry(&self, span: &Span<'_>) -> Result<(), Stop> {
        let mut waiter = span.waiter();
        let ends = Ends::sink(span.sink.as_fd());
        let (mut left, mut zero_at) = (span.limit, None);
        while left > 0 {
            // It has no flags: only an O_NONBLOCK that is not ours to set keeps it from sleeping.
            waiter.before_sleeper(ends)?;
            // Into messages it splices: of 80 KB at once it would make one, which is too long.
            let takes_bytes = match span.sink.makes_messages() {
                true => span.splice_takes_bytes(),
                false => span.sink_takes_bytes(),
            };
            let most = span.next_bytes(left, CHUNK_BYTES).min(takes_bytes);
            match rustix::fs::sendfile(span.sink, span.source, None, most) {
                Ok(0) => {
                    span.meter.called();
                    if super::ended(span, left, &mut zero_at)? {
                        break;
                    }
                }
                Ok(count) => {
                    span.meter.moved(count as u64);
                    waiter.progressed();
                    left -= count as u64;
                }
                Err(Errno::INTR) => span.meter.called(),
                Err(Errno::AGAIN) => waiter.stalled(ends)?,
                Err(errno) => return judged_at_end(span, NAME, "sendfile", errno),
            }
        }
        Ok(())
    }
}
