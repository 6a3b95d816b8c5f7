//! Whether io_uring answers here, what it can do, and whose word it is where it does not.
//!
//! Three refusals look alike to a program and are not: an administrator's switch, a container's
//! filter, and a kernel without it. Each has its own remedy.

use std::fmt;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Gid, getegid, getgroups};

use super::user::{Capability, User, has_all_users};
use super::{Answer, files};
use crate::error::Refusal;
use crate::sys::ring_probe;

/// What came of asking for a ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ring {
    /// There is one.
    Available(RingFeatures),
    /// The kernel has it and somebody forbids it: the reason names who.
    NotPermitted {
        /// The kernel's word: EPERM, or EACCES from a security module.
        errno: Errno,
        /// Who forbids it.
        why: String,
        /// What would allow it.
        remedy: String,
    },
    /// ENOSYS: this kernel was built without it (or a sandbox pretends so).
    Unknown {
        /// Which of the two is likely.
        why: String,
        /// What would help.
        remedy: String,
    },
    /// Anything else, such as no descriptors left.
    Failed {
        /// The kernel's word.
        errno: Errno,
        /// What would help.
        remedy: String,
    },
}

/// What a ring of this kernel can do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RingFeatures {
    /// The IORING_FEAT_* bits of linux/io_uring.h.
    pub bits: u32,
    /// Bit n is set where operation n (IORING_OP_*) is supported; none where the kernel does not
    /// tell.
    pub operations: u128,
}

impl RingFeatures {
    /// The names of the features, in the kernel's order, in small letters.
    pub fn names(self) -> Vec<&'static str> {
        let known = FEATURES.iter().enumerate();
        known.filter(|(bit, _)| self.bits & (1 << bit) != 0).map(|(_, name)| *name).collect()
    }
}

/// IORING_FEAT_*, each at the place of its bit.
const FEATURES: &[&str] = &[
    "single_mmap",
    "nodrop",
    "submit_stable",
    "rw_cur_pos",
    "cur_personality",
    "fast_poll",
    "poll_32bits",
    "sqpoll_nonfixed",
    "ext_arg",
    "native_workers",
    "rsrc_tags",
    "cqe_skip",
    "linked_file",
    "reg_reg_ring",
    "recvsend_bundle",
    "min_timeout",
    "rw_attr",
    "no_iowait",
];

impl Ring {
    /// Asks for a ring and gives it back; where refused, reads the settings below `root` for the
    /// reason.
    pub fn probe(root: &Path) -> Ring {
        match ring_probe::ring() {
            Ok(ring) => {
                Ring::Available(RingFeatures { bits: ring.features, operations: ring.operations })
            }
            Err(errno) => refused(errno, Hindrances::read(root)),
        }
    }

    /// The same as a plain yes or no.
    pub fn answer(&self) -> Answer {
        match self.clone() {
            Ring::Available(_) => Answer::Yes,
            Ring::NotPermitted { errno, why, remedy } => Answer::refused(errno, why, remedy),
            Ring::Unknown { why, remedy } => Answer::refused(Errno::NOSYS, why, remedy),
            Ring::Failed { errno, remedy } => {
                Answer::refused(errno, "io_uring_setup failed", remedy)
            }
        }
    }

    /// What it can do, where there is one.
    pub fn features(&self) -> Option<RingFeatures> {
        match self {
            Ring::Available(features) => Some(*features),
            _ => None,
        }
    }
}

impl fmt::Display for Ring {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ring::Available(features) => write!(
                out,
                "yes: {} operations; {}",
                features.operations.count_ones(),
                features.names().join(" ")
            ),
            _ => self.answer().fmt(out),
        }
    }
}

/// Why io_uring_setup(2) gave this word here, with the remedy: what a route says that wants a ring.
pub(crate) fn refusal(errno: Errno) -> Refusal {
    match refused(errno, Hindrances::read(Path::new("/"))) {
        Ring::NotPermitted { errno, why, remedy } => {
            Refusal::errno(format!("io_uring is not permitted: {why}"), errno).remedy(remedy)
        }
        Ring::Unknown { why, remedy } => {
            Refusal::errno(format!("io_uring is not known here: {why}"), Errno::NOSYS)
                .remedy(remedy)
        }
        Ring::Failed { errno, remedy } => {
            Refusal::errno("no ring is to be had (io_uring_setup)", errno).remedy(remedy)
        }
        Ring::Available(_) => Refusal::errno("io_uring_setup failed", errno),
    }
}

/// What may stand between a process and io_uring.
struct Hindrances {
    /// kernel.io_uring_disabled (since 6.6): 0 is for all, 1 for the privileged, 2 for nobody.
    disabled: Option<u32>,
    /// By CAP_SYS_ADMIN over all of the machine, or by the group.
    privileged: bool,
    seccomp: bool,
}

impl Hindrances {
    fn read(root: &Path) -> Hindrances {
        let user = User::read(root);
        // -1 is no group.
        let group = files::number(root, "proc/sys/kernel/io_uring_group");
        let holds = user.capabilities.has(Capability::SysAdmin) || group.is_some_and(is_in_group);
        Hindrances {
            disabled: files::number(root, "proc/sys/kernel/io_uring_disabled"),
            // Elsewhere both are of a namespace, which the kernel does not ask.
            privileged: holds && has_all_users(),
            seccomp: user.seccomp,
        }
    }
}

