//! What messages hold: each word its number plus its place, so that every one of them is written by
//! the sender, and a lost, doubled, swapped or half-written one shows in the sum that the receiver
//! takes of all words.

use std::mem::MaybeUninit;

/// Bytes of a word.
pub(crate) const WORD_BYTES: usize = 8;

/// The numbers of messages that say something besides: the clock starts, and nothing more comes.
pub(crate) const MARK: u64 = u64::MAX - (1 << 40);
pub(crate) const END: u64 = u64::MAX - (1 << 41);

/// Fills a message with the words of this number. One loop for all media, as `sum` is, or what is compared
/// would be where the compiler happens to put each one's loop: that alone makes a tenth.
#[inline(never)]
pub(crate) fn fill(words: &mut [MaybeUninit<u64>], number: u64) {
    for (place, to) in words.iter_mut().enumerate() {
        to.write(word(number, place));
    }
}

/// The word at this place of the message of this number.
#[inline(always)]
pub(crate) fn word(number: u64, place: usize) -> u64 {
    number.wrapping_add(place as u64)
}

/// The sum of a message's words.
#[inline(never)]
pub(crate) fn sum(words: &[u64]) -> u64 {
    words.iter().fold(0, |sum, word| sum.wrapping_add(*word))
}

/// The sum that a message of this number has.
#[inline(always)]
pub(crate) fn expected(number: u64, words: usize) -> u64 {
    let words = words as u64;
    number.wrapping_mul(words).wrapping_add(words * words.saturating_sub(1) / 2)
}
