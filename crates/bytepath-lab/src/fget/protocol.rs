//! The part of memcached's text protocol that is used: `get`, `set`, `quit`, and errors.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The longest request line, and the largest value.
const LINE_BYTES_MAX: usize = 2048;
const VALUE_BYTES_MAX: usize = 1 << 20;

/// What is stored, in parts that are locked one by one.
#[derive(Default)]
pub(super) struct Store {
    parts: [Mutex<HashMap<Vec<u8>, Vec<u8>>>; PARTS],
}

const PARTS: usize = 16;

impl Store {
    fn part(&self, key: &[u8]) -> std::sync::MutexGuard<'_, HashMap<Vec<u8>, Vec<u8>>> {
        let sum: usize = key.iter().map(|byte| *byte as usize).sum();
        self.parts[sum % PARTS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection's requests, as they come in.
#[derive(Default)]
pub(super) struct Session {
    /// Bytes of a request that has not come whole.
    begun: Vec<u8>,
    /// Requests answered.
    pub(super) requests: u64,
    /// Whether the client wishes to end, or does not keep to the protocol.
    pub(super) over: bool,
}

impl Session {
    /// Takes what came, and appends the answers to `replies`.
    pub(super) fn take(&mut self, came: &[u8], store: &Store, replies: &mut Vec<u8>) {
        let begun = std::mem::take(&mut self.begun);
        let joined;
        let mut rest = match begun.is_empty() {
            true => came,
            false => {
                joined = [&begun, came].concat();
                &joined
            }
        };
        while !self.over {
            match request(rest) {
                Some((request, bytes)) => {
                    self.answer(request, store, replies);
                    rest = &rest[bytes..];
                }
                None => break,
            }
        }
        self.over |= rest.len() > LINE_BYTES_MAX + VALUE_BYTES_MAX;
        self.begun = rest.to_vec();
    }

    fn answer(&mut self, request: Request<'_>, store: &Store, replies: &mut Vec<u8>) {
        self.requests += 1;
        match request {
            Request::Get(key) => {
                if let Some(value) = store.part(key).get(key) {
                    replies.extend_from_slice(b"VALUE ");
                    replies.extend_from_slice(key);
                    replies.extend_from_slice(format!(" 0 {}\r\n", value.len()).as_bytes());
                    replies.extend_from_slice(value);
                    replies.extend_from_slice(b"\r\n");
                }
                replies.extend_from_slice(b"END\r\n");
            }
            Request::Set(key, value) => {
                store.part(key).insert(key.to_vec(), value.to_vec());
                replies.extend_from_slice(b"STORED\r\n");
            }
            Request::Quit => self.over = true,
            Request::Unknown => replies.extend_from_slice(b"ERROR\r\n"),
            Request::TooLarge => {
                replies.extend_from_slice(b"SERVER_ERROR object too large for cache\r\n");
                self.over = true;
            }
        }
    }
}

/// A whole request.
#[derive(Debug, PartialEq, Eq)]
enum Request<'a> {
    Get(&'a [u8]),
    Set(&'a [u8], &'a [u8]),
    Quit,
    Unknown,
    TooLarge,
}

/// The first request, if it is there whole, and how many bytes it takes.
fn request(bytes: &[u8]) -> Option<(Request<'_>, usize)> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
        let too_long = bytes.len() > LINE_BYTES_MAX;
        return too_long.then_some((Request::TooLarge, bytes.len()));
    };
    let line = end + 2;
    let mut words = bytes[..end].split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let known = match words.next() {
        Some(b"get") => words.next().map(Request::Get),
        Some(b"quit") => Some(Request::Quit),
        Some(b"set") => {
            let (key, len) = (words.next(), words.nth(2));
            let len = len.and_then(|len| std::str::from_utf8(len).ok()?.parse::<usize>().ok());
            match (key, len) {
                (Some(_), Some(len)) if len > VALUE_BYTES_MAX => {
                    return Some((Request::TooLarge, bytes.len()));
                }
                (Some(key), Some(len)) => {
                    let all = line + len + 2;
                    return (bytes.len() >= all)
                        .then(|| (Request::Set(key, &bytes[line..line + len]), all));
                }
                _ => None,
            }
        }
        _ => None,
    };
    Some((known.unwrap_or(Request::Unknown), line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(pieces: &[&[u8]]) -> (String, Session) {
        let (store, mut session, mut replies) = (Store::default(), Session::default(), Vec::new());
        for piece in pieces {
            session.take(piece, &store, &mut replies);
        }
        (String::from_utf8(replies).expect("text"), session)
    }

    #[test]
    fn requests_are_answered_however_they_are_cut() {
        let all = b"set k 0 0 5\r\nab\r\nc\r\nget k\r\nget none\r\nnothing\r\nget k\r\n";
        let wanted = "STORED\r\nVALUE k 0 5\r\nab\r\nc\r\nEND\r\nEND\r\nERROR\r\nVALUE k 0 5\r\nab\r\nc\r\nEND\r\n";
        for cut in 0..all.len() {
            let (said, session) = answers(&[&all[..cut], &all[cut..]]);
            assert_eq!((said.as_str(), session.requests), (wanted, 5), "cut at {cut}");
        }
        let bytes: Vec<_> = all.chunks(1).collect();
        assert_eq!(answers(&bytes).0, wanted);
    }

    #[test]
    fn what_is_no_request_ends_the_connection_or_is_told_of() {
        for words in ["set k\r\n", "set k 0 0 x\r\n", "get\r\n", "\r\n", "set k 0 0 -1\r\n"] {
            let (said, session) = answers(&[words.as_bytes()]);
            assert_eq!((said.as_str(), session.over), ("ERROR\r\n", false), "{words:?}");
        }
        for words in [&b"set k 0 0 99999999\r\n"[..], &[b'x'; 5000]] {
            let (said, session) = answers(&[words]);
            assert!(said.contains("too large") && session.over);
        }
        assert!(answers(&[b"quit\r\n"]).1.over);
    }
}
