//! What the machine said when asked whether something works: yes, or no with the reason and a
//! remedy.

use std::fmt;

use rustix::io::Errno;

/// The answer to "does this work here?", found by trying it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It was tried and it worked.
    Yes,
    /// It was tried and it did not work.
    No {
        /// The kernel's word, where the kernel refused; `None` where it worked but did not do what
        /// was asked.
        errno: Option<Errno>,
        /// The likely cause, in words.
        why: String,
        /// What a person can do about it; what to use instead where nothing can be done.
        remedy: String,
    },
}

impl Answer {
    /// A refusal by the kernel.
    pub fn refused(errno: Errno, why: impl Into<String>, remedy: impl Into<String>) -> Answer {
        Answer::No { errno: Some(errno), why: why.into(), remedy: remedy.into() }
    }

    /// A refusal without an error number: the call came back, and the effect did not.
    pub fn without_effect(why: impl Into<String>, remedy: impl Into<String>) -> Answer {
        Answer::No { errno: None, why: why.into(), remedy: remedy.into() }
    }

    /// Whether it works.
    pub fn is_yes(&self) -> bool {
        matches!(self, Answer::Yes)
    }

    /// Whether it would be the same if asked again: not where descriptors were lacking.
    pub(crate) fn is_final(&self) -> bool {
        !matches!(self, Answer::No { errno: Some(Errno::MFILE | Errno::NFILE), .. })
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Yes => out.write_str("yes"),
            Answer::No { errno: Some(errno), why, remedy } => {
                write!(out, "no: {why}: {errno}; {remedy}")
            }
            Answer::No { errno: None, why, remedy } => write!(out, "no: {why}; {remedy}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_why_with_the_kernels_word_and_the_remedy() {
        let answer = Answer::refused(Errno::PERM, "seccomp refuses it", "use read-write");
        let text = answer.to_string();
        assert!(text.starts_with("no: seccomp refuses it: "), "{text}");
        assert!(text.contains("not permitted"), "{text}");
        assert!(text.ends_with("; use read-write"), "{text}");
    }
}
