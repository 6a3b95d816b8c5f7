//! The ring itself: what it answers, what it cancels, and what it says where it is refused.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytepath::Meter;
use bytepath::pages::Pages;
use bytepath::ring::{
    Answer, Buffer, Completion, Completions, Operation, Request, Ring, Setup, Submission, Target,
};
use rustix::event::{EventfdFlags, PollFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::thread::CapabilitySet;

use crate::ends::{contents, disk_file, memfd, pipe, unix_pair};
use crate::stuck::until_stuck;
use crate::sys::{forked, interrupt, make_interruptible};
use crate::trial::same;
use crate::watch::bounded;

/// A ring, or a word on why there is none.
pub(crate) fn ring<'fd>(setup: &Setup) -> Option<Ring<'fd>> {
    Ring::open(setup).map_err(|refusal| eprintln!("skipped: no ring here: {refusal}")).ok()
}

fn buffer(bytes: usize) -> Buffer {
    Buffer::allocate(bytes, &Pages::default()).expect("memory")
}

fn file_of(bytes: &[u8]) -> File {
    let mut file = disk_file();
    file.write_all(bytes).expect("written");
    file
}

/// The answer to one request alone.
fn asked<'fd>(ring: &mut Ring<'fd>, request: Request<'fd>) -> Completion {
    ring.push(request);
    ring.wait().expect("it can be waited for").expect("it is in flight")
}

fn read(file: &File, at: u64, bytes: usize) -> Operation<'_> {
    Operation::Read { file: Target::Borrowed(file.as_fd()), at, bytes: 0..bytes }
}

#[test]
fn memory_comes_back_with_what_was_read_whatever_is_registered() {
    let all = contents(100_000);
    let file = file_of(all);
    let Some(mut first) = ring(&Setup::default()) else { return };
    let Some(mut second) = ring(&Setup::default()) else { return };
    let [plain, registered] = [buffer(65_536), buffer(65_536)];
    let registered =
        first.register_buffers(vec![registered]).expect("64 KiB may be pinned").remove(0);
    assert!(registered.is_registered());
    let target = first.register_files(&[file.as_fd()]).expect("one file")[0];
    let mut buffers = vec![plain, registered];
    for ring in [&mut first, &mut second] {
        for buffer in std::mem::take(&mut buffers) {
            let done = asked(ring, Request::new(3, read(&file, 1000, 65_536)).buffer(buffer));
            assert_eq!((done.token, done.first, done.then), (3, Ok(65_536), None));
            buffers.push(done.buffer.expect("its memory"));
            same(buffers.last().expect("one").as_slice(), &all[1000..66_536]);
        }
    }
    let by_place = Operation::Read { file: target, at: 0, bytes: 5..10 };
    let done = asked(&mut first, Request::new(4, by_place).buffer(buffers.remove(1)));
    assert_eq!(done.first, Ok(5));
    same(&done.buffer.expect("its memory").as_slice()[5..10], &all[..5]);
}

#[test]
fn a_place_among_the_files_of_one_ring_names_none_of_another() {
    let (ours, theirs) = (file_of(contents(100)), file_of(&[7; 100]));
    let Some(mut first) = ring(&Setup::default()) else { return };
    let Some(mut second) = ring(&Setup::default()) else { return };
    let target = first.register_files(&[ours.as_fd()]).expect("one file")[0];
    second.register_files(&[theirs.as_fd()]).expect("one file");
    let request = || {
        Request::new(1, Operation::Read { file: target, at: 0, bytes: 0..10 }).buffer(buffer(10))
    };
    let pushed = std::panic::AssertUnwindSafe(|| second.push(request()));
    assert!(std::panic::catch_unwind(pushed).is_err(), "the file is another ring's");
    assert_eq!(second.steps_in_flight(), 0);
    let done = asked(&mut first, request());
    same(&done.buffer.expect("its memory").as_slice()[..10], &contents(100)[..10]);
}

#[test]
fn a_ring_is_filled_again_and_again_and_every_request_answered_once() {
    let Some(mut ring) = ring(&Setup::with_entries(4)) else { return };
    let (mut pushed, mut seen) = (0, Vec::new());
    while seen.len() < 500 {
        while pushed < 500 && ring.room() >= 2 {
            let request = Request::new(pushed, Operation::Nop);
            ring.push(if pushed % 3 == 0 { request.then(Operation::Nop) } else { request });
            pushed += 1;
        }
        let done = ring.wait().expect("waited").expect("in flight");
        assert_eq!((done.first, done.then.is_some()), (Ok(0), done.token % 3 == 0));
        seen.push(done.token);
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..500).collect::<Vec<_>>());
    assert!(ring.wait().expect("nothing to wait for").is_none());
    assert!(ring.calls() < 500, "{} calls for 500 requests", ring.calls());
}

