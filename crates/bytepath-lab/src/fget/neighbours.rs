//! Threads that open and close descriptors all the time, next to those that are measured.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

/// The name by which their time is told from that of the others.
pub(super) const NAME: &str = "neighbour";

/// See the module; they end when dropped.
pub(super) struct Neighbours {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Neighbours {
    pub(super) fn start(count: usize) -> std::io::Result<Neighbours> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut all = Neighbours { stop: Arc::clone(&stop), threads: Vec::new() };
        for _ in 0..count {
            let stop = Arc::clone(&stop);
            let disturb = move || {
                while !stop.load(Ordering::Relaxed) {
                    // One that cannot be opened any more disturbs less; the others' calls show it.
                    drop(File::open("/dev/null"));
                }
            };
            all.threads.push(Builder::new().name(NAME.into()).spawn(disturb)?);
        }
        Ok(all)
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
