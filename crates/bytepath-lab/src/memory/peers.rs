//! Classics that measure memory, with the block sizes that are asked for: sysbench and mbw.

use std::process::Command;

use crate::peers::found;

/// A program that measures memory.
#[derive(Debug)]
pub struct MemoryPeer {
    /// Its name on the command line of bytepath.
    pub name: &'static str,
    /// What it does with memory, for the names of arms.
    pub does: &'static str,
    /// The smallest block that it takes.
    pub bytes_min: usize,
    program: &'static str,
    words: fn(usize, u64) -> Vec<String>,
    mib_per_second: fn(&str) -> Option<f64>,
}

/// Every way of every peer.
pub const MEMORY_PEERS: &[MemoryPeer] = &[
    MemoryPeer {
        name: "sysbench",
        does: "read",
        bytes_min: 4096,
        program: "sysbench",
        words: |bytes, total| sysbench("read", bytes, total),
        mib_per_second: sysbench_rate,
    },
    MemoryPeer {
        name: "sysbench",
        does: "write",
        bytes_min: 4096,
        program: "sysbench",
        words: |bytes, total| sysbench("write", bytes, total),
        mib_per_second: sysbench_rate,
    },
    MemoryPeer {
        name: "mbw",
        does: "memcpy",
        bytes_min: 1 << 20,
        program: "mbw",
        words: |bytes, total| mbw("0", bytes, total),
        mib_per_second: mbw_rate,
    },
    MemoryPeer {
        name: "mbw",
        does: "dumb",
        bytes_min: 1 << 20,
        program: "mbw",
        words: |bytes, total| mbw("1", bytes, total),
        mib_per_second: mbw_rate,
    },
    MemoryPeer {
        name: "mbw",
        does: "mcblock",
        bytes_min: 1 << 20,
        program: "mbw",
        words: |bytes, total| mbw("2", bytes, total),
        mib_per_second: mbw_rate,
    },
];

/// The names of the peers, each once.
pub const NAMES: &[&str] = &["sysbench", "mbw"];

fn sysbench(operation: &str, bytes: usize, total: u64) -> Vec<String> {
    let words = [
        "memory".to_owned(),
        format!("--memory-block-size={bytes}"),
        format!("--memory-total-size={total}"),
        format!("--memory-oper={operation}"),
        "--memory-access-mode=seq".to_owned(),
        // A total size ends it; the time is there for a machine that is very slow.
        "--time=60".to_owned(),
        "run".to_owned(),
    ];
    words.into()
}

/// `15921.32 MiB transferred (15921.32 MiB/sec)`.
fn sysbench_rate(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.contains("MiB/sec"))?;
    line.split_once('(')?.1.split_whitespace().next()?.parse().ok()
}

fn mbw(kind: &str, bytes: usize, total: u64) -> Vec<String> {
    let rounds = (total / bytes as u64).clamp(1, 10_000);
    let words = ["-q", "-n", &rounds.to_string(), "-t", kind, &(bytes >> 20).to_string()];
    words.map(str::to_owned).into()
}

/// `AVG\tMethod: MEMCPY\tElapsed: 0.17\tMiB: 1024.0\tCopy: 5829.1 MiB/s`.
fn mbw_rate(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.starts_with("AVG"))?;
    line.split_once("Copy:")?.1.split_whitespace().next()?.parse().ok()
}

impl MemoryPeer {
    /// The command that measures blocks of so many bytes, about so much in all.
    ///
    /// # Errors
    /// It is not installed, or takes no blocks so small.
    pub fn command(&self, bytes: usize, total: u64) -> Result<Command, String> {
        if bytes < self.bytes_min || !bytes.is_multiple_of(self.bytes_min) {
            return Err(format!(
                "{} takes blocks of whole {} only",
                self.name,
                shown(self.bytes_min)
            ));
        }
        let program = found(self.program).ok_or_else(|| {
            format!("{0} is not installed; on Debian: apt-get install {0}", self.program)
        })?;
        let mut command = Command::new(program);
        command.args((self.words)(bytes, total.max(bytes as u64)));
        Ok(command)
    }

    /// What it said, in GiB/s.
    ///
    /// # Errors
    /// It said something else.
    pub fn gib_per_second(&self, said: &str) -> Result<f64, String> {
        let rate = (self.mib_per_second)(said).filter(|rate| *rate > 0.0);
        rate.map(|rate| rate / 1024.0).ok_or_else(|| {
            let last = said.trim().lines().next_back().unwrap_or("nothing");
            format!("{} did not say how fast it was; the last that it said: {last}", self.name)
        })
    }
}

fn shown(bytes: usize) -> String {
    bytepath_report::numbers::bytes(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_peers_print_is_read() {
        let said =
            "Total operations: 10\n\n10240.00 MiB transferred (13284.56 MiB/sec)\n\nGeneral\n";
        assert_eq!(sysbench_rate(said), Some(13284.56));
        let said = "AVG\tMethod: MEMCPY\tElapsed: 0.17\tMiB: 1024.00000\tCopy: 5836.800 MiB/s\n";
        assert_eq!(mbw_rate(said), Some(5836.8));
        for peer in MEMORY_PEERS {
            assert!(peer.gib_per_second("nonsense").is_err());
            assert!(peer.gib_per_second("AVG Copy: 0 MiB/s (0 MiB/sec)").is_err());
        }
    }
}
