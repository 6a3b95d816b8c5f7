//! What is said on standard error, and which errors of printing count.

use std::process::ExitCode;

use bytepath_report::table::printable;

use crate::live::before_message;
use crate::streams::stderr;

pub(crate) fn said_of(error: &anyhow::Error) -> ExitCode {
    say(format_args!("bytepath: {error:#}"));
    ExitCode::FAILURE
}

/// What was done before, and another thing that neither needs: of two errors the first is said, the
/// other left to be.
pub(crate) fn also(before: anyhow::Result<()>, done: anyhow::Result<()>) -> anyhow::Result<()> {
    if let (Err(before), Err(_)) = (&before, &done) {
        said_of(before);
        return done;
    }
    before.and(done)
}

/// What was for a reader who left, having read enough, counts as printed: whoever has a verdict to give
/// by the exit code gives it all the same.
pub(crate) fn printed(done: anyhow::Result<()>) -> anyhow::Result<()> {
    done.or_else(|error| if reader_left(&error) { Ok(()) } else { Err(error) })
}

/// Says a line on standard error in one write, so that two ends that fail together do not mix theirs,
/// below a line that says how far something is.
/// Names that others gave command no terminal. Where nobody can hear it, the work and the exit code are what they are all the same.
pub(crate) fn say(line: std::fmt::Arguments<'_>) {
    let _ = said(line);
}

/// The same, where what is said is the work.
pub(crate) fn said(line: std::fmt::Arguments<'_>) -> std::io::Result<()> {
    use std::io::Write as _;
    let text = printable(&line.to_string());
    stderr().write_all(format!("{}{text}\n", before_message()).as_bytes())
}

/// Whether somebody who read what this program prints had enough of it, as `head` has: no reason
/// to complain.
fn reader_left(error: &anyhow::Error) -> bool {
    let broken = |cause: &std::io::Error| cause.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(broken))
}
