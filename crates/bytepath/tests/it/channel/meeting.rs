//! How ends find each other, and who is turned away.

use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bytepath::channel::{Address, ChannelError, Connection, Listener, Setup, Users};
use bytepath::pages::{PageSize, PagesError, SharedMemory};

use super::{name, small};
use crate::examples::example;
use crate::pool::Pool;
use crate::storm::in_a_storm;
use crate::this_test;
use crate::watch::bounded;

const PATIENCE: Duration = Duration::from_secs(20);

fn address(words: impl AsRef<std::ffi::OsStr>) -> Address {
    Address::parse(words).expect("an address")
}

#[test]
fn ends_meet_at_paths_and_at_names_whoever_comes_first() {
    bounded(|_| {
        let directory = tempfile::tempdir().expect("a directory");
        for address in [address(directory.path().join("channel")), address(name("meeting"))] {
            let early = std::thread::spawn({
                let address = address.clone();
                move || Connection::connect(&address, PATIENCE)?.receiver(&small()).map(drop)
            });
            let listener = Listener::bind(&address).expect("a listener");
            listener.accept().expect("somebody").sender(&small()).expect("a sender");
            early.join().expect("no panic").expect("a receiver");
        }
        assert_eq!(std::fs::read_dir(directory.path()).expect("it is there").count(), 0);
    });
}

#[test]
fn an_end_may_be_inherited_and_other_descriptors_are_no_ends() {
    let (_here, there) = Connection::pair().expect("a pair");
    Connection::from_fd(OwnedFd::from(there)).expect("an end");
    let (stream, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
    let file = tempfile::tempfile().expect("a file");
    for fd in [OwnedFd::from(stream), OwnedFd::from(file)] {
        assert!(matches!(Connection::from_fd(fd), Err(ChannelError::Stray(_))));
    }
}

#[test]
fn nobody_at_an_address_is_told_with_the_address() {
    let directory = tempfile::tempdir().expect("a directory");
    let absent = directory.path().join("absent");
    let error = Connection::connect(&address(&absent), Duration::ZERO).expect_err("nobody");
    let said = error.to_string();
    assert!(said.contains("absent") && said.contains("start the other end first"), "{said}");
    assert!(Connection::connect(&address(name("absent")), Duration::ZERO).is_err());
}

#[test]
fn an_address_is_one_listener_s_until_it_is_gone() {
    let directory = tempfile::tempdir().expect("a directory");
    for address in [address(directory.path().join("channel")), address(name("taken"))] {
        let listener = Listener::bind(&address).expect("a listener");
        assert!(matches!(Listener::bind(&address), Err(ChannelError::Taken(_))));
        drop(listener);
        Listener::bind(&address).expect("it is free again");
    }
}

#[test]
fn what_a_killed_listener_left_is_replaced_and_other_files_are_not() {
    bounded(|_| {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("channel");
        let Some(mut consumer) = example("channel_consumer") else { return };
        consumer.arg(&path).stdout(Stdio::null()).stderr(Stdio::null());
        let mut consumer = consumer.spawn().expect("it runs");
        while Connection::connect(&address(&path), Duration::ZERO).is_err() {
            std::thread::yield_now();
        }
        consumer.kill().expect("it is killed");
        consumer.wait().expect("it is gone");
        if path.exists() {
            drop(Listener::bind(&address(&path)).expect("a listener"));
        }
        std::fs::write(&path, "mine").expect("a file");
        let refused = Listener::bind(&address(&path)).expect_err("it is a file").to_string();
        assert!(refused.contains("something else has its name"), "{refused}");
        assert_eq!(std::fs::read(&path).expect("it is still there"), b"mine");
    });
}

#[test]
fn what_another_user_left_and_cannot_be_removed_is_said_to_be_in_the_way() {
    bounded(|_| {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can be two users");
            return;
        }
        let Some(consumer) = example("channel_consumer") else { return };
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory.path().join("consumer");
        std::fs::copy(consumer.get_program(), &program).expect("a copy that anybody may run");
        let mode = |path: &std::path::Path, mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(path, mode).expect("it is ours");
        };
        mode(directory.path(), 0o1777);
        let path = directory.path().join("channel");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("it is free"));
        for (bits, why) in [
            (0o777, "a socket that nobody listens at is in the way and cannot be removed"),
            (0o755, "a socket is in the way, and this user may not ask who listens there"),
        ] {
            mode(&path, bits);
            let mut consumer = Command::new(&program);
            let done = consumer.arg(&path).uid(65534).output().expect("it runs");
            let said = String::from_utf8_lossy(&done.stderr);
            assert!(!done.status.success() && said.contains(why), "{said}");
            assert!(!said.contains("Taken"), "{said}");
        }
        Listener::bind(&address(&path)).expect("root may remove it");
    });
}

