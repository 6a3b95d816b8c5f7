//! How far it is: bytes, the recent rate and at the end that of all, and which outputs are behind.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Instant;

use bytepath::Meter;
use bytepath::fan_out::Lags;
use bytepath_report::numbers;

use super::outputs::Outputs;
use crate::classic::Called;
use crate::live::{EVERY, Lines, Rate, unseen};
use crate::quote::shown;

/// An output that is less behind is at work, like all of them.
const BEHIND_BYTES: u64 = 1 << 20;

/// Does the work, and shows how far it is.
pub(super) fn watched<T>(
    called: &Called,
    outputs: &Outputs<'_>,
    (meter, lags): (&Meter, &Lags),
    work: impl FnOnce() -> T,
) -> T {
    std::thread::scope(|scope| {
        let (done, over) = channel::<()>();
        let mut rate = Rate::since(Instant::now());
        let watch = move || {
            let mut lines = Lines::new();
            loop {
                let ended = over.recv_timeout(EVERY) == Err(RecvTimeoutError::Disconnected);
                let bytes = meter.bytes();
                match ended {
                    true => rate.ended(bytes),
                    false => rate.look(bytes),
                }
                let rate = rate.shown();
                let behind = behind(outputs, lags);
                lines.draw(&format!("{}{rate}{behind}", numbers::bytes(bytes)), ended);
                if ended {
                    return;
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().spawn_scoped(scope, watch) {
            called.say(unseen(&error));
        }
        let came = work();
        drop(done);
        came
    })
}

/// The outputs that are behind, by their names.
fn behind(outputs: &Outputs<'_>, lags: &Lags) -> String {
    let all = (0..outputs.ends().len()).map(|place| (place, lags.bytes(place)));
    let behind = all.filter(|(place, bytes)| outputs.is_output(*place) && *bytes >= BEHIND_BYTES);
    behind.fold(String::new(), |text, (place, bytes)| {
        let name = shown(outputs.name(place));
        format!("{text}; {name} is {} behind", numbers::bytes(bytes))
    })
}
