//! sysbench's OLTP, which reads and writes: its words, and what it says.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bytepath_report::latency;

use super::service_work::Loaded;

/// The database that it works on; sysbench's own name for it.
pub(super) const DATABASE: &str = "sbtest";

/// Reads all of its table.
pub(super) const WARM: &str = "SELECT SUM(k) + SUM(LENGTH(c)) FROM sbtest1";

/// Threads of its load.
const THREADS: u32 = 4;

const SCRIPT: &str = "oltp_read_write";

/// Its table, in a server at a socket.
pub(super) struct Table<'a> {
    pub(super) program: &'a Path,
    pub(super) socket: &'a Path,
    pub(super) rows: u64,
}

impl Table<'_> {
    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        command.args([SCRIPT, "--db-driver=mysql", "--mysql-user=root", "--tables=1"]);
        command.arg(format!("--mysql-socket={}", self.socket.display()));
        command.arg(format!("--mysql-db={DATABASE}"));
        command.arg(format!("--table-size={}", self.rows));
        command
    }

    pub(super) fn prepare(&self) -> Command {
        let mut command = self.command();
        command.arg("prepare");
        command
    }

    /// sysbench takes whole seconds.
    pub(super) fn run(&self, time: Duration) -> Command {
        let mut command = self.command();
        command.arg(format!("--time={}", time.as_secs().max(1)));
        command.args([format!("--threads={THREADS}"), "--histogram=on".to_owned()]);
        command.args(["--mysql-ignore-errors=1213,1020,1205", "run"]);
        command
    }
}

/// The transactions, the time and the latencies that it tells of.
pub(super) fn parsed(said: &str) -> Result<Loaded, String> {
    let after = |words: &str| {
        let line = said.lines().find_map(|line| line.trim().strip_prefix(words))?;
        line.split_whitespace().next()?.trim_end_matches('s').parse::<f64>().ok()
    };
    let unknown = || format!("sysbench says something else than expected: {said}");
    let transactions = after("transactions:").ok_or_else(unknown)?;
    let seconds = after("total time:").filter(|seconds| *seconds > 0.0).ok_or_else(unknown)?;
    let mut latencies = latency::empty();
    // `   1.759 |**********      1234`, in milliseconds.
    for line in said.lines() {
        let Some((milliseconds, rest)) = line.split_once('|') else { continue };
        let count = rest.trim_start_matches('*').trim().parse::<u64>();
        if let (Ok(milliseconds), Ok(count)) = (milliseconds.trim().parse::<f64>(), count) {
            let _ = latencies.record_n((milliseconds * 1e6) as u64, count);
        }
    }
    match latencies.is_empty() {
        true => Err(unknown()),
        false => Ok(Loaded { transactions, seconds, latencies }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       1.759 |****************************************  300
      10.844 |*                                         2

SQL statistics:
    transactions:                        302    (100.31 per sec.)
General statistics:
    total time:                          3.0105s
";

    #[test]
    fn what_sysbench_says_is_understood() {
        let loaded = parsed(SAID).expect("it is what sysbench says");
        assert_eq!((loaded.transactions, loaded.seconds), (302.0, 3.0105));
        assert_eq!(loaded.latencies.len(), 302);
        let p50 = loaded.latencies.value_at_quantile(0.5);
        assert!(p50.abs_diff(1_759_000) < 20_000, "{p50}");
        for other in ["", "FATAL: unable to connect", &SAID[..120]] {
            assert!(parsed(other).is_err(), "{other:?}");
        }
    }
}
