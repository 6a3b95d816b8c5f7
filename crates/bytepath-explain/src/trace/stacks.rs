//! Stacks that programs took: addresses by number, and what functions they are in.

use rustix::io::Errno;

use crate::sys::bpf::{Map, MapKind};

/// Different stacks of one run.
pub(super) const STACKS_MAX: u32 = 16_384;
/// How deep: what the kernel takes unless told otherwise (kernel.perf_event_max_stack).
const FRAMES_MAX: usize = 127;

pub(super) fn map() -> Result<Map, Errno> {
    Map::new(MapKind::StackTrace, "bp_stacks", 4, FRAMES_MAX * 8, STACKS_MAX)
}

/// The return addresses of a stack, innermost first; none where it was not kept.
pub(super) fn addresses(stacks: &Map, number: i32) -> Vec<u64> {
    let Ok(key) = u32::try_from(number) else { return Vec::new() };
    let Ok(Some(stack)) = stacks.get(&key.to_ne_bytes()) else { return Vec::new() };
    let words = stack.chunks_exact(8);
    words.map(|word| super::tasks::wide(word, 0)).take_while(|address| *address != 0).collect()
}
