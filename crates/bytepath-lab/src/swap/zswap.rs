//! zswap switched on for a sample: its parameters are kept, noted, and put back
//! (Documentation/admin-guide/mm/zswap.rst).

use std::fs;
use std::path::{Path, PathBuf};

use crate::kept_settings::{Changed, Setting};

const PARAMETERS: &str = "/sys/module/zswap/parameters";

/// The parameter that switches it on.
const ENABLED: &str = "enabled";

/// What zswap holds, where the kernel was built to tell and debugfs is mounted.
const DEBUG: &str = "/sys/kernel/debug/zswap";

/// zswap, on while this lives.
#[derive(Debug)]
pub(super) struct Zswap {
    _changed: Option<Changed>,
}

pub(super) fn is_there() -> bool {
    Path::new(PARAMETERS).exists()
}

pub(super) fn is_on() -> bool {
    parameter(ENABLED).is_some_and(|value| value == "Y")
}

/// What compresses, and how much memory it may take.
pub(super) fn compressor() -> Option<String> {
    parameter("compressor")
}

/// Whether this is a file that a run may change.
pub(crate) fn changes(path: &Path) -> bool {
    path == file(ENABLED)
}

fn file(name: &str) -> PathBuf {
    Path::new(PARAMETERS).join(name)
}

fn parameter(name: &str) -> Option<String> {
    fs::read_to_string(file(name)).ok().map(|value| value.trim().to_owned())
}

impl Zswap {
    pub(super) fn enabled() -> Result<Zswap, String> {
        if is_on() {
            return Ok(Zswap { _changed: None });
        }
        let before = parameter(ENABLED).ok_or("zswap does not tell whether it is on")?;
        let setting = Setting { file: file(ENABLED), during: "Y".into(), after: before };
        let changed = Changed::make(vec![setting])?;
        match is_on() {
            true => Ok(Zswap { _changed: Some(changed) }),
            false => Err(format!(
                "zswap does not go on: is its compressor ({}) there? See {PARAMETERS}",
                compressor().unwrap_or_default()
            )),
        }
    }

    /// As it was, compressed, in memory; by `/proc/meminfo`, or debugfs where that does not tell.
    pub(super) fn taken_bytes(&self) -> Option<[u64; 3]> {
        let told = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kib = |name: &str| crate::cgroups::numbered(&told.replace(" kB", ""), name);
        let debug = |name: &str| fs::read_to_string(format!("{DEBUG}/{name}")).ok();
        let number = |name: &str| debug(name)?.trim().parse::<u64>().ok();
        let page = rustix::param::page_size() as u64;
        let stored = kib("Zswapped:").map(|kib| kib << 10);
        let stored = stored.or_else(|| Some(number("stored_pages")? * page))?;
        let pool = kib("Zswap:").map(|kib| kib << 10).or_else(|| number("pool_total_size"))?;
        Some([stored, pool, pool])
    }
}
