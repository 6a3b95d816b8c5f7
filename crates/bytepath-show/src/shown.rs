//! How each byte is shown with -v and -T: a table made once.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::Style;
use super::output::Output;

/// The longest way a byte is shown: `M-^X`.
const LONGEST: usize = 4;

/// Bytes looked at between two looks at the room that is left.
const PIECE_BYTES: usize = 4 << 10;

/// Bytes that are looked at together: as wide as vector registers are everywhere.
const BLOCK_BYTES: usize = 16;

/// See the module.
pub(super) struct Shown {
    table: [Form; 256],
    plain: Plain,
}

/// Bytes that are shown as they are, or most of them: such that a whole block can be tested in a few
/// vector instructions. What it leaves out the table knows too.
#[derive(Clone, Copy)]
struct Plain {
    first: u8,
    count: u8,
    also: [u8; 2],
}

impl Plain {
    fn of(style: Style) -> Plain {
        let tab = if style.tabs { b' ' } else { b'\t' };
        let line_end = if style.ends { b' ' } else { b'\n' };
        match style.nonprinting {
            true => Plain { first: b' ', count: 95, also: [tab, line_end] },
            // Everything after the tab and the line end.
            false => Plain { first: b'\n' + 1, count: u8::MAX - b'\n', also: [tab, line_end] },
        }
    }

    /// Whether all of the block is plain. Without an early end, which would cost the vectors.
    #[inline(always)]
    fn all(self, block: &[u8]) -> bool {
        let [one, other] = self.also;
        let is = |byte: u8| {
            (byte.wrapping_sub(self.first) < self.count) | (byte == one) | (byte == other)
        };
        block.iter().fold(true, |all, byte| all & is(*byte))
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
            let blocks = piece.chunks_exact(BLOCK_BYTES);
            let rest = blocks.remainder();
            let mut filled = 0;
            for block in blocks {
                if self.plain.all(block) {
                    room[filled..filled + BLOCK_BYTES].copy_from_slice(block);
                    filled += BLOCK_BYTES;
                } else {
                    filled += self.by_byte(block, &mut room[filled..]);
                }
            }
            filled += self.by_byte(rest, &mut room[filled..]);
            output.filled(filled);
        }
        Ok(())
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