#[test]
fn a_short_read_cancels_the_write_that_is_linked_to_it() {
    let (from, to) = (file_of(contents(1000)), memfd());
    let Some(mut ring) = ring(&Setup::default()) else { return };
    let write = |bytes| Operation::Write { file: Target::Borrowed(to.as_fd()), at: 0, bytes };
    let short = Request::new(0, read(&from, 0, 4096)).then(write(0..4096));
    let done = asked(&mut ring, short.buffer(buffer(4096)));
    assert_eq!((done.first, done.then), (Ok(1000), Some(Err(Errno::CANCELED))));
    let whole = Request::new(0, read(&from, 0, 1000)).then(write(0..1000));
    let done = asked(&mut ring, whole.buffer(done.buffer.expect("its memory")));
    assert_eq!((done.first, done.then), (Ok(1000), Some(Ok(1000))));
}

#[test]
fn a_ring_dropped_with_requests_in_flight_cancels_them_and_takes_nothing() {
    bounded(|watch| {
        for setup in [
            Setup::default(),
            Setup {
                submission: Submission::Thread { idle: Duration::from_millis(1) },
                ..Setup::default()
            },
        ] {
            watch.at(format_args!("{setup:?}"));
            let ((reader, mut writer), (near, _far)) = (pipe(), unix_pair());
            let Some(mut ring) = ring(&setup) else { return };
            let hour = Duration::from_secs(3600);
            let (pipe, socket) = (Target::Borrowed(reader.as_fd()), Target::Borrowed(near.as_fd()));
            ring.push(Request::new(0, read(&reader, 0, 4096)).buffer(buffer(4096)));
            ring.push(
                Request::new(1, Operation::Receive { socket, bytes: 0..4096 }).buffer(buffer(4096)),
            );
            ring.push(Request::new(2, Operation::Poll { file: pipe, interest: PollFlags::IN }));
            ring.push(Request::new(3, Operation::Timeout(hour)));
            ring.submit().expect("submitted");
            // This one is not even handed over.
            ring.push(Request::new(4, read(&reader, 0, 4096)).buffer(buffer(4096)));
            assert_eq!(ring.steps_in_flight(), 5);
            drop(ring);
            writer.write_all(b"later").expect("written");
            assert_eq!(rustix::io::ioctl_fionread(&reader), Ok(5), "nobody reads any more");
        }
    });
}

#[test]
fn requests_are_cancelled_by_token_by_deadline_and_by_time() {
    bounded(|watch| {
        let (reader, writer) = pipe();
        let Some(mut ring) = ring(&Setup::default()) else { return };
        watch.at("by token");
        ring.push(Request::new(1, read(&reader, 0, 10)).buffer(buffer(4096)));
        ring.push(Request::new(2, Operation::Cancel(1)));
        let mut answers: Vec<(u64, Answer)> = (0..2)
            .map(|_| ring.wait().expect("waited").expect("in flight"))
            .map(|done| (done.token, done.first))
            .collect();
        answers.sort_by_key(|(token, _)| *token);
        assert!(matches!(answers[0].1, Err(Errno::CANCELED | Errno::INTR)), "{answers:?}");
        assert_eq!(answers[1].1, Ok(0));
        watch.at("by a token that is not in flight");
        let none = asked(&mut ring, Request::new(2, Operation::Cancel(1)));
        assert_eq!(none.first, Err(Errno::NOENT));
        watch.at("by deadline");
        let late = Request::new(3, read(&reader, 0, 10))
            .then(Operation::Deadline(Duration::from_millis(1)));
        let done = asked(&mut ring, late.buffer(buffer(4096)));
        assert!(matches!(done.first, Err(Errno::CANCELED | Errno::INTR)), "{done:?}");
        assert!(matches!(done.then, Some(Err(Errno::TIME | Errno::ALREADY))), "{done:?}");
        watch.at("by time");
        let done = asked(&mut ring, Request::new(4, Operation::Timeout(Duration::from_millis(1))));
        assert_eq!(done.first, Err(Errno::TIME));
        watch.at("by no time without end");
        rustix::io::write(&writer, b"x").expect("written");
        let late = Request::new(5, read(&reader, 0, 1)).then(Operation::Deadline(Duration::MAX));
        let done = asked(&mut ring, late.buffer(buffer(4096)));
        assert_eq!((done.first, done.then), (Ok(1), Some(Err(Errno::CANCELED))));
        ring.push(Request::new(6, Operation::Timeout(Duration::MAX)));
        ring.push(Request::new(7, Operation::Cancel(6)));
        let answers = [(); 2].map(|()| ring.wait().expect("waited").expect("in flight"));
        let timeout = answers.iter().find(|done| done.token == 6).expect("it is answered");
        assert_eq!(timeout.first, Err(Errno::CANCELED));
    });
}

