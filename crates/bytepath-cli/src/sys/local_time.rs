//! The time on the wall, as the C library knows it: by TZ, or by the file that the system has for it.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// A moment as people write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    pub(crate) month: i32,
    pub(crate) day: i32,
    pub(crate) hour: i32,
    pub(crate) minute: i32,
    pub(crate) second: i32,
}

/// So many seconds after the epoch, here. `None` where the year is beyond what the C library counts.
pub(crate) fn local(seconds: i64) -> Option<Civil> {
    // SAFETY: it reads the environment, as every other call of the C library for a time does.
    unsafe { tzset() };
    civil(seconds, libc::localtime_r)
}

/// The same in UTC.
#[cfg(test)]
pub(crate) fn utc(seconds: i64) -> Option<Civil> {
    civil(seconds, libc::gmtime_r)
}

unsafe extern "C" {
    fn tzset();
}

/// `Seconds` is the C library's type for them, whatever its name.
fn civil<Seconds>(
    seconds: Seconds,
    of: unsafe extern "C" fn(*const Seconds, *mut libc::tm) -> *mut libc::tm,
) -> Option<Civil> {
    let mut found = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both point to what they are declared as, for as long as the call lasts.
    let is_told = unsafe { !of(&raw const seconds, found.as_mut_ptr()).is_null() };
    // SAFETY: it was filled, or is all zeros, which are numbers too and a pointer to nothing.
    let found = unsafe { found.assume_init() };
    is_told.then(|| Civil {
        year: i64::from(found.tm_year) + 1900,
        month: found.tm_mon + 1,
        day: found.tm_mday,
        hour: found.tm_hour,
        minute: found.tm_min,
        second: found.tm_sec,
    })
}
