//! Bounds each test in time: one that hangs is reported by name and by the case it hangs in.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A case that takes longer than this hangs. Cases take milliseconds, the largest a few seconds.
const HANGS_AFTER: Duration = Duration::from_secs(40);

/// Told which case a test is at.
#[derive(Clone, Default)]
pub(crate) struct Watch {
    at: Arc<Mutex<At>>,
}

#[derive(Clone, Default, PartialEq)]
struct At {
    cases: usize,
    case: String,
}

impl Watch {
    /// The test goes on to this case.
    pub(crate) fn at(&self, case: impl std::fmt::Display) {
        let mut at = self.at.lock().expect("the watch is not poisoned");
        *at = At { cases: at.cases + 1, case: case.to_string() };
    }

    fn now(&self) -> At {
        self.at.lock().expect("the watch is not poisoned").clone()
    }
}

/// Runs a test's body on a thread of its own, and fails where one of its cases does not end.
pub(crate) fn bounded(body: impl FnOnce(&Watch) + Send + 'static) {
    let watch = Watch::default();
    let (ended, end) = mpsc::channel::<()>();
    let worker = std::thread::spawn({
        let watch = watch.clone();
        move || {
            let _ended = ended;
            body(&watch);
        }
    });
    let mut before = watch.now();
    // The sender is never used: the channel closes when the body ends or panics.
    while end.recv_timeout(HANGS_AFTER) == Err(RecvTimeoutError::Timeout) {
        let now = watch.now();
        assert!(now != before, "hangs at: {}", now.case);
        before = now;
    }
    if let Err(panic) = worker.join() {
        eprintln!("failed at: {}", watch.now().case);
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn a_failing_case_fails_its_test() {
    let failed = std::panic::catch_unwind(|| {
        bounded(|watch| {
            watch.at("a case that fails on purpose");
            panic!("on purpose");
        });
    });
    assert!(failed.is_err());
}
