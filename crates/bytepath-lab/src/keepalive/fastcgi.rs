//! FastCGI 1.0 as far as a web server and an application need it (fastcgi-archives.github.io,
//! "FastCGI Specification"): one request at a time on a connection, records of the responder role.
//!
//! The crates that speak it are bound to an asynchronous runtime or speak one side alone; a record is
//! a header of 8 bytes.

use super::{BODY_BYTES, Connections, Heard, Speech, body};

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 8;

/// Kinds of records (section 8 of the specification).
const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;

const RESPONDER: u16 = 1;
/// A flag of BEGIN_REQUEST: the application does not close the connection.
const KEEP_CONN: u8 = 1;

/// What a server tells of a request at the least.
const TOLD: [(&str, &str); 5] = [
    ("REQUEST_METHOD", "GET"),
    ("REQUEST_URI", "/"),
    ("SCRIPT_FILENAME", "/"),
    ("SERVER_PROTOCOL", "HTTP/1.1"),
    ("QUERY_STRING", ""),
];

pub(super) struct Fastcgi;

impl Speech for Fastcgi {
    fn request(&self, kept: Connections) -> Vec<u8> {
        let flags = if kept == Connections::Kept { KEEP_CONN } else { 0 };
        let [high, low] = RESPONDER.to_be_bytes();
        let mut bytes = record(BEGIN_REQUEST, &[high, low, flags, 0, 0, 0, 0, 0]);
        let mut told = Vec::new();
        for (name, value) in TOLD {
            // Both are shorter than 128 bytes, so each length is one byte.
            told.extend([name.len() as u8, value.len() as u8]);
            told.extend(name.bytes().chain(value.bytes()));
        }
        bytes.extend(record(PARAMS, &told));
        bytes.extend(record(PARAMS, &[]));
        bytes.extend(record(STDIN, &[]));
        bytes
    }

    fn asked(&self, bytes: &[u8]) -> Result<Option<Heard>, String> {
        let (mut place, mut kept) = (0, None);
        while let Some(Record { kind, content, end }) = Record::read(bytes, place)? {
            place = end;
            match kind {
                BEGIN_REQUEST => {
                    let keeps = content.get(2).is_some_and(|flags| flags & KEEP_CONN != 0);
                    kept = Some(if keeps { Connections::Kept } else { Connections::New });
                }
                STDIN if content.is_empty() => {
                    let kept = kept.ok_or("a FastCGI request that did not begin")?;
                    return Ok(Some(Heard { bytes: place, kept }));
                }
                PARAMS | STDIN => {}
                kind => return Err(format!("a FastCGI request with a record of kind {kind}")),
            }
        }
        Ok(None)
    }

    fn response(&self, _: Connections) -> Vec<u8> {
        let head = format!("Content-Type: text/plain\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
        let mut bytes = record(STDOUT, &[head.as_bytes(), &body()].concat());
        bytes.extend(record(STDOUT, &[]));
        bytes.extend(record(END_REQUEST, &[0; 8]));
        bytes
    }

    fn answered(&self, bytes: &[u8]) -> Result<Option<Heard>, String> {
        let (mut place, mut said) = (0, Vec::new());
        while let Some(Record { kind, content, end }) = Record::read(bytes, place)? {
            place = end;
            match kind {
                STDOUT => said.extend_from_slice(content),
                STDERR => {}
                END_REQUEST if said.ends_with(&body()) => {
                    return Ok(Some(Heard { bytes: place, kept: Connections::Kept }));
                }
                END_REQUEST => return Err("it was answered with other bytes than were sent".into()),
                kind => return Err(format!("a FastCGI response with a record of kind {kind}")),
            }
        }
        Ok(None)
    }
}

/// A record of request 1.
fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("contents here are short").to_be_bytes();
    let header = [VERSION, kind, 0, 1, length[0], length[1], 0, 0];
    [&header[..], content].concat()
}

/// A record that was read.
struct Record<'a> {
    kind: u8,
    content: &'a [u8],
    /// Where the next one begins.
    end: usize,
}

impl Record<'_> {
    /// The record at a place, if all of it is there.
    fn read(bytes: &[u8], place: usize) -> Result<Option<Record<'_>>, String> {
        let Some(header) = bytes.get(place..place + HEADER_BYTES) else { return Ok(None) };
        if header[0] != VERSION {
            return Err(format!("no FastCGI record: its version is {}", header[0]));
        }
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let begin = place + HEADER_BYTES;
        let Some(content) = bytes.get(begin..begin + length) else { return Ok(None) };
        let end = begin + length + usize::from(header[6]);
        Ok((bytes.len() >= end).then_some(Record { kind: header[1], content, end }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_understood_once_all_of_it_is_there() {
        for kept in [Connections::New, Connections::Kept] {
            let (request, response) = (Fastcgi.request(kept), Fastcgi.response(kept));
            for length in 0..request.len() {
                assert_eq!(Fastcgi.asked(&request[..length]), Ok(None), "{length}");
            }
            for length in 0..response.len() {
                assert_eq!(Fastcgi.answered(&response[..length]), Ok(None), "{length}");
            }
            assert_eq!(Fastcgi.asked(&request), Ok(Some(Heard { bytes: request.len(), kept })));
            let answered = Fastcgi.answered(&response).expect("a response").expect("whole");
            assert_eq!(answered.bytes, response.len());
        }
    }

    #[test]
    fn padding_is_passed_over_and_anything_else_is_refused() {
        let mut padded = record(BEGIN_REQUEST, &[0, 1, KEEP_CONN, 0, 0, 0, 0, 0]);
        padded.extend([VERSION, PARAMS, 0, 1, 0, 0, 5, 0]);
        padded.extend([9; 5]);
        padded.extend(record(STDIN, &[]));
        let heard = Heard { bytes: padded.len(), kept: Connections::Kept };
        assert_eq!(Fastcgi.asked(&padded), Ok(Some(heard)));
        assert!(Fastcgi.asked(b"GET / HTTP/1.1\r\n").is_err());
        assert!(Fastcgi.asked(&record(STDIN, &[])).is_err());
        assert!(Fastcgi.answered(&record(END_REQUEST, &[0; 8])).is_err());
    }
}