#[test]
fn a_signal_says_nothing_of_the_other_end() {
    bounded(|_| {
        let (here, there) = Connection::pair().expect("a pair");
        let _sender = here.buffer_sender(&small(), 1 << 20).expect("a sender");
        // The first word alone, as of one that has yet to offer its ring.
        let mut hello = [0; 64];
        let (_, bytes) = rustix::net::recv(&there, &mut hello, rustix::net::RecvFlags::DONTWAIT)
            .expect("it says hello");
        let (here, there) = Connection::pair().expect("a pair");
        rustix::net::send(&here, &hello[..bytes], rustix::net::SendFlags::empty()).expect("room");
        assert!(!there.has_offered_buffers());
        let gone = in_a_storm(|| (0..20_000).filter(|_| there.has_offered_buffers()).count());
        assert_eq!(gone, 0);
        drop(here);
        assert!(in_a_storm(|| there.has_offered_buffers()));
    });
}

/// A socket that listens there, and all who may wait at it: one.
fn full(path: &Path) -> (OwnedFd, Connection) {
    let at = rustix::net::SocketAddrUnix::new(path).expect("it fits");
    let kind = rustix::net::SocketType::SEQPACKET;
    let socket = rustix::net::socket(rustix::net::AddressFamily::UNIX, kind, None);
    let socket = socket.expect("a socket");
    rustix::net::bind(&socket, &at).expect("it is free");
    rustix::net::listen(&socket, 0).expect("it listens");
    (socket, Connection::connect(&address(path), PATIENCE).expect("there is room for one"))
}

#[test]
fn who_is_interrupted_until_its_patience_ends_is_not_told_that_nobody_listens() {
    bounded(|_| {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("channel");
        let _full = full(&path);
        let patience = Duration::from_millis(50);
        let silent = in_a_storm(|| Connection::connect(&address(&path), patience));
        assert!(matches!(silent, Err(ChannelError::Silent(_))), "{silent:?}");
    });
}

#[test]
fn a_listener_hears_nothing_of_others_who_want_its_address() {
    bounded(|_| {
        let directory = tempfile::tempdir().expect("a directory");
        let path = address(directory.path().join("channel"));
        let listener = Listener::bind(&path).expect("a listener");
        for _ in 0..10 {
            assert!(matches!(Listener::bind(&path), Err(ChannelError::Taken(_))));
        }
        assert!(listener.try_accept().expect("it listens").is_none(), "nobody has connected");
        assert_eq!(std::fs::read_dir(directory.path()).expect("it is there").count(), 1);
    });
}

#[test]
fn a_path_may_be_as_long_as_the_kernel_takes_it() {
    const MOST: usize = 107;
    let directory = tempfile::tempdir().expect("a directory");
    let left = MOST - directory.path().as_os_str().len() - "//c".len();
    let folder = directory.path().join("f".repeat(left));
    std::fs::create_dir(&folder).expect("it is made");
    let path = folder.join("c");
    assert_eq!(path.as_os_str().len(), MOST);
    for is_left in [false, true] {
        if is_left {
            drop(std::os::unix::net::UnixListener::bind(&path).expect("it is free"));
            assert!(path.exists());
        }
        let listener = Listener::bind(&address(&path)).expect("a listener");
        assert!(matches!(Listener::bind(&address(&path)), Err(ChannelError::Taken(_))));
        drop(listener);
        assert!(!path.exists());
    }
}

#[test]
fn an_address_is_taken_though_too_many_wait_there() {
    bounded(|_| {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("channel");
        let _full = full(&path);
        assert!(matches!(Listener::bind(&address(&path)), Err(ChannelError::Taken(_))));
    });
}

