//! A channel's bytes as slices of words. iceoryx2 gives them out so, for it trusts the other end;
//! here both ends are this program.
#![allow(unsafe_code)]

use bytepath::channel::{SharedBytes, SharedSpace};

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
pub(super) fn words_mut<'m>(space: &'m mut SharedSpace<'_>) -> &'m mut [u64] {
    // SAFETY: the receiver keeps away from what was not committed.
    let slice = unsafe { space.as_mut_slice() };
    // SAFETY: any bytes are words.
    let (before, words, behind) = unsafe { slice.align_to_mut() };
    assert!(before.is_empty() && behind.is_empty(), "messages are whole words");
    words
}
