//! How each byte is shown with -v and -T: a table made once.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::Style;
use super::output::Output;

/// The longest way a byte is shown: `M-^X`.
const LONGEST: usize = 4;

/// Bytes looked at between two looks at the room that is left.
const PIECE_BYTES: usize = 4 << 10;

/// See the module.
pub(super) struct Shown {
    table: [Form; 256],
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
        Shown { table: std::array::from_fn(form) }
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
            let mut filled = 0;
            for byte in piece {
                let form = &self.table[usize::from(*byte)];
                // All four, though fewer may count: one store is cheaper than a choice.
                room[filled..filled + LONGEST].copy_from_slice(&form.characters);
                filled += usize::from(form.length);
            }
            output.filled(filled);
        }
        Ok(())
    }
}

fn form(byte: u8, style: Style) -> Form {
    match (byte, style.nonprinting) {
        (b'\t', _) if style.tabs => Form::of(b"^I"),
        (b'\t', _) | (_, false) | (b' '..=b'~', true) => Form::of(&[byte]),
        (0..=31 | 127, true) => Form::of(&[b'^', byte ^ 64]),
        (128.., true) => match byte - 128 {
            low @ b' '..=b'~' => Form::of(&[b'M', b'-', low]),
            low => Form::of(&[b'M', b'-', b'^', low ^ 64]),
        },
    }
}
