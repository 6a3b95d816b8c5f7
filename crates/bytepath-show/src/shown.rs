//! How each byte is shown with -v and -T: a table made once.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::Style;
use super::output::Output;

/// The longest way a byte is shown: `M-^X`.
const LONGEST: usize = 4;

/// Bytes looked at between two looks at the room that is left.
const PIECE_BYTES: usize = 4 << 10;

/// Words that are looked at together.
const BLOCK_WORDS: usize = 8;

const BLOCK_BYTES: usize = BLOCK_WORDS * WORD_BYTES;

/// The same byte in all of a word.
const EACH: u64 = 0x0101_0101_0101_0101;

/// The highest bit of each byte.
const TOPS: u64 = 0x80 * EACH;

/// Bytes of a block that are turned in a register.
const WORD_BYTES: usize = 8;

/// From so many bytes of a block on that are not plain, each is looked up: a search for them would cost more.
const MANY: u64 = 28;

/// See the module.
pub(super) struct Shown {
    table: [Form; 256],
    plain: Plain,
}

/// Bytes that are shown as they are, or most of them: such that a word can be tested in a few instructions.
/// What it leaves out the table knows too. By words, as loops are not made vectors where the program as a
/// whole is made small.
#[derive(Clone, Copy)]
struct Plain {
    /// What, added to each byte below 128, sets its top bit from the first plain byte on.
    to_first: u64,
    /// [`TOPS`] where bytes from 127 on are not plain, or nothing.
    high: u64,
    also: [u64; 2],
}

impl Plain {
    fn of(style: Style) -> Plain {
        let tab = if style.tabs { b' ' } else { b'\t' };
        let line_end = if style.ends { b' ' } else { b'\n' };
        // Everything after the tab and the line end, unless more is shown.
        let first = if style.nonprinting { b' ' } else { b'\n' + 1 };
        Plain {
            to_first: u64::from(128 - first) * EACH,
            high: if style.nonprinting { TOPS } else { 0 },
            also: [tab, line_end].map(|byte| u64::from(byte) * EACH),
        }
    }

    /// 1 for each byte that is not plain, 0 for the others. No byte's sum is carried into the next.
    #[inline(always)]
    fn others(self, word: u64) -> u64 {
        let low = word & !TOPS;
        let below_first = !(low + self.to_first) & !word;
        let high = (word | (low + EACH)) & self.high;
        let [one, other] = self.also.map(|same| {
            let differing = word ^ same;
            ((differing & !TOPS) + !TOPS) | differing
        });
        ((below_first | high) & one & other & TOPS) >> 7
    }
}

#[derive(Clone, Copy)]
struct Form {
    characters: [u8; LONGEST],
    length: u8,
}

impl Form {
    fn of(characters: &[u8]) -> Form {
        let mut form = Form { characters: [0; LONGEST], length: 0 };
        form.characters[..characters.len()].copy_from_slice(characters);
        form.length = characters.len() as u8;
        form
    }
}

impl Shown {
    pub(super) fn new(style: Style) -> Shown {
        let form = |byte: usize| form(byte as u8, style);
        Shown { table: std::array::from_fn(form), plain: Plain::of(style) }
    }

    /// Writes the text as it is shown.
    pub(super) fn put(
        &self,
        text: &[u8],
        output: &mut Output,
        stdout: BorrowedFd<'_>,
    ) -> Result<(), Errno> {
        for piece in text.chunks(PIECE_BYTES) {
            let room = output.room(piece.len() * LONGEST, stdout)?;
            let (blocks, rest) = piece.as_chunks::<BLOCK_BYTES>();
            let mut filled = 0;
            for block in blocks {
                let (words, _) = block.as_chunks::<WORD_BYTES>();
                let others: [u64; BLOCK_WORDS] =
                    std::array::from_fn(|at| self.plain.others(u64::from_le_bytes(words[at])));
                // The sum of all bytes of the sum, in its highest.
                let count = others.iter().sum::<u64>().wrapping_mul(EACH) >> 56;
                match count {
                    0 => {
                        room[filled..filled + BLOCK_BYTES].copy_from_slice(block);
                        filled += BLOCK_BYTES;
                    }
                    MANY.. => filled += self.by_byte(block, &mut room[filled..]),
                    _ => filled += self.by_word(block, &others, &mut room[filled..]),
                }
            }
            filled += self.by_byte(rest, &mut room[filled..]);
            output.filled(filled);
        }
        Ok(())
    }

