//! For how long some task waited for a CPU, from `/proc/pressure/cpu`.

/// The microseconds since boot during which at least one runnable task waited for a CPU: `total` of
/// the `some` line (Documentation/accounting/psi.rst). `None` when the text has no such line.
pub fn parse_some_total_us(text: &str) -> Option<u64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split(' ').find_map(|word| word.strip_prefix("total="))?.parse().ok()
}
