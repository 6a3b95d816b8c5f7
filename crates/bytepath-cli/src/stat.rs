//! The line that the kernel has about each process: proc_pid_stat(5).

use std::str::FromStr;

/// The line, taken apart.
pub(crate) struct Stat<'l> {
    pub(crate) name: &'l str,
    fields: Vec<&'l str>,
}

impl<'l> Stat<'l> {
    /// The name is in parentheses, and may have any letter in it.
    pub(crate) fn of(line: &'l str) -> Option<Stat<'l>> {
        let (name, fields) = line.split_once('(')?.1.rsplit_once(')')?;
        Some(Stat { name, fields: fields.split_whitespace().collect() })
    }

    /// The manual counts from 1, and the state, the first behind the name, is the third.
    pub(crate) fn field<T: FromStr>(&self, number: usize) -> Option<T> {
        self.fields.get(number - 3)?.parse().ok()
    }
}

/// The line of a process, by its number or `self`, whatever the letters of its name; none where it is gone.
pub(crate) fn line(process: impl std::fmt::Display) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{process}/stat")).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
