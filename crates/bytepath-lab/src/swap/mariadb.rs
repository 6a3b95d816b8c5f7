//! MariaDB as what is short of memory: a buffer pool that does not fit, and sysbench's OLTP on it.

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::server::{Line, Server, handed_over, user};
use super::service_work::{Loaded, Service};
use super::sysbench;
use crate::file_set;
use crate::pipe_work::{EndedOnDrop, Says, said};
use crate::sys::together::end_together;
use crate::tools;

/// A row of sysbench's table takes about so much in the buffer pool, with its index.
const ROW_BYTES: u64 = 250;

/// Beside the table: the system's own tables, logs and what grows meanwhile.
const BESIDE_BYTES: u64 = 512 << 20;

/// Making a database takes so long at most.
const PREPARING_MAX: Duration = Duration::from_secs(600);

/// Once its time is over, a load's last transactions take so long at most.
const ENDING_MAX: Duration = Duration::from_secs(600);

/// MariaDB with sysbench's OLTP, which reads and writes.
pub struct MariaDb {
    install: PathBuf,
    program: PathBuf,
    client: PathBuf,
    sysbench: PathBuf,
    pool_bytes: u64,
    rows: u64,
    /// Whether the database was made, or why not: it is tried once for all arms.
    prepared: OnceCell<Result<(), String>>,
}

impl MariaDb {
    /// MariaDB with a buffer pool of so many bytes and a table that fills it.
    ///
    /// # Errors
    /// It, or sysbench, is not installed: how to install it.
    pub fn of(bytes: u64) -> Result<MariaDb, String> {
        Ok(MariaDb {
            install: tools::needed("mariadb-install-db", "mariadb-server-core")?,
            program: tools::needed("mariadbd", "mariadb-server-core")?,
            client: tools::needed("mariadb", "mariadb-client-core")?,
            sysbench: tools::needed("sysbench", "sysbench")?,
            pool_bytes: bytes,
            rows: (bytes / ROW_BYTES).max(1),
            prepared: OnceCell::new(),
        })
    }

    /// A database with sysbench's table in it.
    fn made(&self, bytepath: &Path, directory: &Path) -> Result<(), String> {
        let failed = |error: std::io::Error| not_made(directory, &error);
        file_set::is_room(directory, self.pool_bytes * 2 + BESIDE_BYTES).map_err(failed)?;
        let data = data(directory);
        fs::create_dir(&data).and_then(|()| handed_over(&data)).map_err(failed)?;
        let text = |path: &Path| path.display().to_string();
        let mut install = user(Vec::new()).command(bytepath, &self.install);
        install.args(["--no-defaults", "--skip-test-db", "--skip-name-resolve"]);
        install.args(["--auth-root-authentication-method=normal", "--basedir=/usr"]);
        install.arg(format!("--datadir={}", text(&data)));
        told(&mut install, "mariadb-install-db", PREPARING_MAX)?;
        let server = self.server(bytepath, directory, Vec::new())?;
        let socket = socket(directory);
        let mut client = self.client(&socket);
        client.args(["--execute", &format!("CREATE DATABASE {}", sysbench::DATABASE)]);
        let table = sysbench::Table { program: &self.sysbench, socket: &socket, rows: self.rows };
        let prepared = told(&mut client, "mariadb", PREPARING_MAX)
            .and_then(|_| told(&mut table.prepare(), "sysbench", PREPARING_MAX));
        prepared.map(drop).map_err(|why| format!("{why}{}", server.complaint()))
    }

    fn client(&self, socket: &Path) -> Command {
        let mut client = Command::new(&self.client);
        client.args(["--no-defaults", "--user=root"]);
        client.arg(format!("--socket={}", socket.display()));
        client
    }

    fn server(
        &self,
        bytepath: &Path,
        directory: &Path,
        groups: Vec<PathBuf>,
    ) -> Result<Server, String> {
        let (socket, data) = (socket(directory), data(directory));
        let words = vec![
            "--no-defaults".to_owned(),
            "--skip-networking".to_owned(),
            "--innodb-buffer-pool-load-at-startup=OFF".to_owned(),
            "--innodb-buffer-pool-dump-at-shutdown=OFF".to_owned(),
            format!("--innodb-buffer-pool-size={}", self.pool_bytes),
            format!("--datadir={}", data.display()),
            format!("--tmpdir={}", data.display()),
            format!("--socket={}", socket.display()),
            format!("--pid-file={}", data.join("pid").display()),
        ];
        let program = &self.program;
        Server::up(Line { bytepath, program, words, groups, directory: &data, socket })
    }
}

fn data(directory: &Path) -> PathBuf {
    directory.join("data")
}

fn socket(directory: &Path) -> PathBuf {
    data(directory).join("socket")
}

fn not_made(directory: &Path, error: &std::io::Error) -> String {
    let otherwise = "; name another place with --dir, or take a smaller --size";
    let hint = file_set::size_hint(error, "take a smaller --size, or ", otherwise);
    format!("no database in {}: {error}{hint}", directory.display())
}

/// Runs a program to its end, which is to come in so long.
fn told(command: &mut Command, name: &str, limit: Duration) -> Result<String, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = EndedOnDrop::spawn_on(end_together(command), None)?;
    said(&mut running.0, Says::Output, limit).map_err(|why| format!("{name} failed: {why}"))
}

impl Service for MariaDb {
    fn prepared(&self, bytepath: &Path, directory: &Path) -> Result<(), String> {
        self.prepared.get_or_init(|| self.made(bytepath, directory)).clone()
    }

    fn up(
        &self,
        bytepath: &Path,
        directory: &Path,
        groups: Vec<PathBuf>,
    ) -> Result<Server, String> {
        let mut server = self.server(bytepath, directory, groups)?;
        // Every page of the table comes into the pool, which then does not fit.
        let mut client = self.client(&socket(directory));
        client.arg(sysbench::DATABASE).args(["--execute", sysbench::WARM]);
        match told(&mut client, "mariadb", PREPARING_MAX) {
            Ok(_) => Ok(server),
            Err(why) if server.has_ended() => {
                Err(format!("mariadbd ended ({why}){}", server.complaint()))
            }
            Err(why) => Err(format!("{why}{}", server.complaint())),
        }
    }

    fn load(&self, directory: &Path, time: Duration) -> Result<Loaded, String> {
        let socket = socket(directory);
        let table = sysbench::Table { program: &self.sysbench, socket: &socket, rows: self.rows };
        sysbench::parsed(&told(&mut table.run(time), "sysbench", time + ENDING_MAX)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_waited_for_as_long_as_its_caller_says() {
        let sleep = |seconds: &str, limit: Duration| {
            told(Command::new("sleep").arg(seconds), "sleep", limit)
        };
        assert_eq!(sleep("0", Duration::from_secs(60)), Ok(String::new()));
        let why = sleep("100", Duration::from_millis(1)).expect_err("it sleeps on");
        assert!(why.starts_with("sleep failed: "), "{why}");
    }

    #[test]
    fn where_a_limit_on_the_size_of_files_is_why_no_other_place_helps() {
        let told =
            |errno: i32| not_made(Path::new("/d"), &std::io::Error::from_raw_os_error(errno));
        assert!(told(libc::EFBIG).ends_with(
            "; take a smaller --size, or raise the limit on the size of your files (ulimit -f)"
        ));
        assert!(
            told(libc::ENOSPC)
                .ends_with("; name another place with --dir, or take a smaller --size")
        );
    }
}