#[test]
fn a_cancel_that_comes_late_hits_nobody_who_came_after() {
    bounded(|_| {
        let (near, mut far) = unix_pair();
        let (reader, writer) = pipe();
        let Some(mut ring) = ring(&Setup::default()) else { return };
        let socket = Target::Borrowed(near.as_fd());
        let receive = |token| {
            Request::new(token, Operation::Receive { socket, bytes: 0..10 }).buffer(buffer(10))
        };
        let file = Target::Borrowed(reader.as_fd());
        ring.push(receive(1));
        let ready = Operation::Poll { file, interest: PollFlags::IN };
        ring.push(Request::new(2, ready).then(Operation::Cancel(1)));
        ring.submit().expect("submitted");
        far.write_all(b"one").expect("written");
        let done = ring.wait().expect("waited").expect("in flight");
        assert_eq!((done.token, done.first), (1, Ok(3)));
        ring.push(receive(3));
        ring.submit().expect("submitted");
        rustix::io::write(&writer, b"x").expect("written");
        let late = ring.wait().expect("waited").expect("in flight");
        assert_eq!((late.token, late.then), (2, Some(Err(Errno::NOENT))), "{late:?}");
        far.write_all(b"three").expect("written");
        let done = ring.wait().expect("waited").expect("in flight");
        assert_eq!((done.token, done.first), (3, Ok(5)));
        same(&done.buffer.expect("its memory").as_slice()[..5], b"three");
    });
}

#[test]
fn a_request_is_cancelled_whose_first_step_is_done() {
    bounded(|_| {
        let (near, _far) = unix_pair();
        let Some(mut ring) = ring(&Setup::default()) else { return };
        let receive = Operation::Receive { socket: Target::Borrowed(near.as_fd()), bytes: 0..10 };
        ring.push(Request::new(1, Operation::Nop).then(receive).buffer(buffer(10)));
        ring.submit_and_wait(1).expect("submitted");
        assert!(ring.take().is_none(), "one step is in flight");
        assert_eq!(ring.steps_in_flight(), 1);
        ring.push(Request::new(2, Operation::Cancel(1)));
        let mut done = [(); 2].map(|()| ring.wait().expect("waited").expect("in flight"));
        done.sort_by_key(|done| done.token);
        let [cancelled, cancels] = done;
        assert_eq!((cancelled.first, cancels.first), (Ok(0), Ok(0)));
        let stopped = cancelled.then.expect("it has two steps");
        assert!(matches!(stopped, Err(Errno::CANCELED | Errno::INTR)), "{stopped:?}");
    });
}

#[test]
fn a_step_that_the_kernel_refuses_at_once_keeps_none_that_are_queued_behind_it() {
    bounded(|_| {
        let (reader, writer) = pipe();
        let Some(mut ring) = ring(&Setup::default()) else { return };
        // It is for a second step.
        let refused = |token| Request::new(token, Operation::Deadline(Duration::from_secs(1)));
        ring.push(refused(1));
        ring.push(Request::new(2, Operation::Nop));
        ring.submit_and_wait(2).expect("waited");
        let mut answers = [(); 2].map(|()| ring.take().expect("both are answered"));
        answers.sort_by_key(|done| done.token);
        assert_eq!(answers.map(|done| done.first), [Err(Errno::INVAL), Ok(0)]);
        ring.push(refused(3));
        let file = Target::Borrowed(writer.as_fd());
        let write = Operation::Write { file, at: 0, bytes: 0..5 };
        ring.push(Request::new(4, write).buffer(buffer(5)));
        ring.submit().expect("submitted");
        // Nothing is handed over from here on.
        let mut bytes = [1; 10];
        assert_eq!(rustix::io::read(&reader, &mut bytes), Ok(5));
        assert_eq!(bytes[..5], [0; 5]);
    });
}

