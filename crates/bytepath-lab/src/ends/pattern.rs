//! A pattern whose every 8 bytes tell where they belong, and its verifier.
//!
//! Word i of the stream is a hash of i. An outlet that only repeats sends the pattern's first
//! bytes again and again; the verifier sees it start over and holds the stream to that period
//! from there on. So a byte that is lost, doubled, swapped or changed shows, except that whole
//! periods may be lost or doubled unseen where the stream repeats; the count of bytes shows that.

/// Fills buffers with the pattern.
#[derive(Debug, Clone, Copy)]
pub struct Pattern;

/// Bytes of a word.
const WORD: usize = 8;

impl Pattern {
    /// Writes the pattern as it stands at `offset` of the stream.
    pub fn fill(offset: u64, into: &mut [u8]) {
        let mut index = offset / WORD as u64;
        let skip = (offset % WORD as u64) as usize;
        let (head, rest) =
            into.split_at_mut(if skip == 0 { 0 } else { into.len().min(WORD - skip) });
        if skip > 0 {
            head.copy_from_slice(&word(index)[skip..skip + head.len()]);
            index += 1;
        }
        for piece in rest.chunks_mut(WORD) {
            piece.copy_from_slice(&word(index)[..piece.len()]);
            index += 1;
        }
    }
}

/// The bytes of word `index`: the finalizer of Steele, Lea and Flood's SplitMix64 (2014), which no
/// two indices share.
fn word(index: u64) -> [u8; WORD] {
    let mut hash = index.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (hash ^ (hash >> 31)).to_le_bytes()
}

/// A stream that is not the pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the bytes differ from the pattern at byte {offset}: {found:02x?} where {expected:02x?} \
     belongs; is the writer one with --verify?"
)]
pub struct PatternError {
    /// Where the first wrong byte is in the stream.
    pub offset: u64,
    /// What is there, to the end of the word.
    pub found: Vec<u8>,
    /// What should be there.
    pub expected: Vec<u8>,
}

/// Checks a stream against the pattern, piece by piece.
#[derive(Debug, Default)]
pub struct Verifier {
    offset: u64,
    period: Option<u64>,
    /// The bytes of a word that a piece ended within.
    begun: [u8; WORD],
}

impl Verifier {
    /// At the start of a stream.
    pub fn new() -> Self {
        Verifier::default()
    }

    /// After how many bytes the stream repeated itself; 0 for not so far.
    pub fn period(&self) -> u64 {
        self.period.unwrap_or(0)
    }

    /// Checks the next piece.
    ///
    /// # Errors
    /// Where and how it differs.
    pub fn check(&mut self, piece: &[u8]) -> Result<(), PatternError> {
        let mut rest = piece;
        while !rest.is_empty() {
            let begun = (self.offset % WORD as u64) as usize;
            let count = rest.len().min(WORD - begun);
            self.begun[begun..begun + count].copy_from_slice(&rest[..count]);
            self.offset += count as u64;
            rest = &rest[count..];
            if begun + count == WORD {
                self.check_word()?;
            }
        }
        Ok(())
    }

    /// Ends the stream: checks the bytes of a last word that is not whole.
    ///
    /// # Errors
    /// Where and how it differs.
    pub fn finish(&mut self) -> Result<(), PatternError> {
        let begun = (self.offset % WORD as u64) as usize;
        let at = self.offset - begun as u64;
        let (found, expected) = (&self.begun[..begun], &self.expected(at)[..begun]);
        if found == expected { Ok(()) } else { Err(differs(at, found, expected)) }
    }

    fn expected(&self, at: u64) -> [u8; WORD] {
        word(self.period.map_or(at, |period| at % period) / WORD as u64)
    }

    fn check_word(&mut self) -> Result<(), PatternError> {
        let at = self.offset - WORD as u64;
        if self.begun == self.expected(at) {
            return Ok(());
        }
        if self.period.is_none() && at > 0 && self.begun == word(0) {
            self.period = Some(at);
            return Ok(());
        }
        Err(differs(at, &self.begun, &self.expected(at)))
    }
}

/// How a word at `at` of the stream differs from what belongs there.
fn differs(at: u64, found: &[u8], expected: &[u8]) -> PatternError {
    let same = found.iter().zip(expected).take_while(|(found, expected)| found == expected).count();
    let (found, expected) = (found[same..].into(), expected[same..].into());
    PatternError { offset: at + same as u64, found, expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        Pattern::fill(offset, &mut bytes);
        bytes
    }

    #[test]
    fn the_pattern_is_the_same_however_it_is_cut() {
        let whole = pattern(0, 100);
        for cut in 0..100 {
            assert_eq!(pattern(cut as u64, 100 - cut), whole[cut..], "cut at {cut}");
            let mut verifier = Verifier::new();
            verifier
                .check(&whole[..cut])
                .and_then(|()| verifier.check(&whole[cut..]))
                .expect("same");
            verifier.finish().expect("same");
        }
    }

    #[test]
    fn a_changed_lost_or_doubled_byte_is_found_where_it_is() {
        let whole = pattern(0, 4096);
        let mut changed = whole.clone();
        changed[1001] ^= 1;
        assert_eq!(Verifier::new().check(&changed).unwrap_err().offset, 1001);
        let mut lost = whole.clone();
        lost.remove(2000);
        assert_eq!(Verifier::new().check(&lost).unwrap_err().offset, 2000);
        let mut doubled = whole;
        doubled.insert(3000, 7);
        assert_eq!(Verifier::new().check(&doubled).unwrap_err().offset, 3000);
    }

    #[test]
    fn a_repeated_pattern_is_held_to_its_period() {
        let mut stream = [pattern(0, 512), pattern(0, 512), pattern(0, 512)].concat();
        let mut verifier = Verifier::new();
        verifier.check(&stream).expect("periodic");
        assert_eq!(verifier.period(), 512);
        stream.drain(1100..1164);
        assert!(Verifier::new().check(&stream).is_err());
    }

    #[test]
    fn a_wrong_last_part_of_a_word_is_found() {
        let whole = pattern(0, 13);
        let mut bytes = whole.clone();
        bytes[12] ^= 0xff;
        let mut verifier = Verifier::new();
        verifier.check(&bytes).expect("the whole words are right");
        let error = verifier.finish().unwrap_err();
        assert_eq!(
            (error.offset, error.found, error.expected),
            (12, vec![bytes[12]], vec![whole[12]])
        );
    }
}
