//! What each mode of tracing costs the work that it looks at: work that does nothing but system calls,
//! and work that does nothing but wake and sleep, traced and not, in turns. Prints the median of the
//! ratios of neighbours.
//!
//! `cargo run --release -p bytepath-explain --example trace-overhead`

use std::error::Error;
use std::process::Command;
use std::time::Instant;

use bytepath_explain::trace::{Mode, Tracing};

const ROUNDS: usize = 9;

/// 400,000 system calls; and 40,000 blocks through a pipe that holds one.
const WORK: [(&str, &str); 2] = [
    ("system calls", "exec dd if=/dev/zero of=/dev/null bs=1 count=200000 status=none"),
    (
        "wake-ups",
        "dd if=/dev/zero bs=64k count=20000 status=none | dd of=/dev/null bs=64k status=none",
    ),
];

fn main() -> Result<(), Box<dyn Error>> {
    for (name, line) in WORK {
        for mode in Mode::ALL {
            let mut ratios = Vec::new();
            for _ in 0..ROUNDS {
                let plain = timed(line)?;
                let mut tracing = Tracing::start(*mode)?;
                tracing.arm()?;
                let traced = timed(line)?;
                tracing.disarm();
                tracing.finish(name)?;
                ratios.push(traced / plain);
            }
            ratios.sort_by(f64::total_cmp);
            let (low, high) = (ratios[1], ratios[ROUNDS - 2]);
            println!(
                "{name:<14} {:<10} {:.2} [{low:.2}, {high:.2}]",
                mode.name(),
                ratios[ROUNDS / 2]
            );
        }
    }
    Ok(())
}

fn timed(line: &str) -> Result<f64, Box<dyn Error>> {
    let began = Instant::now();
    let status = Command::new("sh").args(["-c", line]).status()?;
    match status.success() {
        true => Ok(began.elapsed().as_secs_f64()),
        false => Err(format!("{line}: {status}").into()),
    }
}
