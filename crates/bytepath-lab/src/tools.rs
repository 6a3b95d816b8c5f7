//! Programs of the system that runs call, also those that lie where only an administrator's PATH
//! looks.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use crate::peers;

/// Where administrators' programs are; the PATH of an ordinary user may not have it.
const ADMINISTRATORS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Where a program is, if it is installed.
pub(crate) fn found(program: &str) -> Option<PathBuf> {
    let elsewhere = || {
        let all = ADMINISTRATORS.iter().map(|folder| PathBuf::from(folder).join(program));
        all.into_iter().find(peers::is_executable)
    };
    peers::found(program).or_else(elsewhere)
}

/// Where a program is, or how to install it.
pub(crate) fn needed(program: &str, package: &str) -> Result<PathBuf, String> {
    found(program)
        .ok_or_else(|| format!("{program} is not installed; on Debian: apt-get install {package}"))
}

/// What a program says that succeeds; else what it complains about.
pub(crate) fn said(program: &str, words: &[&OsStr]) -> Result<String, String> {
    let path = found(program).ok_or_else(|| format!("there is no {program} here"))?;
    let done = Command::new(path).args(words).output();
    let done = done.map_err(|error| format!("cannot run {program}: {error}"))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
    match done.status.success() {
        true => Ok(text(done.stdout)),
        false => Err(format!("{program} failed: {}", text(done.stderr))),
    }
}