fn is_in_group(group: u32) -> bool {
    let is = |one: Gid| one.as_raw() == group;
    is(getegid()) || getgroups().is_ok_and(|groups| groups.into_iter().any(is))
}

fn refused(errno: Errno, hindrances: Hindrances) -> Ring {
    match errno {
        Errno::PERM | Errno::ACCESS => {
            let (why, remedy) = forbidden_by(hindrances);
            Ring::NotPermitted { errno, why: why.to_owned(), remedy: remedy.to_owned() }
        }
        Errno::NOSYS if hindrances.seccomp => Ring::Unknown {
            why: "a seccomp filter hides io_uring, or this kernel was built without it".to_owned(),
            remedy: "run outside the sandbox, or allow io_uring_setup in its filter".to_owned(),
        },
        Errno::NOSYS => Ring::Unknown {
            why: "this kernel was built without io_uring".to_owned(),
            remedy: "use a kernel with CONFIG_IO_URING".to_owned(),
        },
        errno => Ring::Failed { errno, remedy: remedy(errno).to_owned() },
    }
}

fn forbidden_by(hindrances: Hindrances) -> (&'static str, &'static str) {
    match hindrances {
        Hindrances { disabled: Some(2..), .. } => (
            "kernel.io_uring_disabled is 2: no process may use io_uring",
            "as root: sysctl kernel.io_uring_disabled=0",
        ),
        Hindrances { disabled: Some(1), privileged: false, .. } => (
            "kernel.io_uring_disabled is 1: only CAP_SYS_ADMIN and the group in \
             kernel.io_uring_group may",
            "join that group, or as root: sysctl kernel.io_uring_disabled=0",
        ),
        Hindrances { seccomp: true, .. } => (
            "a seccomp filter forbids io_uring, as container engines do by default",
            "run with a seccomp profile that allows io_uring_setup, io_uring_enter and \
             io_uring_register",
        ),
        _ => (
            "a security module (SELinux, AppArmor, BPF) forbids io_uring",
            "look for the denial in the kernel's log (dmesg) or the audit log",
        ),
    }
}

fn remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::MFILE | Errno::NFILE => "close descriptors or raise ulimit -n",
        // Linux before 5.12 does, and later ones again (seen on 6.18, without CAP_IPC_LOCK).
        Errno::NOMEM => {
            "raise ulimit -l, as this kernel may count rings as locked memory; if it is not low, \
             memory is short"
        }
        _ => "use another route",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hindrances(disabled: Option<u32>, privileged: bool, seccomp: bool) -> Hindrances {
        Hindrances { disabled, privileged, seccomp }
    }

    #[test]
    fn a_ring_that_is_not_permitted_names_who_forbids_it() {
        let cases = [
            (hindrances(Some(2), true, true), "kernel.io_uring_disabled is 2"),
            (hindrances(Some(1), false, true), "kernel.io_uring_disabled is 1"),
            (hindrances(Some(1), true, true), "a seccomp filter"),
            (hindrances(None, false, true), "a seccomp filter"),
            (hindrances(Some(0), false, false), "a security module"),
        ];
        for (hindrances, who) in cases {
            let ring = refused(Errno::PERM, hindrances);
            let Ring::NotPermitted { why, .. } = &ring else { panic!("{ring}") };
            assert!(why.starts_with(who), "{why}");
        }
    }

    #[test]
    fn the_group_is_privileged_as_root_is_and_neither_in_a_namespace_of_some_users() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        let ours = getegid().as_raw();
        for (group, capabilities, holds) in [
            ("-1".to_owned(), "0", false),
            ("-1".to_owned(), "200000", true),
            (ours.to_string(), "0", true),
            ((1 << 30 | ours).to_string(), "0", false),
        ] {
            write("proc/sys/kernel/io_uring_group", &format!("{group}\n"));
            write("proc/thread-self/status", &format!("CapEff:\t{capabilities}\n"));
            let found = Hindrances::read(folder.path()).privileged;
            assert_eq!(found, holds && has_all_users(), "{group} {capabilities}");
        }
    }

    #[test]
    fn a_kernel_without_rings_is_told_from_one_that_forbids_them() {
        let ring = refused(Errno::NOSYS, hindrances(None, false, false));
        assert!(matches!(ring, Ring::Unknown { .. }));
        assert!(ring.to_string().starts_with("no: this kernel was built without io_uring"));
        let ring = refused(Errno::MFILE, hindrances(None, false, false));
        assert!(ring.to_string().ends_with("close descriptors or raise ulimit -n"));
        let ring = refused(Errno::NOMEM, hindrances(None, false, false)).to_string();
        assert!(ring.contains("raise ulimit -l") && !ring.contains("5.12"), "{ring}");
    }

    #[test]
    fn a_ring_that_is_available_can_do_nothing_at_least() {
        let ring = Ring::probe(Path::new("/"));
        let Some(features) = ring.features() else {
            println!("skipped: io_uring: {ring}");
            return;
        };
        assert_eq!(features.operations & 1, 1, "IORING_OP_NOP");
        assert!(features.names().contains(&"single_mmap"));
    }
}
