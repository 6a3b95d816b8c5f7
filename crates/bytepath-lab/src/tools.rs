//! Programs of the system that runs call, also those that lie where only an administrator's PATH
//! looks.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

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
    // What sets up and undoes is not ended by what a terminal sends to our group.
    let done = Command::new(path).args(words).process_group(0).output();
    let done = done.map_err(|error| format!("cannot run {program}: {error}"))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
    match done.status.success() {
        true => Ok(text(done.stdout)),
        false => Err(format!("{program} failed: {}", text(done.stderr))),
    }
}

/// What a program says of its version, in a line; none where it does not.
pub(crate) fn version(program: &str) -> Option<String> {
    let asks = match program {
        "nginx" => "-v",
        "memcached" => "-V",
        _ => "--version",
    };
    // One that does not know the question may begin to work: it ends also where this process does before.
    let mut bounded = Command::new("timeout");
    bounded.args(["-s", "KILL", "2"]).arg(found(program)?).arg(asks);
    let done = bounded.stdin(Stdio::null()).output().ok()?;
    // nginx says it on standard error.
    let said = [done.stdout, done.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().map(str::trim).find(|line| !line.is_empty());
    line.filter(|_| done.status.success()).map(str::to_owned)
}

/// The same of several, by their names, for the params of the arms that run them.
pub(crate) fn versions(programs: &[&str]) -> BTreeMap<String, Value> {
    let of = |program: &&str| Some(((*program).to_owned(), version(program)?.into()));
    programs.iter().filter_map(of).collect()
}

/// The words of a command, for its arm's params; without those by which `bytepath confine` puts it
/// somewhere.
pub(crate) fn words_of(command: &Command) -> String {
    let all = std::iter::once(command.get_program()).chain(command.get_args());
    let all: Vec<_> = all.map(OsStr::to_string_lossy).collect();
    let first = all.iter().position(|word| word == "--").map_or(0, |at| at + 1);
    all[first..].join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_told_by_its_own_words_wherever_it_is_put() {
        let mut command = Command::new("sysbench");
        command.args(["memory", "run"]);
        assert_eq!(words_of(&command), "sysbench memory run");
        let confined = crate::confine::Confinement { user: Some(1), ..Default::default() };
        let mut command = confined.command("bytepath".as_ref(), "/usr/sbin/mariadbd".as_ref());
        command.arg("--no-defaults");
        assert_eq!(words_of(&command), "/usr/sbin/mariadbd --no-defaults");
    }

    #[test]
    fn only_programs_that_are_there_and_succeed_have_a_version() {
        let versions = versions(&["sh-that-is-nowhere", "false", "cat"]);
        assert_eq!(versions.keys().collect::<Vec<_>>(), ["cat"]);
        assert!(versions["cat"].as_str().is_some_and(|line| line.contains("cat")), "{versions:?}");
    }
}
