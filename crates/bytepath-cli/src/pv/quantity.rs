//! Numbers of bytes as pv takes them: 10, 10K, 1.5G; K is 1024 unless --si stands before.

/// What the letters stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Units {
    /// K is 1024.
    Binary,
    /// K is 1000.
    Si,
}

/// A number of bytes; `None` for what is none. A fraction of a byte is dropped.
pub(crate) fn parsed(text: &str, units: Units) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let factor = factor(suffix.trim_start(), units)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    // Digits beyond these do not reach a whole byte of the largest unit.
    let fraction = &fraction[..fraction.len().min(15)];
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let part: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let bytes = whole.checked_mul(factor)?.checked_add(part * factor / scale)?;
    u64::try_from(bytes).ok()
}

/// The letters alone go by `units`; KiB and KB say themselves what they mean.
fn factor(suffix: &str, units: Units) -> Option<u128> {
    let mut letters = suffix.chars();
    let power = match letters.next().map(|letter| letter.to_ascii_uppercase()) {
        None => return Some(1),
        Some('K') => 1,
        Some('M') => 2,
        Some('G') => 3,
        Some('T') => 4,
        Some(_) => return None,
    };
    let base: u128 = match (letters.as_str().to_ascii_uppercase().as_str(), units) {
        ("", Units::Si) | ("B", _) => 1000,
        ("", Units::Binary) | ("IB", _) => 1024,
        _ => return None,
    };
    Some(base.pow(power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_or_parts_of_a_unit() {
        let cases = [
            ("0", 0),
            ("10", 10),
            ("1.9", 1),
            (".5K", 512),
            ("1.5G", 1536 << 20),
            ("10k", 10 << 10),
            ("2 M", 2 << 20),
            ("1KB", 1000),
            ("1KiB", 1024),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, bytes) in cases {
            assert_eq!(parsed(text, Units::Binary), Some(bytes), "{text}");
        }
        assert_eq!(parsed("1.5K", Units::Si), Some(1500));
        assert_eq!(parsed("1KiB", Units::Si), Some(1024));
        for text in ["", ".", "K", "-1", "1Q", "1.2.3", "1KX", "x", "1e3", "99999999T", "1 0"] {
            assert_eq!(parsed(text, Units::Binary), None, "{text}");
        }
    }
}
