//! A connection to Redis (the protocol RESP, redis.io/docs/reference/protocol-spec): requests that are
//! arrays of texts, and the answers to SET and GET.

use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// An answer that takes longer does not come.
const PATIENCE: Duration = Duration::from_secs(60);

/// No value here is longer.
const VALUE_BYTES_MAX: usize = 1 << 20;

pub(super) struct Connection {
    input: BufReader<UnixStream>,
    output: BufWriter<UnixStream>,
}

impl Connection {
    pub(super) fn to(socket: &Path) -> Result<Connection, String> {
        let connected = || -> std::io::Result<Connection> {
            let stream = UnixStream::connect(socket)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(Connection {
                input: BufReader::new(stream.try_clone()?),
                output: BufWriter::new(stream),
            })
        };
        connected().map_err(|error| format!("cannot connect to redis: {error}"))
    }

    /// Sends a request, once an answer is asked for.
    pub(super) fn tell(&mut self, words: &[&[u8]]) -> Result<(), String> {
        let mut write = || -> std::io::Result<()> {
            write!(self.output, "*{}\r\n", words.len())?;
            for word in words {
                write!(self.output, "${}\r\n", word.len())?;
                self.output.write_all(word)?;
                self.output.write_all(b"\r\n")?;
            }
            Ok(())
        };
        write().map_err(lost)
    }

    /// The answer to a request that changes something.
    pub(super) fn done(&mut self) -> Result<(), String> {
        match self.line()?.as_str() {
            "+OK" => Ok(()),
            other => Err(format!("redis answers {other:?}")),
        }
    }

    /// The answer to a request for a value.
    pub(super) fn value(&mut self) -> Result<Vec<u8>, String> {
        let line = self.line()?;
        let length = line.strip_prefix('$').and_then(|length| length.parse::<usize>().ok());
        let length = length.filter(|length| *length <= VALUE_BYTES_MAX);
        let length = length.ok_or_else(|| format!("redis answers {line:?}"))?;
        let mut value = vec![0; length + 2];
        self.input.read_exact(&mut value).map_err(lost)?;
        value.truncate(length);
        Ok(value)
    }

    fn line(&mut self) -> Result<String, String> {
        self.output.flush().map_err(lost)?;
        let mut line = String::new();
        self.input.read_line(&mut line).map_err(lost)?;
        match line.is_empty() {
            true => Err("redis hung up".into()),
            false => Ok(line.trim_end().to_owned()),
        }
    }
}

fn lost(error: std::io::Error) -> String {
    match error.kind() {
        // A socket whose time is over.
        ErrorKind::WouldBlock => format!("redis does not answer within {PATIENCE:?}"),
        _ => format!("the connection to redis is lost: {error}"),
    }
}
