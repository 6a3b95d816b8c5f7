//! What a message of Python's says beside its buffers: how long each of them is, small ones themselves,
//! and the pickle.
//!
//! Little-endian words: how many buffers, with a bit above for a pickle that is a buffer of the message
//! itself, because it is too long; then, for each of them, its length and a bit for one that is a buffer of
//! the message. Behind them the small ones, each in whole words, and the pickle.

use bytepath::channel::SharedBytes;

/// Buffers that are shorter go with the head: copying them costs less than keeping account of them.
pub(crate) const INLINE_MAX: usize = 16 << 10;
/// Likewise for the pickle, which is read but once.
pub(crate) const PICKLE_INLINE_MAX: usize = 64 << 10;

const OUT: u64 = 1;
const WORD: usize = 8;

/// The beginning of a head.
pub(crate) fn words(pickle_out: bool, buffers: impl Iterator<Item = (usize, bool)>) -> Vec<u8> {
    let mut words = vec![0; WORD];
    let mut count = 0;
    for (len, out) in buffers {
        words.extend(((len as u64) << 1 | u64::from(out)).to_le_bytes());
        count += 1;
    }
    words[..WORD].copy_from_slice(&((count << 1) | u64::from(pickle_out)).to_le_bytes());
    words
}

/// Fills the last word.
pub(crate) fn pad(head: &mut Vec<u8>) {
    head.resize(head.len().next_multiple_of(WORD), 0);
}

/// A head that came, and that may be anything.
#[derive(Debug)]
pub(crate) struct Head<'m> {
    pub(crate) pickle: Option<SharedBytes<'m>>,
    /// The bytes of the small ones; `None` for those that are buffers of the message.
    pub(crate) buffers: Vec<Option<SharedBytes<'m>>>,
}

impl<'m> Head<'m> {
    /// `None` where it makes no sense.
    pub(crate) fn understood(bytes: SharedBytes<'m>) -> Option<Head<'m>> {
        let word = |at: usize| {
            let mut word = [0; WORD];
            (at + WORD <= bytes.len()).then(|| bytes.range(at..at + WORD).copy_to(&mut word))?;
            Some(u64::from_le_bytes(word))
        };
        let first = word(0)?;
        let count = usize::try_from(first >> 1).ok()?;
        let mut at = count.checked_add(1)?.checked_mul(WORD).filter(|&end| end <= bytes.len())?;
        let mut buffers = Vec::with_capacity(count);
        for index in 0..count {
            let told = word((1 + index) * WORD)?;
            if told & OUT != 0 {
                buffers.push(None);
                continue;
            }
            let len = usize::try_from(told >> 1).ok()?;
            let end = at.checked_add(len).filter(|&end| end <= bytes.len())?;
            buffers.push(Some(bytes.range(at..end)));
            at = end.next_multiple_of(WORD).min(bytes.len());
        }
        let pickle = (first & OUT == 0).then(|| bytes.range(at..bytes.len()));
        Some(Head { pickle, buffers })
    }
}
