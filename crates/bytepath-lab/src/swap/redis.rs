//! Redis as what is short of memory: values that do not fit, then read and written at random.

use std::path::{Path, PathBuf};
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
/// Connections of the load, each with a thread.
const CONNECTIONS: u32 = 4;

/// Redis, with a load of our own.
pub struct Redis {
    /// The server.
    program: PathBuf,
    /// Values.
    values: u64,
    contents: Contents,
}

impl Redis {
    /// Redis that is to hold so many bytes.
    ///
    /// # Errors
    /// It is not installed: how to install it.
    pub fn of(bytes: u64, contents: Contents) -> Result<Redis, String> {
        let program = tools::needed("redis-server", "redis-server")?;
        Ok(Redis { program, values: (bytes / VALUE_BYTES as u64).max(1), contents })
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

    /// One connection's requests until the time is over: how long each took.
    fn requests(&self, socket: &Path, seed: u64, until: Instant) -> Result<Histogram<u64>, String> {
        let mut connection = Connection::to(socket)?;
        let mut random = fastrand::Rng::with_seed(seed);
        let mut histogram = latency::empty();
        while Instant::now() < until {
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
        }
        Ok(histogram)
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
        let requests = |seed: u32| {
            let socket = &socket;
            move || self.requests(socket, u64::from(seed), until)
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
