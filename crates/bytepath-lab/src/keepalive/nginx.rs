//! nginx as a proxy of a sample: with a configuration, a prefix and files of its own, never the
//! system's.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Address, Connections, Protocol};
use crate::tools;

/// Where it complains, in its directory; and so much of that is looked at.
const LOG: &str = "error.log";
const LOG_BYTES_MAX: u64 = 16 << 20;

/// What it is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proxy {
    /// The program.
    pub program: PathBuf,
    /// Its worker processes.
    pub workers: u32,
    /// What it speaks with the upstream.
    pub protocol: Protocol,
    /// How long its connections to the upstream last.
    pub connections: Connections,
    /// How many idle connections it keeps (`keepalive` of the upstream module).
    pub keepalive: u32,
}

/// Where nginx is.
///
/// # Errors
/// It is not installed: how to install it.
pub fn found() -> Result<PathBuf, String> {
    tools::needed("nginx", "nginx-light")
}

impl Proxy {
    /// Its configuration in a directory that it may write into.
    pub(super) fn written(
        &self,
        directory: &Path,
        listen: u16,
        up: &Address,
    ) -> io::Result<PathBuf> {
        let path = directory.join("nginx.conf");
        fs::write(&path, self.configuration(listen, up))?;
        Ok(path)
    }

    /// The words that run it.
    pub(super) fn words(directory: &Path, configuration: &Path) -> [OsString; 6] {
        // Errors before it has read its configuration go to the log that is named here.
        let log = directory.join(LOG).into();
        ["-p".into(), directory.into(), "-c".into(), configuration.into(), "-e".into(), log]
    }

    /// Names of files in it are below the directory that `-p` names.
    fn configuration(&self, listen: u16, up: &Address) -> String {
        let server = match up {
            Address::Tcp(port) => format!("127.0.0.1:{port}"),
            Address::Unix(path) => {
                let path = path.display().to_string().replace('\\', r"\\").replace('"', "\\\"");
                format!("\"unix:{path}\"")
            }
        };
        let kept = self.connections == Connections::Kept;
        let keepalive = if kept { format!("keepalive {};", self.keepalive) } else { String::new() };
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|name| format!("    {name}_temp_path {name};\n"))
            .collect();
        let pass = match (self.protocol, kept) {
            (Protocol::Http, false) => "proxy_pass http://up;",
            (Protocol::Http, true) => {
                "proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection \"\";"
            }
            (Protocol::Fastcgi, false) => FASTCGI,
            (Protocol::Fastcgi, true) => FASTCGI_KEPT,
        };
        format!(
            "daemon off;\nworker_processes {};\npid nginx.pid;\nevents {{ \
             worker_connections 4096; }}\nhttp {{\n    access_log off;\n{temporary}    \
             keepalive_requests 1000000000;\n    upstream up {{ server {server}; {keepalive} }}\n    \
             server {{ listen 127.0.0.1:{listen} backlog=4096; location / {{ {pass} }} }}\n}}\n",
            self.workers
        )
    }
}

/// What an application needs to know at the least.
const FASTCGI: &str = "fastcgi_pass up; fastcgi_param REQUEST_METHOD $request_method; fastcgi_param \
                       REQUEST_URI $request_uri; fastcgi_param SCRIPT_FILENAME /; fastcgi_param \
                       SERVER_PROTOCOL $server_protocol; fastcgi_param QUERY_STRING $query_string;";
const FASTCGI_KEPT: &str = "fastcgi_pass up; fastcgi_keep_conn on; fastcgi_param REQUEST_METHOD \
                            $request_method; fastcgi_param REQUEST_URI $request_uri; fastcgi_param \
                            SCRIPT_FILENAME /; fastcgi_param SERVER_PROTOCOL $server_protocol; \
                            fastcgi_param QUERY_STRING $query_string;";

/// The last that nginx complained about, in a log; for a person. Its directory is not ours alone: what
/// a link or a FIFO of that name leads to is not shown.
pub(super) fn complaint(directory: &Path) -> Option<String> {
    let mut open = File::options();
    open.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = open.open(directory.join(LOG)).ok()?;
    let log = io::read_to_string(file.take(LOG_BYTES_MAX)).ok()?;
    let line = log
        .lines()
        .rfind(|line| ["[emerg]", "[alert]", "[error]"].iter().any(|kind| line.contains(kind)))?;
    Some(line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_read_from_its_log_and_from_nothing_that_a_link_leads_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let [log, other] = [LOG, "other"].map(|name| folder.path().join(name));
        fs::write(&other, "a\n[emerg] b\nc\n").expect("written");
        std::os::unix::fs::symlink(&other, &log).expect("made");
        assert_eq!(complaint(folder.path()), None);
        fs::rename(&other, &log).expect("ours");
        assert_eq!(complaint(folder.path()).as_deref(), Some("[emerg] b"));
    }

    #[test]
    fn only_a_proxy_that_keeps_connections_says_so() {
        for protocol in [Protocol::Http, Protocol::Fastcgi] {
            for connections in [Connections::New, Connections::Kept] {
                let proxy = Proxy {
                    program: "nginx".into(),
                    workers: 1,
                    protocol,
                    connections,
                    keepalive: 60,
                };
                let text = proxy.configuration(80, &Address::Tcp(90));
                let kept = connections == Connections::Kept;
                assert_eq!(text.contains("keepalive 60;"), kept, "{text}");
                let http = kept && protocol == Protocol::Http;
                assert_eq!(text.contains("proxy_http_version 1.1"), http, "{text}");
                let fastcgi = kept && protocol == Protocol::Fastcgi;
                assert_eq!(text.contains("fastcgi_keep_conn on"), fastcgi, "{text}");
            }
        }
    }
}
