//! Imagined machines: each makes the noise of one slot after the other, as factors of a value.

use std::f64::consts::TAU;

use bytepath_stats::schedule::{Lineup, Schedule, Turn};
use fastrand::Rng;

/// A way in which a machine disturbs measurements.
pub(crate) struct Machine {
    pub(crate) name: &'static str,
    /// The logarithm of the factor that disturbs a turn.
    pub(crate) log_noise: fn(&mut State, Turn) -> f64,
}

/// What a machine remembers from turn to turn.
pub(crate) struct State {
    pub(crate) random: Rng,
    level: f64,
    slow_mode: bool,
    block: Option<u32>,
}

impl State {
    pub(crate) fn new(seed: u64) -> State {
        let mut random = Rng::with_seed(seed);
        let slow_mode = random.bool();
        State { random, level: 0.0, slow_mode, block: None }
    }

    pub(crate) fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.random.f64(), self.random.f64());
        (-2.0 * u.ln()).sqrt() * (TAU * v).cos()
    }

    pub(crate) fn happens(&mut self, share: f64) -> bool {
        self.random.f64() < share
    }
}

/// How many blocks a turn is away from the start, with parts.
fn elapsed_blocks(turn: Turn) -> f64 {
    f64::from(turn.block) + f64::from(turn.order) / 3.0
}

pub(crate) const MACHINES: &[Machine] = &[
    Machine { name: "lognormal, 5%", log_noise: |state, _| 0.05 * state.normal() },
    Machine {
        name: "exponential, 5%",
        log_noise: |state, _| -0.05 * (1.0 - state.random.f64()).ln(),
    },
    Machine { name: "5% of samples 3x slower", log_noise: heavy_tail },
    Machine {
        name: "drift of 3% a block",
        log_noise: |state, turn| 0.03 * elapsed_blocks(turn) + 0.01 * state.normal(),
    },
    Machine {
        name: "the same, hardly any noise",
        log_noise: |state, turn| 0.03 * elapsed_blocks(turn) + 0.0005 * state.normal(),
    },
    Machine { name: "blocks alike", log_noise: alike_within_blocks },
    Machine { name: "neighbours alike", log_noise: alike_neighbours },
    Machine { name: "two modes", log_noise: |state, _| two_modes(state, 0.02) },
    Machine { name: "two modes, hardly any noise", log_noise: |state, _| two_modes(state, 0.002) },
    Machine { name: "two modes that last", log_noise: lasting_modes },
    Machine {
        name: "first place 10% slower",
        log_noise: |state, turn| 0.1 * f64::from(turn.order == 0) + 0.005 * state.normal(),
    },
    Machine {
        name: "each place 5% slower",
        log_noise: |state, turn| 0.05 * f64::from(turn.order) + 0.005 * state.normal(),
    },
];

fn heavy_tail(state: &mut State, _: Turn) -> f64 {
    let slow = 3.0_f64.ln() * f64::from(state.happens(0.05));
    slow + 0.03 * state.normal()
}

fn alike_within_blocks(state: &mut State, turn: Turn) -> f64 {
    if state.block != Some(turn.block) {
        state.block = Some(turn.block);
        state.level = 0.8 * state.level + 0.06 * state.normal();
    }
    state.level + 0.03 * state.normal()
}

fn alike_neighbours(state: &mut State, _: Turn) -> f64 {
    state.level = 0.9 * state.level + 0.02 * state.normal();
    state.level
}

fn two_modes(state: &mut State, deviation: f64) -> f64 {
    let slow = 0.3 * f64::from(state.happens(0.5));
    slow + deviation * state.normal()
}

fn lasting_modes(state: &mut State, _: Turn) -> f64 {
    if state.happens(0.1) {
        state.slow_mode = !state.slow_mode;
    }
    0.3 * f64::from(state.slow_mode) + 0.01 * state.normal()
}

/// The samples of a run: the reference arm, another arm whose true ratio to it is `effect`, and the
/// control, each in the order of the blocks.
pub(crate) fn run(machine: &Machine, blocks: u32, effect: f64, seed: u64) -> [Vec<f64>; 3] {
    let mut state = State::new(seed);
    let mut samples = [Vec::new(), Vec::new(), Vec::new()];
    for turn in Schedule::new(Lineup::new(2, 0), blocks, state.random.u64(..)) {
        let truth = if turn.arm == 1 { effect } else { 1.0 };
        samples[turn.arm].push(truth * (machine.log_noise)(&mut state, turn).exp());
    }
    samples
}