#[test]
fn a_signal_ends_no_wait_before_there_are_answers() {
    bounded(|_| {
        let (near, mut far) = unix_pair();
        let Some(mut ring) = ring(&Setup::default()) else { return };
        let receive = Operation::Receive { socket: Target::Borrowed(near.as_fd()), bytes: 0..10 };
        ring.push(Request::new(1, receive).buffer(buffer(10)));
        make_interruptible();
        let (woken, waits) = (AtomicBool::new(false), rustix::thread::gettid());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let sent = || woken.load(Ordering::Relaxed);
                for _ in 0..3 {
                    until_stuck(waits, &Meter::new(), sent);
                    interrupt(waits);
                }
                until_stuck(waits, &Meter::new(), sent);
                far.write_all(b"bytes").expect("written");
            });
            let waited = ring.submit_and_wait(1);
            woken.store(true, Ordering::Relaxed);
            waited.expect("it can be waited for");
            let done = ring.take().map(|done| (done.token, done.first));
            assert_eq!(done, Some((1, Ok(5))));
        });
    });
}

#[test]
fn the_kernels_thread_submits_and_is_woken_when_it_has_gone_to_sleep() {
    bounded(|watch| {
        let file = file_of(contents(4096));
        let idle = Duration::from_millis(1);
        let setup = Setup { submission: Submission::Thread { idle }, ..Setup::default() };
        let Some(mut ring) = ring(&setup) else { return };
        let mut memory = buffer(4096);
        for turn in 0..5 {
            watch.at(format_args!("turn {turn}"));
            let done = asked(&mut ring, Request::new(0, read(&file, 0, 4096)).buffer(memory));
            assert_eq!(done.first, Ok(4096));
            memory = done.buffer.expect("its memory");
            // Longer than it watches an empty queue, so that the next request has to wake it.
            let pause = Request::new(1, Operation::Timeout(idle * 20));
            assert_eq!(asked(&mut ring, pause).first, Err(Errno::TIME));
        }
    });
}

#[test]
fn a_device_that_cannot_be_polled_is_told_from_a_ring_that_is_refused() {
    let file = file_of(contents(8192));
    let setup = Setup { completions: Completions::Polled, ..Setup::default() };
    let Some(mut ring) = ring(&setup) else { return };
    let done = asked(&mut ring, Request::new(0, read(&file, 0, 4096)).buffer(buffer(4096)));
    match done.first {
        Ok(count) => assert_eq!(count, 4096),
        Err(errno) => {
            let said = ring.refusal(errno).to_string();
            assert!(said.starts_with("this device cannot be asked"), "{said}");
            assert!(said.contains("O_DIRECT"), "{said}");
        }
    }
}

#[test]
fn an_eventfd_counts_completions() {
    let Some(mut ring) = ring(&Setup::default()) else { return };
    let eventfd = rustix::event::eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd");
    ring.notify(eventfd.as_fd()).expect("registered");
    let again = ring.notify(eventfd.as_fd()).expect_err("one is enough");
    assert_eq!(again.errno, Some(Errno::BUSY));
    assert_eq!(asked(&mut ring, Request::new(0, Operation::Nop)).first, Ok(0));
    let mut count = [0; 8];
    assert_eq!(rustix::io::read(&eventfd, &mut count), Ok(8));
    assert_eq!(u64::from_ne_bytes(count), 1);
}