    /// As [`Shown::by_byte`], but only the others are looked up: fewer than [`MANY`], so that the room is
    /// also enough for whole words that are stored behind them.
    #[inline(always)]
    fn by_word(
        &self,
        block: &[u8; BLOCK_BYTES],
        others: &[u64; BLOCK_WORDS],
        room: &mut [u8],
    ) -> usize {
        let (words, _) = block.as_chunks::<WORD_BYTES>();
        let mut filled = 0;
        for (word, marks) in words.iter().zip(others) {
            let mut word = u64::from_le_bytes(*word);
            let mut marks = *marks;
            let mut left = WORD_BYTES;
            // A whole word, whatever is left of it: what does not count is overwritten.
            room[filled..filled + WORD_BYTES].copy_from_slice(&word.to_le_bytes());
            while marks != 0 {
                let plain = marks.trailing_zeros() / 8;
                word >>= plain * 8;
                let form = &self.table[usize::from(word as u8)];
                filled += plain as usize;
                room[filled..filled + LONGEST].copy_from_slice(&form.characters);
                filled += usize::from(form.length);
                word >>= 8;
                marks = marks >> (plain * 8) >> 8;
                left -= plain as usize + 1;
                room[filled..filled + WORD_BYTES].copy_from_slice(&word.to_le_bytes());
            }
            filled += left;
        }
        filled
    }

    /// How many bytes of the room it took, which has to be [`LONGEST`] for each.
    #[inline(always)]
    fn by_byte(&self, bytes: &[u8], room: &mut [u8]) -> usize {
        let mut filled = 0;
        for byte in bytes {
            let form = &self.table[usize::from(*byte)];
            // All four, though fewer may count: one store is cheaper than a choice.
            room[filled..filled + LONGEST].copy_from_slice(&form.characters);
            filled += usize::from(form.length);
        }
        filled
    }
}

fn form(byte: u8, style: Style) -> Form {
    match (byte, style.nonprinting) {
        (b'\n', _) if style.ends => Form::of(b"$\n"),
        (b'\n', _) => Form::of(b"\n"),
        (b'\t', _) if style.tabs => Form::of(b"^I"),
        (b'\t', _) | (_, false) | (b' '..=b'~', true) => Form::of(&[byte]),
        (0..=31 | 127, true) => Form::of(&[b'^', byte ^ 64]),
        (128.., true) => match byte - 128 {
            low @ b' '..=b'~' => Form::of(&[b'M', b'-', low]),
            low => Form::of(&[b'M', b'-', b'^', low ^ 64]),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};
    use std::os::fd::AsFd;

    use super::*;

    /// Numbers that look random, the same ones each time (an xorshift).
    fn numbers() -> impl FnMut() -> usize {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 16) as usize
        }
    }

    #[test]
    fn each_byte_is_shown_as_the_table_says_wherever_and_among_whatever_it_stands() {
        let mut number = numbers();
        for of in 0..8 {
            let [ends, tabs, nonprinting] = [1, 2, 4].map(|bit| of & bit != 0);
            let style = Style { ends, tabs, nonprinting, ..Style::default() };
            let shown = Shown::new(style);
            let mut file = tempfile();
            let mut output = Output::new();
            let mut expected = Vec::new();
            // From nothing but letters to nothing but bytes of all kinds.
            for kinds in [0, 1, 5, 20, 100] {
                for length in [0, 1, 7, 8, 63, 64, 65, 1000, PIECE_BYTES, 2 * PIECE_BYTES + 77] {
                    let text: Vec<u8> = (0..length)
                        .map(|_| match number() % 100 < kinds {
                            true => number() as u8,
                            false => b'a' + (number() % 26) as u8,
                        })
                        .collect();
                    shown.put(&text, &mut output, file.as_fd()).unwrap();
                    for byte in text {
                        let form = form(byte, style);
                        expected.extend(&form.characters[..usize::from(form.length)]);
                    }
                }
            }
            output.flush(file.as_fd()).unwrap();
            file.rewind().unwrap();
            let mut seen = Vec::new();
            file.read_to_end(&mut seen).unwrap();
            assert!(seen == expected, "{style:?}");
        }
    }

    fn tempfile() -> std::fs::File {
        let file = rustix::fs::memfd_create("shown", rustix::fs::MemfdFlags::CLOEXEC);
        file.unwrap().into()
    }
}