#[test]
fn of_many_who_want_an_address_at_once_one_gets_it() {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    const ROUNDS: usize = 1000;
    let socket = |kind| {
        let made = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
        made.expect("a socket")
    };
    bounded(move |_| {
        let directory = tempfile::tempdir().expect("a directory");
        for round in 0..ROUNDS {
            let path = directory.path().join("channel");
            if round % 2 == 0 {
                // What one who is gone has left is replaced by one of them.
                let at = rustix::net::SocketAddrUnix::new(&path).expect("it fits");
                rustix::net::bind(socket(SocketType::SEQPACKET), &at).expect("it is free");
                // What another test starts meanwhile has it, too, until it is another program.
                let is_gone = || {
                    let asked = rustix::net::connect(socket(SocketType::DGRAM), &at);
                    asked == Err(rustix::io::Errno::CONNREFUSED)
                };
                while !is_gone() {
                    std::thread::yield_now();
                }
            }
            let start = std::sync::Barrier::new(3);
            let listeners: Vec<_> = std::thread::scope(|scope| {
                let bind = || {
                    start.wait();
                    Listener::bind(&address(&path))
                };
                let all = [scope.spawn(bind), scope.spawn(bind), scope.spawn(bind)];
                all.map(|one| one.join().expect("no panic")).into_iter().flatten().collect()
            });
            assert_eq!(listeners.len(), 1, "round {round}");
            Connection::connect(&address(&path), PATIENCE).expect("it is found");
            assert!(listeners[0].try_accept().expect("it listens").is_some());
            drop(listeners);
            assert_eq!(std::fs::read_dir(directory.path()).expect("it lists").count(), 0);
        }
    });
}

#[test]
fn who_looked_whether_somebody_has_connected_may_wait_all_the_same() {
    bounded(|_| {
        let address = address(name("looked"));
        let listener = Listener::bind(&address).expect("a listener");
        assert!(listener.try_accept().expect("it listens").is_none());
        let waits = std::thread::spawn(move || listener.accept().map(drop));
        Connection::connect(&address, PATIENCE).expect("somebody listens");
        waits.join().expect("no panic").expect("somebody has connected");
    });
}

#[test]
fn an_end_of_another_user_is_turned_away_unless_any_is_welcome() {
    bounded(|watch| {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can be two users");
            return;
        }
        let Some(producer) = example("channel_producer") else { return };
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory.path().join("producer");
        std::fs::copy(producer.get_program(), &program).expect("a copy that anybody may run");
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(directory.path(), open).expect("open to all");
        for users in [Users::Same, Users::Any] {
            watch.at(format_args!("{users:?}"));
            let name = name("stranger");
            let listener = Listener::bind(&address(&name)).expect("a listener");
            let mut producer = Command::new(&program);
            producer.arg(&name).uid(65534).stdin(Stdio::null()).stderr(Stdio::piped());
            let producer = match producer.spawn() {
                Ok(producer) => producer,
                Err(error) => {
                    eprintln!("skipped: {}: {error}", program.display());
                    return;
                }
            };
            let connection = listener.accept().expect("somebody");
            let receiver = connection.receiver(&Setup { users, ..small() });
            match (users, receiver) {
                (Users::Same, Err(ChannelError::Stranger { theirs: 65534, ours: 0 })) => {}
                (Users::Any, Ok(mut receiver)) => {
                    assert!(receiver.filled(1).expect("an answer").is_none());
                }
                (_, other) => panic!("{users:?}: {other:?}"),
            }
            let done = producer.wait_with_output().expect("it ends");
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            match users {
                Users::Same => assert!(!done.status.success() && said.contains("HungUp"), "{said}"),
                Users::Any => assert!(done.status.success(), "{said}"),
            }
        }
    });
}

#[test]
fn a_ring_in_pages_that_are_not_to_be_had_is_refused_with_the_remedy() {
    let pool = Pool::turn();
    if pool.as_ref().is_some_and(|pool| pool.free_pages() > 0) {
        eprintln!("skipped: the pool has pages");
        return;
    }
    let (here, there) = Connection::pair().expect("a pair");
    let receiver = std::thread::spawn(move || there.receiver(&small()).map(drop));
    let setup = Setup { pages: PageSize::Hugetlb, ..small() };
    let error = here.sender(&setup).map(drop).expect_err("the pool is empty").to_string();
    assert!(error.contains("no memory for the channel") && error.contains("hugetlb"), "{error}");
    assert!(matches!(receiver.join().expect("no panic"), Err(ChannelError::HungUp)));
}