#[test]
fn what_had_to_wait_is_taken_by_those_who_never_sleep_in_the_ring() {
    /// More than one call brings.
    const REQUESTS: u32 = 64;
    let takes: [fn(&mut Ring<'_>); 2] = [
        |ring| ring.submit().expect("submitted"),
        |ring| ring.submit_and_wait(0).expect("submitted"),
    ];
    bounded(move |_| {
        for submit in takes {
            let (reader, writer) = pipe();
            let Some(mut ring) = ring(&Setup::with_entries(REQUESTS)) else { return };
            let eventfd = rustix::event::eventfd(0, EventfdFlags::empty()).expect("an eventfd");
            ring.notify(eventfd.as_fd()).expect("registered");
            for token in 0..u64::from(REQUESTS) {
                let file = Target::Borrowed(reader.as_fd());
                ring.push(Request::new(token, Operation::Poll { file, interest: PollFlags::IN }));
            }
            submit(&mut ring);
            assert!(ring.take().is_none(), "the pipe is empty");
            rustix::io::write(&writer, b"x").expect("written");
            rustix::io::read(&eventfd, &mut [0; 8]).expect("it is told");
            let brought = std::iter::repeat_with(|| {
                submit(&mut ring);
                std::iter::from_fn(|| ring.take()).count()
            });
            let brought: usize = brought.take_while(|&brought| brought > 0).sum();
            assert_eq!(brought, REQUESTS as usize, "{:?}", ring.task_run());
        }
    });
}

#[test]
fn a_personality_keeps_the_rights_that_a_thread_has_given_up() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root has rights to give up");
    }
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let path = directory.path().join("locked");
    std::fs::write(&path, "secret").expect("written");
    rustix::fs::chmod(&path, rustix::fs::Mode::empty()).expect("it is ours");
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).expect("a path");
    let worker = std::thread::spawn(move || {
        let Some(mut ring) = ring(&Setup::default()) else { return };
        let root = ring.register_personality().expect("registered");
        let mut sets = rustix::thread::capabilities(None).expect("every thread has some");
        sets.effective.remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
        rustix::thread::set_capabilities(None, sets).expect("anybody may have fewer");
        let open = || Request::new(0, Operation::Open { path: path.clone() });
        assert_eq!(asked(&mut ring, open()).first, Err(Errno::ACCESS));
        let done = asked(&mut ring, open().personality(root));
        assert!(done.first.is_ok() && done.opened.is_some(), "{done:?}");
    });
    worker.join().expect("it ends");
}

#[test]
fn files_and_sockets_are_opened_filled_sized_and_closed_on_a_ring() {
    let ((near, mut far), file) = (unix_pair(), memfd());
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a listener");
    // It borrows for as long as it lives, so all that it borrows has to be older.
    let Some(mut ring) = ring(&Setup::default()) else { return };
    let path = || std::ffi::CString::new("/proc/self/exe").expect("a path");
    let opened = asked(&mut ring, Request::new(0, Operation::Open { path: path() })).opened;
    let opened = File::from(opened.expect("it opens"));
    let size = opened.metadata().expect("its metadata").len();
    let told = asked(&mut ring, Request::new(0, Operation::Statx { path: path() }));
    assert_eq!(told.bytes_of_file, Some(size));
    let closed = asked(&mut ring, Request::new(0, Operation::Close { file: opened.into() }));
    assert_eq!(closed.first, Ok(0));
    let target = Target::Borrowed(file.as_fd());
    let filled = Operation::Fallocate { file: target, at: 4096, len: 100 };
    assert_eq!(asked(&mut ring, Request::new(0, filled)).first, Ok(0));
    assert_eq!(file.metadata().expect("its metadata").len(), 4196);
    let socket = Target::Borrowed(near.as_fd());
    let mut words = buffer(4096);
    words.as_mut_slice()[..5].copy_from_slice(b"hello");
    let sent =
        asked(&mut ring, Request::new(0, Operation::Send { socket, bytes: 0..5 }).buffer(words));
    assert_eq!(sent.first, Ok(5));
    far.write_all(b"back").expect("written");
    let receive = Operation::Receive { socket, bytes: 0..100 };
    let got = asked(&mut ring, Request::new(0, receive).buffer(sent.buffer.expect("its memory")));
    assert_eq!(
        (got.first, &got.buffer.expect("its memory").as_slice()[..4]),
        (Ok(4), &b"back"[..])
    );
    let _peer = std::net::TcpStream::connect(listener.local_addr().expect("an address"));
    let listener = Target::Borrowed(listener.as_fd());
    assert!(asked(&mut ring, Request::new(0, Operation::Accept { listener })).opened.is_some());
}

