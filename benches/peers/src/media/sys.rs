//! A channel's bytes as slices of words, as iceoryx2 gives them out, for it trusts the other end;
//! here both ends are this program.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use bytepath::channel::{SharedBytes, SharedSpace};
use iceoryx2::prelude::ipc;
use iceoryx2::sample_mut::SampleMut;
use iceoryx2::sample_mut_uninit::SampleMutUninit;

/// A message's bytes, which begin at a whole word.
pub(super) fn words<'m>(bytes: &SharedBytes<'m>) -> &'m [u64] {
    // SAFETY: the sender writes nothing that it has committed and that was not released.
    let slice = unsafe { bytes.as_slice() };
    // SAFETY: any bytes are words.
    let (before, words, behind) = unsafe { slice.align_to() };
    assert!(before.is_empty() && behind.is_empty(), "messages are whole words");
    words
}

/// The space of a message.
pub(super) fn words_mut<'m>(space: &'m mut SharedSpace<'_>) -> &'m mut [MaybeUninit<u64>] {
    // SAFETY: the receiver keeps away from what was not committed.
    let slice = unsafe { space.as_mut_slice() };
    // SAFETY: any bytes are words, and nothing but whole words is written to them.
    let (before, words, behind) = unsafe { slice.align_to_mut() };
    assert!(before.is_empty() && behind.is_empty(), "messages are whole words");
    words
}

/// A sample of iceoryx2 whose words were all written.
pub(super) fn filled(
    sample: SampleMutUninit<ipc::Service, [MaybeUninit<u64>], ()>,
) -> SampleMut<ipc::Service, [u64], ()> {
    // SAFETY: `fill` writes every word.
    unsafe { sample.assume_init() }
}
