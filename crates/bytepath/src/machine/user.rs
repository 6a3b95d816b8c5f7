//! Who we are to this kernel: root or not, what that allows, and whether a filter stands in
//! between.

use std::fmt;
use std::path::Path;

use super::files;

/// The user and the rights of the thread that asks; [`Machine::user`](super::Machine::user) keeps those of the
/// first that did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// Whether the effective user is root. Inside a container root may still lack every
    /// capability.
    pub root: bool,
    /// The effective capabilities.
    pub capabilities: Capabilities,
    /// Whether a seccomp filter decides about system calls, as in most containers.
    pub seccomp: bool,
}

/// A set of capabilities, as bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities(pub u64);

/// The capabilities that matter to moving bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// May lock memory without limit.
    IpcLock,
    /// May mount, pin down sysctls, and open rings where they are restricted.
    SysAdmin,
    /// May raise priorities and move other users' threads between CPUs.
    SysNice,
    /// May exceed pipe budgets and resource limits.
    SysResource,
}

impl Capability {
    /// All of them, by name.
    pub const ALL: &[Capability] =
        &[Capability::IpcLock, Capability::SysAdmin, Capability::SysNice, Capability::SysResource];

    /// The kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            Capability::IpcLock => "CAP_IPC_LOCK",
            Capability::SysAdmin => "CAP_SYS_ADMIN",
            Capability::SysNice => "CAP_SYS_NICE",
            Capability::SysResource => "CAP_SYS_RESOURCE",
        }
    }

    /// The bit's number in linux/capability.h.
    fn bit(self) -> u32 {
        match self {
            Capability::IpcLock => 14,
            Capability::SysAdmin => 21,
            Capability::SysNice => 23,
            Capability::SysResource => 24,
        }
    }
}

impl Capabilities {
    /// Whether `capability` is in the set.
    pub fn has(self, capability: Capability) -> bool {
        self.0 & (1 << capability.bit()) != 0
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Capability::ALL
            .iter()
            .filter(|capability| self.has(**capability))
            .map(|capability| capability.name())
            .collect();
        if names.is_empty() { out.write_str("none") } else { out.write_str(&names.join(" ")) }
    }
}

impl User {
    /// Asks the kernel, and reads proc/thread-self/status below `root` (`/` for this machine).
    pub fn read(root: &Path) -> User {
        let status = status_of_this_thread(root);
        let bits = files::value(&status, "CapEff");
        let bits = bits.and_then(|bits| u64::from_str_radix(bits, 16).ok()).unwrap_or(0);
        User {
            root: rustix::process::geteuid().is_root(),
            capabilities: Capabilities(bits),
            seccomp: filters_in(&status).is_some(),
        }
    }
}

/// How many seccomp filters decide about this thread's system calls, of which none ever goes again; `None`
/// where there are none.
pub(crate) fn seccomp_filters() -> Option<u32> {
    filters_in(&status_of_this_thread(Path::new("/")))
}

fn status_of_this_thread(root: &Path) -> String {
    files::text(root, "proc/thread-self/status").unwrap_or_default()
}

fn filters_in(status: &str) -> Option<u32> {
    let number = |key| files::value(status, key).and_then(|number| number.parse().ok());
    number("Seccomp").filter(|mode| *mode != 0)?;
    Some(number("Seccomp_filters").unwrap_or(0))
}

/// Whether every user of the machine is one here: this process is in no namespace of some users alone
/// (user_namespaces(7)), whose root may do less. True where the kernel has no such namespaces.
pub fn has_all_users() -> bool {
    let all = |map: String| map.split_whitespace().eq(["0", "0", "4294967295"]);
    std::fs::read_to_string("/proc/self/uid_map").map_or(true, all)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn capabilities_and_the_filter_are_read_from_the_status() {
        let root = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir_all(root.path().join("proc/thread-self")).expect("a folder for the status");
        let status = "Name:\tx\nCapEff:\t0000000001004000\nSeccomp:\t2\nSeccomp_filters:\t3\n";
        fs::write(root.path().join("proc/thread-self/status"), status).expect("the status");
        let user = User::read(root.path());
        assert_eq!(user.capabilities.to_string(), "CAP_IPC_LOCK CAP_SYS_RESOURCE");
        assert!(user.seccomp);
        assert_eq!(filters_in(status), Some(3));
        assert_eq!(filters_in("Seccomp:\t0\nSeccomp_filters:\t0\n"), None);
    }

    #[test]
    fn without_a_status_nothing_is_claimed() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let user = User::read(root.path());
        assert_eq!(user.capabilities.to_string(), "none");
        assert!(!user.seccomp);
    }
}