#[test]
fn a_descriptor_whose_close_was_never_made_is_closed() {
    // Processes that other tests begin have no copy.
    let flags = PipeFlags::NONBLOCK | PipeFlags::CLOEXEC;
    let ends = || rustix::pipe::pipe_with(flags).expect("a pipe");
    let mut seen = [0; 1];
    let polled = Setup { completions: bytepath::ring::Completions::Polled, ..Setup::default() };
    if let Some(mut ring) = ring(&polled) {
        let (reader, writer) = ends();
        let closed = asked(&mut ring, Request::new(0, Operation::Close { file: writer }));
        println!("a polled ring answers {:?}", closed.first);
        assert_eq!(rustix::io::read(&reader, &mut seen), Ok(0), "the writer is gone");
    }
    let (reader, writer) = ends();
    let file = memfd();
    let Some(mut ring) = ring(&Setup::default()) else { return };
    let beyond =
        Operation::Write { file: Target::Borrowed(file.as_fd()), at: 0, bytes: 0..1 << 20 };
    let request = Request::new(0, beyond).then(Operation::Close { file: writer });
    let request = request.buffer(buffer(4096));
    let pushed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| ring.push(request)));
    assert!(pushed.is_err(), "the buffer does not have the range");
    assert_eq!(rustix::io::read(&reader, &mut seen), Ok(0), "the writer is gone");
    let (reader, writer) = ends();
    let credentials = Ring::open(&Setup::default()).expect("as before").register_personality();
    let request = Request::new(0, Operation::Close { file: writer });
    let request = request.personality(credentials.expect("registered"));
    let pushed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| ring.push(request)));
    assert!(pushed.is_err(), "the credentials are another ring's");
    assert_eq!(rustix::io::read(&reader, &mut seen), Ok(0), "the writer is gone");
}

/// The name of the test below.
const PINNED: &str = "rings::buffers_beyond_the_limit_of_locked_memory_are_refused_with_the_limit";

