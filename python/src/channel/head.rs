//! How an object's pickle and buffers lie in a message, and in the one buffer of the channel's that may come
//! with it, its block.
//!
//! Words, little-endian: how many buffers there are; of each its length, and a bit for one that lies in the
//! block, at the next multiple of 64. Behind them the others, each in whole words, and the pickle.
//! Where all that is too long for the ring it is in the block, behind the buffers, and the message has one
//! word, which tells where, with its highest bit set.

use std::ops::Range;

use bytepath::channel::{SharedBytes, SharedSpace};
use bytepath::pages::PagesError;

use super::errors::room_for;
use crate::sys::buffer::LentBytes;

const OUT: u64 = 1;
const FAR: u64 = 1 << 63;
const WORD: usize = 8;
/// Where vector registers are loaded at once.
const ALIGN: usize = 64;

/// How much goes through the ring, at the most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    /// Of a message in all, so that the ring holds several.
    pub(crate) head_bytes: usize,
    /// Of a buffer.
    pub(crate) buffer_bytes: usize,
}

/// What goes where.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Of each buffer, where in the block it begins.
    places: Vec<Option<usize>>,
    /// Where in the block the rest is, if it is there.
    far: Option<usize>,
    rest_bytes: usize,
    pub(crate) block_bytes: usize,
}

impl Plan {
    /// What goes into the block, where at most so much goes through the ring.
    pub(crate) fn of(pickle: &LentBytes, buffers: &[LentBytes], most: Most) -> Plan {
        let (mut block_bytes, mut rest_bytes) = (0_usize, (1 + buffers.len()) * WORD);
        let mut places = Vec::with_capacity(buffers.len());
        for len in buffers.iter().map(LentBytes::len) {
            if len > most.buffer_bytes {
                let at = block_bytes.next_multiple_of(ALIGN);
                places.push(Some(at));
                block_bytes = at + len;
            } else {
                places.push(None);
                rest_bytes += len.next_multiple_of(WORD);
            }
        }
        rest_bytes += pickle.len();
        let is_far = rest_bytes > most.head_bytes;
        let far = is_far.then(|| block_bytes.next_multiple_of(ALIGN));
        if let Some(at) = far {
            block_bytes = at + rest_bytes;
        }
        Plan { places, far, rest_bytes, block_bytes }
    }

    /// Fills the block with what goes there.
    pub(crate) fn fill(
        &self,
        pickle: &LentBytes,
        buffers: &[LentBytes],
        mut space: SharedSpace<'_>,
    ) {
        for (buffer, place) in buffers.iter().zip(&self.places) {
            if let Some(at) = place {
                buffer.copy_to(&mut space, *at);
            }
        }
        if let Some(at) = self.far {
            self.write_rest(pickle, buffers, &mut space, at);
        }
    }

