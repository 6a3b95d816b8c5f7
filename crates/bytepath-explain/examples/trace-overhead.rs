//! What sampling, and each mode of tracing, costs the work that it looks at: work that does nothing but
//! system calls, work that does nothing but wake and sleep, and work that stays in user space, looked at
//! and not, in turns. Prints the median of the ratios of neighbours.
//!
//! `cargo run --release -p bytepath-explain --example trace-overhead [WORK]`, where WORK is a part of the name
//! of a work, and of all where there is none.

use std::error::Error;
use std::process::Command;
use std::time::Instant;

use bytepath_explain::trace::{Mode, Tracing};
use bytepath_explain::{Settings, Stacks, Watch, Whom};

const ROUNDS: usize = 9;

/// 400,000 system calls; 40,000 blocks through a pipe that holds one; and hardly a call.
const WORK: [(&str, &str); 3] = [
    ("system calls", "exec dd if=/dev/zero of=/dev/null bs=1 count=200000 status=none"),
    (
        "wake-ups",
        "dd if=/dev/zero bs=64k count=20000 status=none | dd of=/dev/null bs=64k status=none",
    ),
    ("user space", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"),
];

/// Ways of taking samples, by what distinguishes them on the command line.
fn ways_to_sample() -> [(&'static str, Settings); 3] {
    let usual = Settings::default();
    [
        ("samples", usual.clone()),
        ("--stacks fp", Settings { stacks: Stacks::FramePointers, ..usual.clone() }),
        ("no calls", Settings { syscalls: false, ..usual }),
    ]
}

fn main() -> Result<(), Box<dyn Error>> {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    for (name, line) in WORK.into_iter().filter(|(name, _)| name.contains(&wanted)) {
        for (way, settings) in ways_to_sample() {
            let mut ratios = Vec::new();
            for _ in 0..ROUNDS {
                let plain = timed(line)?;
                let watch = Watch::start(Whom::Started, &[], &settings);
                if let Some(why) = watch.takes_no_samples() {
                    return Err(why.to_owned().into());
                }
                let looked_at = timed(line)?;
                watch.stop();
                ratios.push(looked_at / plain);
            }
            tell(name, way, ratios);
        }
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
            tell(name, mode.name(), ratios);
        }
    }
    Ok(())
}

fn tell(work: &str, way: &str, mut ratios: Vec<f64>) {
    ratios.sort_by(f64::total_cmp);
    let (low, high) = (ratios[1], ratios[ROUNDS - 2]);
    println!("{work:<14} {way:<12} {:.2} [{low:.2}, {high:.2}]", ratios[ROUNDS / 2]);
}

fn timed(line: &str) -> Result<f64, Box<dyn Error>> {
    let began = Instant::now();
    let status = Command::new("sh").args(["-c", line]).status()?;
    match status.success() {
        true => Ok(began.elapsed().as_secs_f64()),
        false => Err(format!("{line}: {status}").into()),
    }
}