#[test]
fn buffers_beyond_the_limit_of_locked_memory_are_refused_with_the_limit() {
    // Limits bind a whole process, so another one has them.
    if !crate::is_alone(PINNED) {
        return;
    }
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = Rlimit { current: Some(64 << 10), maximum: Some(64 << 10) };
    setrlimit(Resource::Memlock, limit).expect("anybody may have less");
    let mut sets = rustix::thread::capabilities(None).expect("every thread has some");
    sets.effective.remove(CapabilitySet::IPC_LOCK);
    rustix::thread::set_capabilities(None, sets).expect("anybody may have fewer");
    let Some(mut ring) = ring(&Setup::default()) else { return };
    let refusal = ring.register_buffers(vec![buffer(1 << 20)]).expect_err("above the limit");
    assert_eq!(refusal.errno, Some(Errno::NOMEM));
    let said = refusal.to_string();
    for words in ["1 MiB", "RLIMIT_MEMLOCK (64 KiB)", "ulimit -l"] {
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_watched_ring_takes_requests_for_as_long_as_there_is_room() {
    let submission = Submission::Thread { idle: Duration::from_millis(1) };
    let mut ring = match Ring::open(&Setup { entries: 4, submission, ..Setup::default() }) {
        Ok(ring) => ring,
        Err(refusal) => return println!("skipped: {refusal}"),
    };
    // The thread answers before it says that it has taken what was queued.
    for token in 0..20_000 {
        while ring.room() == 0 {
            assert!(ring.wait().expect("the kernel lets us wait").is_some());
        }
        ring.push(Request::new(token, Operation::Nop));
        ring.submit().expect("the kernel takes it");
        while ring.take().is_some() {}
    }
    while ring.wait().expect("the kernel lets us wait").is_some() {}
    assert_eq!(ring.steps_in_flight(), 0);
}

/// A connection in the ring's own table has no descriptor in the process, and ends with the ring.
#[test]
fn connections_are_accepted_into_the_rings_own_table() {
    use std::io::Read;
    bounded(|_| {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("it listens");
        let address = listener.local_addr().expect("it has an address");
        let Some(mut ring) = ring(&Setup::default()) else { return };
        let accept =
            || Operation::AcceptRegistered { listener: Target::Borrowed(listener.as_fd()) };
        if let Err(refusal) = ring.register_room(1) {
            return eprintln!("skipped: {refusal}");
        }
        let mut client = std::net::TcpStream::connect(address).expect("connected");
        let done = asked(&mut ring, Request::new(1, accept()));
        done.first.expect("accepted");
        let socket = Target::Registered(done.taken_in.expect("its place"));
        client.write_all(b"ping").expect("sent");
        let bytes = 0..4;
        let receive = Operation::Receive { socket, bytes: bytes.clone() };
        let done = asked(&mut ring, Request::new(2, receive).buffer(buffer(4)));
        let received = done.buffer.expect("it comes back");
        assert_eq!((done.first, received.as_slice()), (Ok(4), &b"ping"[..]));
        let send = Operation::Send { socket, bytes };
        assert_eq!(asked(&mut ring, Request::new(3, send).buffer(received)).first, Ok(4));
        let mut answer = [0; 4];
        client.read_exact(&mut answer).expect("answered");
        assert_eq!(&answer, b"ping");
        // There is room for no other.
        let second = std::net::TcpStream::connect(address).expect("connected");
        assert_eq!(asked(&mut ring, Request::new(4, accept())).first, Err(Errno::NFILE));
        drop((ring, second));
        assert_eq!(client.read(&mut answer).expect("the end"), 0);
    });
}

/// A connection that is shut down has its end while the ring keeps its socket.
#[test]
fn a_connection_is_ended_by_the_ring() {
    use std::io::Read;
    bounded(|_| {
        let (mut client, service) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let Some(mut ring) = ring(&Setup::default()) else { return };
        let socket = Target::Borrowed(service.as_fd());
        match asked(&mut ring, Request::new(1, Operation::Shutdown { socket })).first {
            Err(Errno::INVAL) => eprintln!("skipped: Linux 5.11 and later shut down by a ring"),
            answer => {
                assert_eq!(answer, Ok(0));
                assert_eq!(client.read(&mut [0; 4]).expect("the end"), 0);
            }
        }
    });
}

/// One request receives all that comes, into a store that is used again and again.
#[test]
fn one_request_receives_piece_by_piece_until_the_peer_ends_or_the_store_is_empty() {
    bounded(|_| {
        let (near, mut far) = unix_pair();
        let Some(mut ring) = ring(&Setup::default()) else { return };
        if let Err(refusal) = ring.provide(3, 16) {
            return eprintln!("skipped: {refusal}");
        }
        let socket = Target::Borrowed(near.as_fd());
        let receive = || Request::new(5, Operation::ReceiveEach { socket });
        far.write_all(b"first").expect("sent");
        let done = asked(&mut ring, receive());
        if done.first == Err(Errno::INVAL) {
            return eprintln!("skipped: receiving so takes Linux 6.0");
        }
        // It stays in flight, through more pieces than there are buffers.
        let (mut done, mut sent) = (done, 0_u8);
        for _ in 0..20 {
            assert_eq!((done.token, done.more), (5, true), "{done:?}");
            let piece = done.piece.expect("it lies in a buffer");
            let wanted = if sent == 0 { b"first".to_vec() } else { vec![sent; 7] };
            assert_eq!((done.first, ring.piece(&piece)), (Ok(wanted.len() as u32), &wanted[..]));
            ring.give_back(piece);
            sent += 1;
            far.write_all(&[sent; 7]).expect("sent");
            done = ring.wait().expect("waited").expect("in flight");
        }
        assert_eq!(ring.steps_in_flight(), 1);
        // Four buffers of 16 bytes, all kept: with the next piece there is none.
        let mut kept = vec![done.piece.expect("a buffer")];
        far.write_all(&[200; 16 * 3]).expect("sent");
        far.write_all(b"last").expect("sent");
        let end = loop {
            let done = ring.wait().expect("waited").expect("in flight");
            match done.piece {
                Some(piece) => kept.push(piece),
                None => break done,
            }
        };
        assert_eq!((end.first, end.more), (Err(Errno::NOBUFS), false));
        assert_eq!(ring.steps_in_flight(), 0);
        let pieces: Vec<_> = kept.iter().map(|piece| ring.piece(piece)).collect();
        assert_eq!(pieces, [&[20; 7][..], &[200; 16], &[200; 16], &[200; 16]]);
        kept.into_iter().for_each(|piece| ring.give_back(piece));
        drop(far);
        let done = asked(&mut ring, receive());
        assert_eq!(ring.piece(&done.piece.expect("the rest")), b"last");
        let done = ring.wait().expect("waited").expect("in flight");
        assert_eq!((done.first, done.more, done.piece), (Ok(0), false, None), "the peer has ended");
        let refused = ring.provide(1, 16).expect_err("it has a store").to_string();
        assert!(refused.contains("a ring takes a store once"), "{refused}");
        // What is in flight when the ring is dropped is cancelled.
        let (near, _far) = unix_pair();
        let Some(mut second) = self::ring(&Setup::default()) else { return };
        second.provide(2, 16).expect("as before");
        let socket = Target::Borrowed(near.as_fd());
        second.push(Request::new(6, Operation::ReceiveEach { socket }));
        second.submit().expect("submitted");
        drop(second);
    });
}

#[test]
fn buffers_that_cannot_be_are_refused_with_the_cause() {
    bounded(|_| {
        let Some(mut ring) = ring(&Setup::default()) else { return };
        for (bytes_each, cause) in [
            (1 << 32, "a buffer has less than 4 GiB"),
            (1 << 46, "less than 4 GiB"),
            (usize::MAX, ""),
        ] {
            let refused = ring.provide(4, bytes_each).expect_err("too large").to_string();
            assert!(refused.contains(cause), "{refused}");
        }
    });
}

#[test]
fn a_step_that_is_refused_takes_no_room() {
    bounded(|_| {
        let file = file_of(b"bytes");
        let Some(mut ring) = ring(&Setup::default()) else { return };
        let room = ring.room();
        let beyond = || {
            let file = Target::Borrowed(file.as_fd());
            Request::new(1, Operation::Read { file, at: 0, bytes: 0..10_000 }).buffer(buffer(4096))
        };
        for _ in 0..2 {
            let push = std::panic::AssertUnwindSafe(|| ring.push(beyond()));
            assert!(std::panic::catch_unwind(push).is_err(), "the buffer has no such range");
        }
        assert_eq!(ring.room(), room);
        for token in 0..room {
            ring.push(Request::new(token as u64, Operation::Nop));
        }
        assert_eq!(ring.room(), 0);
    });
}

/// The name of the test below.
const FORKED: &str =
    "rings::a_forked_process_can_drop_a_ring_and_nothing_else_and_its_parents_goes_on";

#[test]
fn a_forked_process_can_drop_a_ring_and_nothing_else_and_its_parents_goes_on() {
    // What is forked panics: where a thread of another test did meanwhile, it would wait for its lock.
    if !crate::is_alone(FORKED) {
        return;
    }
    bounded(|_| {
        let (reader, writer) = pipe();
        let Some(mut ring) = ring(&Setup::default()) else { return };
        let file = Target::Borrowed(reader.as_fd());
        ring.push(Request::new(1, Operation::Read { file, at: 0, bytes: 0..5 }).buffer(buffer(5)));
        ring.submit().expect("handed over");
        let mut kept = Some(ring);
        let uses = |ring: &mut Ring<'_>| {
            let used = std::panic::AssertUnwindSafe(|| ring.take());
            let panic = std::panic::catch_unwind(used).expect_err("its queues are not here");
            let said = panic.downcast_ref::<&str>().expect("words");
            assert!(said.contains("open one here"), "{said}");
        };
        let status = forked(|| {
            let mut ring = kept.take().expect("it is here");
            uses(&mut ring);
            drop(ring);
        });
        assert_eq!(status.exit_status(), Some(0), "{status:?}");
        let mut ring = kept.take().expect("it is here");
        rustix::io::write(&writer, b"bytes").expect("there is room");
        let done = ring.wait().expect("it can be waited for").expect("it is in flight");
        assert_eq!((done.token, done.first), (1, Ok(5)));
    });
}

#[test]
fn a_place_behind_all_that_a_file_has_is_refused_and_the_position_stays() {
    use std::io::{Seek, SeekFrom};
    let mut file = file_of(b"some bytes");
    file.seek(SeekFrom::Start(3)).expect("positioned");
    let Some(mut ring) = ring(&Setup::default()) else { return };
    let pinned = ring.register_buffers(vec![buffer(4096)]).expect("4 KiB may be pinned").remove(0);
    for mut memory in [buffer(4096), pinned] {
        for at in [u64::MAX, u64::MAX - 1, 1 << 63] {
            let write = Operation::Write { file: Target::Borrowed(file.as_fd()), at, bytes: 0..4 };
            for operation in [read(&file, at, 4), write] {
                let done = asked(&mut ring, Request::new(0, operation).buffer(memory));
                assert_eq!(done.first, Err(Errno::INVAL), "{at}");
                memory = done.buffer.expect("its memory");
            }
        }
    }
    drop(ring);
    assert_eq!(
        (file.stream_position().ok(), file.metadata().map(|it| it.len()).ok()),
        (Some(3), Some(10))
    );
}
