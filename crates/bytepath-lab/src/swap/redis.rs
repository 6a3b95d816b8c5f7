//! Redis as what is short of memory: values that do not fit, then read and written at random.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytepath_report::latency;
use hdrhistogram::Histogram;

use super::contents::Contents;
use super::resp::Connection;
use super::server::{Line, Server};
use super::service_work::{Loaded, Service};
use crate::{interrupt, threads, tools};

/// Bytes of a value; each has a key.
const VALUE_BYTES: usize = 1024;
/// Values that are written without waiting for answers, while it is filled.
const PIPELINE: u64 = 64;
/// Of 100 requests so many read.
const READ_PERCENT: u32 = 90;
/// Requests between two looks at whether the run is to end.
const LOOK_EVERY: u64 = 256;
/// Connections of the load, each with a thread.
const CONNECTIONS: u32 = 4;

/// Redis, with a load of our own.
pub struct Redis {
    /// The server.
    program: PathBuf,
    /// Values.
    values: u64,
    contents: Contents,
    /// What the next connection of a load draws its requests from: none asks what another has asked.
    seed: AtomicU64,
}

impl Redis {
    /// Redis that is to hold so many bytes, and requests that are drawn from a seed.
    ///
    /// # Errors
    /// It is not installed: how to install it.
    pub fn of(bytes: u64, contents: Contents, seed: u64) -> Result<Redis, String> {
        let program = tools::needed("redis-server", "redis-server")?;
        let values = (bytes / VALUE_BYTES as u64).max(1);
        Ok(Redis { program, values, contents, seed: seed.into() })
    }

    fn value(&self, key: u64) -> Vec<u8> {
        let mut value = vec![0; VALUE_BYTES];
        self.contents.fill(key, &mut value);
        value
    }

    fn fill(&self, connection: &mut Connection) -> Result<(), String> {
        let mut key = 0;
        while key < self.values {
            if interrupt::wished() {
                return Err("interrupted".into());
            }
            let end = (key + PIPELINE).min(self.values);
            for key in key..end {
                connection.tell(&[b"SET", name(key).as_bytes(), &self.value(key)])?;
            }
            for _ in key..end {
                connection.done()?;
            }
            key = end;
        }
        Ok(())
    }

    /// One connection's requests until the time is over, at least one: how long each took.
    fn requests(&self, socket: &Path, seed: u64, until: Instant) -> Result<Histogram<u64>, String> {
        let mut connection = Connection::to(socket)?;
        let mut random = fastrand::Rng::with_seed(seed);
        let mut histogram = latency::empty();
        loop {
            let key = random.u64(..self.values);
            let value = self.value(key);
            let reads = random.u32(..100) < READ_PERCENT;
            let began = Instant::now();
            match reads {
                true => {
                    connection.tell(&[b"GET", name(key).as_bytes()])?;
                    if connection.value()? != value {
                        return Err(format!(
                            "redis gave another value for {} than it was given",
                            name(key)
                        ));
                    }
                }
                false => {
                    connection.tell(&[b"SET", name(key).as_bytes(), &value])?;
                    connection.done()?;
                }
            }
            histogram.saturating_record(began.elapsed().as_nanos() as u64);
            if Instant::now() >= until {
                return Ok(histogram);
            }
            if histogram.len().is_multiple_of(LOOK_EVERY) && interrupt::wished() {
                return Err("interrupted".into());
            }
        }
    }
}

fn name(key: u64) -> String {
    format!("key:{key}")
}

impl Service for Redis {
    fn prepared(&self, _: &Path, _: &Path) -> Result<(), String> {
        Ok(())
    }

    fn up(
        &self,
        bytepath: &Path,
        directory: &Path,
        groups: Vec<PathBuf>,
    ) -> Result<Server, String> {
        let socket = directory.join("socket");
        let text = |path: &Path| path.display().to_string();
        let words = [
            "--port",
            "0",
            "--unixsocket",
            &text(&socket),
            "--unixsocketperm",
            "777",
            "--save",
            "",
            "--appendonly",
            "no",
            "--daemonize",
            "no",
            "--dir",
            &text(directory),
            "--loglevel",
            "warning",
        ];
        let words = words.map(str::to_owned).into();
        let program = &self.program;
        let mut server = Server::up(Line {
            bytepath,
            program,
            words,
            groups,
            directory,
            socket: socket.clone(),
        })?;
        let filled = Connection::to(&socket).and_then(|mut connection| self.fill(&mut connection));
        match filled {
            Ok(()) => Ok(server),
            Err(why) if server.has_ended() => {
                Err(format!("redis ended while it was filled ({why})"))
            }
            Err(why) => Err(why),
        }
    }

    fn load(&self, directory: &Path, time: Duration) -> Result<Loaded, String> {
        let socket = directory.join("socket");
        let began = Instant::now();
        let until = began + time;
        let requests = |_| {
            let (socket, seed) = (&socket, self.seed.fetch_add(1, Ordering::Relaxed));
            move || self.requests(socket, seed, until)
        };
        let (all, ()) = threads::all_at_once((0..CONNECTIONS).map(requests), || ())?;
        let all = all.into_iter().collect::<Result<Vec<_>, String>>()?;
        let mut latencies = latency::empty();
        for histogram in &all {
            latencies.add(histogram).map_err(|error| error.to_string())?;
        }
        Ok(Loaded {
            transactions: latencies.len() as f64,
            seconds: began.elapsed().as_secs_f64(),
            latencies,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::Mutex;

    use super::*;

    /// Answers as Redis does: the first name that is asked for.
    fn asked_on(redis: &Redis, mut stream: UnixStream) -> Option<u64> {
        let mut first = None;
        let mut sets = false;
        for line in BufReader::new(stream.try_clone().expect("a descriptor")).split(b'\n') {
            let line = line.expect("it is read");
            sets |= line == b"SET\r";
            let key = std::str::from_utf8(&line).ok().and_then(|line| line.strip_prefix("key:"));
            let Some(key) = key.and_then(|key| key.trim().parse().ok()) else { continue };
            first.get_or_insert(key);
            let answer = match std::mem::take(&mut sets) {
                true => b"+OK\r\n".to_vec(),
                false => [b"$1024\r\n", &redis.value(key)[..], b"\r\n"].concat(),
            };
            // One that has asked enough does not hear it.
            let _ = stream.write_all(&answer);
        }
        first
    }

    #[test]
    fn no_load_asks_what_another_has_asked() {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join("socket")).expect("bound");
        let redis = Redis {
            program: PathBuf::new(),
            values: 1 << 20,
            contents: Contents::Integers,
            seed: 7.into(),
        };
        let asked = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2 * CONNECTIONS {
                    let (stream, _) = listener.accept().expect("they come");
                    let (redis, asked) = (&redis, &asked);
                    scope.spawn(move || {
                        let first = asked_on(redis, stream);
                        asked.lock().expect("nobody panics").extend(first);
                    });
                }
            });
            for _ in ["warm-up", "measured"] {
                let loaded = redis.load(folder.path(), Duration::from_millis(50));
                assert!(loaded.expect("it is answered").transactions > 0.0);
            }
        });
        let asked = asked.into_inner().expect("nobody panics");
        let each: BTreeSet<_> = asked.iter().collect();
        assert_eq!(asked.len(), 2 * CONNECTIONS as usize, "{asked:?}");
        assert_eq!(each.len(), asked.len(), "{asked:?}");
    }
}
