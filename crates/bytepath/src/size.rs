//! Sizes in bytes as people write them.

/// Units of which a size may be a whole number, the largest first.
const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];

/// A size in the largest unit that divides it: 1 GiB, 1536 KiB, 65537 bytes. Nothing is rounded,
/// because a size that the kernel refuses may be wrong by one byte.
pub(crate) fn shown(bytes: u64) -> String {
    match UNITS.iter().find(|(shift, _)| bytes != 0 && bytes.is_multiple_of(1 << shift)) {
        Some((shift, unit)) => format!("{} {unit}", bytes >> shift),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_in_the_largest_whole_unit() {
        let cases = [
            (0, "0 bytes"),
            (65_537, "65537 bytes"),
            (512 << 10, "512 KiB"),
            (1 << 20, "1 MiB"),
            (3 << 19, "1536 KiB"),
            (1 << 30, "1 GiB"),
            (5 << 30, "5 GiB"),
            (1 << 40, "1 TiB"),
        ];
        for (bytes, wanted) in cases {
            assert_eq!(shown(bytes), wanted);
        }
    }
}
