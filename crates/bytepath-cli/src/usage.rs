//! Wrong usage that the parser itself does not see.

/// Wrong usage that shows only when the arguments are looked at together: what is wrong.
#[derive(Debug)]
pub(crate) struct WrongUsage(pub(crate) String);

impl std::fmt::Display for WrongUsage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) fn wrong_usage(message: impl Into<String>) -> anyhow::Error {
    anyhow::Error::msg(WrongUsage(message.into()))
}
