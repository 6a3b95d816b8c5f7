//! What a sample used beside its own process: pages that went in and out, CPU of the kernel's
//! threads.

use std::fs;
use std::time::Duration;

use crate::cgroups::numbered;
use crate::noise::kernel_threads;

/// Counters of the machine at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counters {
    pages_in: u64,
    pages_out: u64,
    zswap_in: u64,
    zswap_out: u64,
    /// CPU time of the kernel's own threads.
    kernel: Duration,
}

impl Counters {
    pub(super) fn take() -> Counters {
        let told = fs::read_to_string("/proc/vmstat").unwrap_or_default();
        let of = |name: &str| numbered(&told, name).unwrap_or(0);
        Counters {
            pages_in: of("pswpin "),
            pages_out: of("pswpout "),
            zswap_in: of("zswpin "),
            zswap_out: of("zswpout "),
            kernel: kernel_threads::cpu_time(),
        }
    }

    /// MiB that went in since then, by swap and by zswap.
    pub(super) fn mib_in_since(&self, before: &Counters) -> f64 {
        mib(self.pages_in + self.zswap_in, before.pages_in + before.zswap_in)
    }

    /// MiB that went out.
    pub(super) fn mib_out_since(&self, before: &Counters) -> f64 {
        mib(self.pages_out + self.zswap_out, before.pages_out + before.zswap_out)
    }

    pub(super) fn kernel_s_since(&self, before: &Counters) -> f64 {
        self.kernel.saturating_sub(before.kernel).as_secs_f64()
    }
}

fn mib(after: u64, before: u64) -> f64 {
    after.saturating_sub(before) as f64 * rustix::param::page_size() as f64 / f64::from(1 << 20)
}
