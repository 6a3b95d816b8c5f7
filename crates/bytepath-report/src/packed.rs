//! Texts that a build packed, since they would be a tenth of the program.

use std::io::Read as _;

use flate2::read::ZlibDecoder;

/// A text as it was written before the build packed it.
///
/// # Panics
/// If it is not whole: what is built in has a checksum, and a test reads it.
pub fn unpacked(packed: &[u8]) -> String {
    let mut text = String::new();
    let whole = ZlibDecoder::new(packed).read_to_string(&mut text);
    whole.expect("the build packed it, and a checksum says that it is whole");
    text
}