#[test]
fn a_ring_that_is_more_than_the_machine_has_is_refused() {
    let (here, there) = Connection::pair().expect("a pair");
    let receiver = std::thread::spawn(move || there.receiver(&small()).map(drop));
    let error = here.sender(&Setup { ring_bytes: 1 << 40, ..small() }).expect_err("it has less");
    assert!(error.to_string().contains("no memory for the channel"), "{error}");
    assert!(matches!(receiver.join().expect("no panic"), Err(ChannelError::HungUp)));
}

/// A group whose memory is limited, gone on drop.
struct Narrow(PathBuf);

impl Narrow {
    fn make(bytes: usize) -> Option<Narrow> {
        let of = |folder: &str, limit: &str| {
            let group = Path::new(folder).join("bytepath-test-narrow");
            // One that was left is as good.
            let _ = std::fs::create_dir(&group);
            let group = Narrow(group);
            std::fs::write(group.0.join(limit), bytes.to_string()).ok().map(|()| group)
        };
        of("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            .or_else(|| of("/sys/fs/cgroup", "memory.max"))
    }
}

impl Drop for Narrow {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// The name of the test below, for its own child.
const NARROW: &str = "channel::meeting::a_ring_that_is_more_than_a_group_leaves_is_refused";

#[test]
fn a_ring_that_is_more_than_a_group_leaves_is_refused() {
    const CHILD: &str = "BYTEPATH_TEST_NARROW";
    if let Some(group) = std::env::var_os(CHILD) {
        std::fs::write(Path::new(&group).join("cgroup.procs"), "0").expect("it enters the group");
        let (here, there) = Connection::pair().expect("a pair");
        let receiver = std::thread::spawn(move || there.receiver(&small()).map(drop));
        let error = here.sender(&Setup { ring_bytes: 256 << 20, ..small() });
        let error = error.expect_err("the group has less").to_string();
        for words in ["no memory for the channel", "cannot take", "bytepath-test-narrow/memory."] {
            assert!(error.contains(words), "{error}");
        }
        assert!(matches!(receiver.join().expect("no panic"), Err(ChannelError::HungUp)));
        // So is memory that is there at once, for whatever it is.
        let memory = SharedMemory::create(256 << 20, PageSize::Huge).map(drop);
        assert!(matches!(memory, Err(PagesError::NoRoom { .. })), "{memory:?}");
        return;
    }
    let Some(group) = Narrow::make(64 << 20) else {
        eprintln!("skipped: no cgroup with a limit can be made here (that takes root)");
        return;
    };
    let done = this_test(NARROW).env(CHILD, &group.0).output().expect("it runs");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{done:?}");
}

/// The name of the test below.
const STARTED: &str =
    "channel::meeting::an_end_of_a_pair_is_the_standard_input_of_a_program_and_goes_to_no_other";

#[test]
fn an_end_of_a_pair_is_the_standard_input_of_a_program_and_goes_to_no_other() {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    const CHILD: &str = "BYTEPATH_TEST_HAS_AN_END";
    if std::env::var_os(CHILD).is_some() {
        let end = std::io::stdin().as_fd().try_clone_to_owned().expect("a descriptor");
        let mut sender =
            Connection::from_fd(end).expect("an end").sender(&small()).expect("a sender");
        sender.write_all(b"from the program").expect("it writes");
        return sender.finish();
    }
    bounded(|_| {
        let (here, there) = Connection::pair().expect("a pair");
        for end in [&here, &there] {
            let flags = rustix::io::fcntl_getfd(end).expect("it is open");
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        }
        let mut program = this_test(STARTED);
        program.env(CHILD, "1").stdout(Stdio::null());
        let mut child = program.stdin(OwnedFd::from(there)).spawn().expect("it runs");
        drop(program);
        let mut all = Vec::new();
        let mut receiver = here.receiver(&small()).expect("a receiver");
        receiver.read_to_end(&mut all).expect("all of it");
        assert_eq!(all, b"from the program");
        assert!(child.wait().expect("it ends").success());
    });
}
