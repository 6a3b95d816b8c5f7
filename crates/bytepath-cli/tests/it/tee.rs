//! `tee` beside GNU's: the same bytes in every output, messages and exit codes.

mod arguments;
mod faults;
mod ours;
mod outputs;

use std::path::Path;
use std::sync::LazyLock;

use crate::classic::Classic;

/// GNU's, to compare with.
fn gnu() -> Option<Classic> {
    Classic::of("tee", "GNU coreutils")
}

/// More than any buffer or pipe, and different everywhere.
fn large() -> Vec<u8> {
    static LARGE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut random = fastrand::Rng::with_seed(17);
        std::iter::repeat_with(|| random.u8(..)).take((3 << 20) + 4321).collect()
    });
    LARGE.clone()
}

/// A few files: `a`, `b`, and `large`.
fn few(folder: &Path) {
    for (name, bytes) in [("a", b"one\n".to_vec()), ("b", b"two".to_vec()), ("large", large())] {
        std::fs::write(folder.join(name), bytes).expect("a file");
    }
}
