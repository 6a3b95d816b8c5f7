//! The environment, moved from where the kernel has put it.

#![allow(unsafe_code)]

/// Has every variable lie in memory of its own, so that the place where the kernel has put them all may be
/// written over.
pub(crate) fn moved() {
    let variables: Vec<_> = std::env::vars_os().collect();
    // Of two of one name the first counts. A name with this letter is nobody's to ask for.
    let named = |name: &std::ffi::OsString| !name.as_encoded_bytes().contains(&b'=');
    for (name, value) in variables.iter().rev().filter(|(name, _)| named(name)) {
        // SAFETY: threads read the environment through the standard library, which lets one wait for the
        // other; the C library does so only where it is asked for the time, which is asked for by those
        // that draw, one at a time, as this is.
        unsafe { std::env::set_var(name, value) };
    }
}
