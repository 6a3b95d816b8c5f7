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

/// A rate in a unit that fits, with about three digits: 9.80 GiB/s, 4.00 MiB/s, 512 KiB/s.
pub(crate) fn rate(gib_per_s: f64) -> String {
    let (mut rate, mut units) = (gib_per_s, ["GiB", "MiB", "KiB", "B"].into_iter());
    // What would be shown as 1024 of the smaller unit is 1.00 of this one.
    while rate < 1023.5 / 1024.0 && units.len() > 1 {
        rate *= 1024.0;
        units.next();
    }
    let decimals = match rate {
        _ if units.len() == 1 => 0,
        rate if rate < 9.995 => 2,
        rate if rate < 99.95 => 1,
        _ => 0,
    };
    format!("{rate:.decimals$} {}/s", units.next().expect("one was left"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_shown_in_a_unit_that_fits() {
        let kib = 1.0 / f64::from(1 << 20);
        let cases = [
            (12.34, "12.3 GiB/s"),
            (9.8, "9.80 GiB/s"),
            (0.9997, "1.00 GiB/s"),
            (0.9994, "1023 MiB/s"),
            (1023.6 * kib, "1.00 MiB/s"),
            (1023.4 * kib, "1023 KiB/s"),
            (1023.6 / 1024.0 * kib, "1.00 KiB/s"),
            (4096.0 * kib, "4.00 MiB/s"),
            (200.0 * kib, "200 KiB/s"),
            (0.5 * kib, "512 B/s"),
            (0.0, "0 B/s"),
        ];
        for (gib_per_s, wanted) in cases {
            assert_eq!(rate(gib_per_s), wanted);
        }
    }

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
