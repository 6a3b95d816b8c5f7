//! HTTP/1.1 as far as a proxy and its upstream need it (RFC 9112): requests without a body, responses
//! with one of a length that is told.

use super::{BODY_BYTES, Connections, Heard, Speech, body};

/// More headers than this no nginx sends unasked.
const HEADERS_MAX: usize = 32;

pub(super) struct Http;

impl Speech for Http {
    fn request(&self, kept: Connections) -> Vec<u8> {
        let close = match kept {
            Connections::Kept => "",
            Connections::New => "Connection: close\r\n",
        };
        format!("GET / HTTP/1.1\r\nHost: localhost\r\n{close}\r\n").into_bytes()
    }

    fn asked(&self, bytes: &[u8]) -> Result<Option<Heard>, String> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        let status = request.parse(bytes).map_err(|error| format!("no HTTP request: {error}"))?;
        let httparse::Status::Complete(length) = status else { return Ok(None) };
        let kept = kept(request.version, request.headers);
        Ok(Some(Heard { bytes: length, kept }))
    }

    fn response(&self, kept: Connections) -> Vec<u8> {
        let close = match kept {
            Connections::Kept => "",
            Connections::New => "Connection: close\r\n",
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {BODY_BYTES}\r\n{close}\r\n"
        );
        [head.as_bytes(), &body()].concat()
    }

    fn answered(&self, bytes: &[u8]) -> Result<Option<Heard>, String> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        let status = response.parse(bytes).map_err(|error| format!("no HTTP response: {error}"))?;
        let httparse::Status::Complete(head) = status else { return Ok(None) };
        match response.code {
            Some(200) => {}
            code => return Err(format!("it was answered {}", code.unwrap_or(0))),
        }
        let length = header(response.headers, "content-length");
        let length = length.and_then(|value| value.trim().parse::<usize>().ok());
        if length != Some(BODY_BYTES) {
            return Err("it was answered with something else than was sent".into());
        }
        let whole = head + BODY_BYTES;
        if bytes.len() < whole {
            return Ok(None);
        }
        if bytes[head..whole] != body() {
            return Err("it was answered with other bytes than were sent".into());
        }
        Ok(Some(Heard { bytes: whole, kept: kept(response.version, response.headers) }))
    }
}

fn header<'a>(headers: &'a [httparse::Header<'_>], name: &str) -> Option<&'a str> {
    let header = headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
    std::str::from_utf8(header.value).ok()
}

/// HTTP/1.1 keeps connections unless told otherwise, HTTP/1.0 does not (RFC 9112, 9.3).
fn kept(version: Option<u8>, headers: &[httparse::Header<'_>]) -> Connections {
    let told = header(headers, "connection").unwrap_or("");
    let says = |word: &str| told.split(',').any(|has| has.trim().eq_ignore_ascii_case(word));
    match version {
        Some(1) if !says("close") => Connections::Kept,
        Some(0) if says("keep-alive") => Connections::Kept,
        _ => Connections::New,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_understood_once_all_of_it_is_there() {
        for kept in [Connections::New, Connections::Kept] {
            let (request, response) = (Http.request(kept), Http.response(kept));
            for length in 0..request.len() {
                assert_eq!(Http.asked(&request[..length]), Ok(None), "{length}");
            }
            for length in 0..response.len() {
                assert_eq!(Http.answered(&response[..length]), Ok(None), "{length}");
            }
            let heard = |bytes: &[u8]| Some(Heard { bytes: bytes.len(), kept });
            assert_eq!(Http.asked(&request), Ok(heard(&request)));
            assert_eq!(Http.answered(&response), Ok(heard(&response)));
        }
    }

    #[test]
    fn what_nginx_sends_unless_told_otherwise_ends_the_connection() {
        let request = b"GET / HTTP/1.0\r\nHost: up\r\nConnection: close\r\n\r\n";
        assert_eq!(
            Http.asked(request).map(|heard| heard.map(|heard| heard.kept)),
            Ok(Some(Connections::New))
        );
    }

    #[test]
    fn failures_and_other_bytes_are_no_answers() {
        for response in [
            "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
            "SSH-2.0-OpenSSH\r\n",
        ] {
            assert!(Http.answered(response.as_bytes()).is_err(), "{response}");
        }
    }
}
