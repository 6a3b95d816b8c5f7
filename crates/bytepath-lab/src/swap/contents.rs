//! What the pages hold that do not fit: how well it compresses is what compressed memory lives by.

/// A kind of contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// 32-bit integers that count on from page to page, as in the published experiment.
    Integers,
    /// English words in random order.
    Text,
    /// Nothing that compresses.
    Random,
}

/// Every kind, by its name on the command line.
pub const KINDS: &[(&str, Contents)] =
    &[("integers", Contents::Integers), ("text", Contents::Text), ("random", Contents::Random)];

/// Words as they are frequent in English.
const WORDS: [&str; 64] = [
    "the", "of", "and", "to", "in", "a", "is", "that", "for", "it", "as", "was", "with", "be",
    "by", "on", "not", "he", "his", "but", "at", "are", "this", "have", "from", "or", "had", "an",
    "they", "which", "one", "you", "were", "her", "all", "she", "there", "would", "their", "we",
    "him", "been", "has", "when", "who", "will", "more", "no", "if", "out", "so", "said", "what",
    "up", "its", "about", "into", "than", "them", "can", "only", "other", "new", "some",
];

impl Contents {
    /// Fills a piece with what belongs there, the pieces counted from 0.
    pub fn fill(self, piece: u64, bytes: &mut [u8]) {
        match self {
            Contents::Integers => {
                let first = (piece * (bytes.len() as u64 / 4)) as u32;
                for (place, word) in bytes.chunks_exact_mut(4).enumerate() {
                    word.copy_from_slice(&first.wrapping_add(place as u32).to_le_bytes());
                }
            }
            Contents::Text => {
                let mut random = fastrand::Rng::with_seed(piece);
                let mut place = 0;
                while place < bytes.len() {
                    let word = WORDS[random.usize(..WORDS.len())].as_bytes();
                    let count = word.len().min(bytes.len() - place);
                    bytes[place..place + count].copy_from_slice(&word[..count]);
                    place += count;
                    if let Some(blank) = bytes.get_mut(place) {
                        *blank = b' ';
                    }
                    place += 1;
                }
            }
            Contents::Random => fastrand::Rng::with_seed(piece).fill(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_same_again_and_differ_from_each_other() {
        for (name, contents) in KINDS {
            let piece = |number| {
                let mut bytes = vec![0; 4096];
                contents.fill(number, &mut bytes);
                bytes
            };
            assert_eq!(piece(3), piece(3), "{name}");
            assert_ne!(piece(3), piece(4), "{name}");
        }
        let mut integers = [0; 8];
        Contents::Integers.fill(5, &mut integers);
        assert_eq!(integers, [10, 0, 0, 0, 11, 0, 0, 0]);
    }
}