    /// What goes into the block, with the rest if it goes there, and where.
    pub(crate) fn parts<'b>(
        &self,
        buffers: &'b [LentBytes],
        rest: &'b [u8],
    ) -> Vec<(usize, SharedBytes<'b>)> {
        let placed = buffers.iter().zip(&self.places);
        let placed = placed.filter_map(|(buffer, place)| Some(((*place)?, buffer.bytes())));
        placed.chain(self.far.map(|at| (at, rest.into()))).collect()
    }

    /// What does not lie in the block by itself: goes there together, or through the ring.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn rest(
        &self,
        pickle: &LentBytes,
        buffers: &[LentBytes],
    ) -> Result<Vec<u8>, PagesError> {
        let mut rest = room_for(self.rest_bytes)?;
        rest.extend(self.words(buffers));
        for (buffer, _) in buffers.iter().zip(&self.places).filter(|(_, place)| place.is_none()) {
            buffer.append_to(&mut rest);
            rest.resize(rest.len().next_multiple_of(WORD), 0);
        }
        pickle.append_to(&mut rest);
        Ok(rest)
    }

    /// Whether the rest lies in the block, too.
    pub(crate) fn is_far(&self) -> bool {
        self.far.is_some()
    }

    /// Bytes of what goes through the ring.
    pub(crate) fn head_bytes(&self) -> usize {
        if self.far.is_some() { WORD } else { self.rest_bytes }
    }

    /// What goes through the ring, to where it lies there.
    pub(crate) fn write_head(
        &self,
        pickle: &LentBytes,
        buffers: &[LentBytes],
        mut space: SharedSpace<'_>,
    ) {
        match self.far {
            Some(at) => space.copy_from(0, &(at as u64 | FAR).to_le_bytes()),
            None => self.write_rest(pickle, buffers, &mut space, 0),
        }
    }

    /// The same as bytes.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(crate) fn head(
        &self,
        pickle: &LentBytes,
        buffers: &[LentBytes],
    ) -> Result<Vec<u8>, PagesError> {
        if let Some(at) = self.far {
            return Ok((at as u64 | FAR).to_le_bytes().to_vec());
        }
        self.rest(pickle, buffers)
    }

    fn write_rest(
        &self,
        pickle: &LentBytes,
        buffers: &[LentBytes],
        space: &mut SharedSpace<'_>,
        mut at: usize,
    ) {
        let words = self.words(buffers);
        space.copy_from(at, &words);
        at += words.len();
        for (buffer, _) in buffers.iter().zip(&self.places).filter(|(_, place)| place.is_none()) {
            buffer.copy_to(space, at);
            at += buffer.len().next_multiple_of(WORD);
        }
        pickle.copy_to(space, at);
    }

    fn words(&self, buffers: &[LentBytes]) -> Vec<u8> {
        let mut words = (buffers.len() as u64).to_le_bytes().to_vec();
        for (buffer, place) in buffers.iter().zip(&self.places) {
            let out = if place.is_some() { OUT } else { 0 };
            words.extend(((buffer.len() as u64) << 1 | out).to_le_bytes());
        }
        words
    }
}

/// Where a part of a message is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// In the head.
    Here(Range<usize>),
    /// In the block.
    Block(Range<usize>),
}

/// The parts of a message that came, and that may be anything.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) pickle: Part,
    pub(crate) buffers: Vec<Part>,
}

impl Parts {
    /// `None` where it makes no sense.
    pub(crate) fn of(head: SharedBytes<'_>, block: Option<SharedBytes<'_>>) -> Option<Parts> {
        let block_bytes = block.map_or(0, |block| block.len());
        let first = word(head, 0)?;
        if first & FAR == 0 {
            return Parts::of_rest(head, Part::Here, block_bytes);
        }
        let at = usize::try_from(first & !FAR).ok().filter(|&at| at <= block_bytes)?;
        let far = |range: Range<usize>| Part::Block(at + range.start..at + range.end);
        Parts::of_rest(block?.range(at..block_bytes), far, block_bytes)
    }

    fn of_rest(
        rest: SharedBytes<'_>,
        part: impl Fn(Range<usize>) -> Part,
        block_bytes: usize,
    ) -> Option<Parts> {
        let count = usize::try_from(word(rest, 0)?).ok()?;
        let mut at = count.checked_add(1)?.checked_mul(WORD).filter(|&end| end <= rest.len())?;
        let mut block_at = 0_usize;
        let mut buffers = Vec::with_capacity(count);
        for index in 0..count {
            let told = word(rest, (1 + index) * WORD)?;
            let len = usize::try_from(told >> 1).ok()?;
            if told & OUT != 0 {
                let from = block_at.next_multiple_of(ALIGN);
                block_at = from.checked_add(len).filter(|&end| end <= block_bytes)?;
                buffers.push(Part::Block(from..block_at));
            } else {
                let end = at.checked_add(len).filter(|&end| end <= rest.len())?;
                buffers.push(part(at..end));
                at = end.next_multiple_of(WORD).min(rest.len());
            }
        }
        Some(Parts { pickle: part(at..rest.len()), buffers })
    }
}

fn word(bytes: SharedBytes<'_>, at: usize) -> Option<u64> {
    let mut word = [0; WORD];
    (at + WORD <= bytes.len()).then(|| bytes.range(at..at + WORD).copy_to(&mut word))?;
    Some(u64::from_le_bytes(word))
}
