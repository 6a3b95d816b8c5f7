//! Puts this process where a run wants a program to be (cgroups, namespaces, another user), and
//! becomes that program: `bytepath confine`.
//!
//! A program in a process namespace of its own ends with all that it has started, however it ends:
//! the kernel sees to that. So do programs without one, by the wish that they end with their starter.

use std::fs;
use std::io::{Error, Result as IoResult};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use nix::sched::{CloneFlags, unshare};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::process::{Gid, Signal, Uid, getegid, geteuid, set_parent_process_death_signal};

use crate::ends::Starter;

/// Who runs what needs no rights: the user `nobody` of most systems.
pub const NOBODY: u32 = 65_534;

/// Whether [`NOBODY`] gets to what is given to them in a directory.
///
/// # Errors
/// Where not, with the remedy, for a person.
pub(crate) fn is_reached_by_nobody(directory: &Path) -> Result<(), String> {
    let whole = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let is_shut = |at: &&Path| at.metadata().is_ok_and(|found| found.mode() & OTHERS_PASS == 0);
    match whole.ancestors().find(is_shut) {
        Some(shut) => Err(format!(
            "the user nobody, who runs the servers, cannot get past {}; name another place with --dir",
            shut.display()
        )),
        None => Ok(()),
    }
}

/// `S_IXOTH` of inode(7).
const OTHERS_PASS: u32 = 0o001;

/// Where a program is put.
#[derive(Debug, Clone, Default)]
pub struct Confinement {
    /// Groups that it is put into.
    pub groups: Vec<PathBuf>,
    /// Whether it has a network of its own, with a loopback interface and nothing else, and is the
    /// first process of a process namespace of its own.
    pub apart: bool,
    /// The user and the group that it runs as.
    pub user: Option<u32>,
}

impl Confinement {
    /// The words by which `bytepath confine` is told.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for group in &self.groups {
            words.extend(["--join".to_owned(), group.display().to_string()]);
        }
        words.extend(self.apart.then(|| "--apart".to_owned()));
        words.extend(self.user.iter().flat_map(|user| ["--user".to_owned(), user.to_string()]));
        words
    }

    /// A program that is run so, by this `bytepath`.
    pub fn command(&self, bytepath: &Path, program: &Path) -> Command {
        let mut command = Command::new(bytepath);
        command.arg("confine").args(Starter::this().words()).args(self.words());
        command.arg("--").arg(program);
        command
    }

    /// Puts this process there and becomes the program; where it has a process namespace of its own,
    /// starts it and waits for it.
    ///
    /// # Errors
    /// Why it cannot be there, and what to do.
    pub fn enter(&self, mut program: Command) -> Result<ExitCode, String> {
        for group in &self.groups {
            let file = group.join("cgroup.procs");
            fs::write(&file, "0")
                .map_err(|error| format!("cannot go into {}: {error}", group.display()))?;
        }
        if self.apart {
            apart()?;
        }
        if let Some(user) = self.user {
            become_user(user).map_err(|error| {
                format!("cannot become the user {user}: {error}; that takes root")
            })?;
        }
        let name = program.get_program().to_string_lossy().into_owned();
        let failed = |error: Error| format!("cannot start {name}: {error}");
        if !self.apart {
            // Forgotten when the user changed.
            set_parent_process_death_signal(Some(Signal::KILL))
                .map_err(|errno| failed(errno.into()))?;
            return Err(failed(program.exec()));
        }
        let status = program.status().map_err(failed)?;
        match (status.code(), status.signal()) {
            (Some(code), _) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(1))),
            (_, signal) => Err(format!("{name} was ended by signal {}", signal.unwrap_or(0))),
        }
    }
}

/// Has this process's network, and the processes that it starts, apart from all others.
fn apart() -> Result<(), String> {
    let (user, group) = (geteuid(), getegid());
    let mut flags = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWPID;
    if !user.is_root() {
        flags |= CloneFlags::CLONE_NEWUSER;
    }
    unshare(flags).map_err(|errno| {
        let error = Error::from(errno);
        let hint = match user.is_root() {
            true => "a container may forbid it: run it on the host, or with CAP_SYS_ADMIN",
            false => {
                "run it as root, or let users have namespaces (sysctl user.max_user_namespaces, \
                 kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"
            }
        };
        format!("no network namespace of its own: {error}; {hint}")
    })?;
    if !user.is_root() {
        let mapped = map_to_itself(user, group);
        mapped.map_err(|error| format!("cannot stay the same user in a namespace: {error}"))?;
    }
    loopback_up().map_err(|error| format!("cannot use the loopback interface: {error}"))
}

/// In a namespace of users too, this process is who it was.
fn map_to_itself(user: Uid, group: Gid) -> IoResult<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    let (user, group) = (user.as_raw(), group.as_raw());
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// Runs as an ordinary user from now on. Only where this process has one thread: others would stay
/// who they are.
fn become_user(id: u32) -> IoResult<()> {
    let (user, group) = (Uid::from_raw(id), Gid::from_raw(id));
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)?;
    Ok(())
}

/// The loopback interface is the first one of every network.
const LOOPBACK_INDEX: i32 = 1;
/// `RTM_NEWLINK` of linux/rtnetlink.h.
const NEW_LINK: u16 = 16;
/// `NLM_F_REQUEST | NLM_F_ACK` of linux/netlink.h.
const REQUEST_AND_ANSWER: u16 = 1 | 4;
/// `IFF_UP` of linux/if.h.
const UP: u32 = 1;
/// `NLMSG_ERROR`, whose number is zero where all went well.
const ANSWER: u16 = 2;

/// Switches the loopback interface of this network on (rtnetlink(7)).
fn loopback_up() -> IoResult<()> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // NETLINK_ROUTE is the one that is 0.
        None,
    )?;
    let mut message = Vec::new();
    // A `struct nlmsghdr`, and a `struct ifinfomsg`.
    message.extend(32_u32.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST_AND_ANSWER.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([0; 4]);
    message.extend(LOOPBACK_INDEX.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    rustix::net::send(&socket, &message, SendFlags::empty())?;
    let mut answer = [0; 256];
    let (count, _) = rustix::net::recv(&socket, &mut answer, RecvFlags::empty())?;
    let kind = answer.get(4..6).map(|bytes| u16::from_ne_bytes([bytes[0], bytes[1]]));
    let number = answer.get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match (kind, number) {
        (Some(ANSWER), Some(0)) if count >= 20 => Ok(()),
        (Some(ANSWER), Some(errno)) => Err(Errno::from_raw_os_error(errno.saturating_neg()).into()),
        _ => Err(Error::other("the kernel answers something else")),
    }
}
