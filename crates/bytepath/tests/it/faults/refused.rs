//! System calls that a sandbox refuses to the moving thread.

use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};

use bytepath::machine::{Machine, survived};
use bytepath::outlets::{self, OUTLETS};
use bytepath::placement::pin_this_thread;
use bytepath::ring::{Operation, Request, Ring, Setup};
use bytepath::routes::ROUTES;
use bytepath::{Endpoint, Knobs, Meter, Side, Stop, TransferError, Wait};
use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use crate::ends::{Pace, contents, memfd, pipe, sink_named, source_named, tcp_pair, unix_pair};
use crate::faults::{carry_on, written_after};
use crate::trial::{Ended, Trial, same};
use crate::watch::bounded;

/// A call to be refused, always or where one argument has a value.
struct Refusing {
    call: i64,
    where_argument: Option<Argument>,
}

/// The place of an argument, and its value.
type Argument = (u8, u64);

/// Runs `work` on a thread to which the kernel refuses the calls with `errno`.
fn refusing<T: Send>(calls: &[Refusing], errno: Errno, work: impl FnOnce() -> T + Send) -> T {
    filtered(filter(calls, errno.raw_os_error().unsigned_abs()), work)
}

/// Likewise, where the kernel has no such call.
pub(crate) fn without_call<T: Send>(call: i64, work: impl FnOnce() -> T + Send) -> T {
    refusing(&[Refusing { call, where_argument: None }], Errno::NOSYS, work)
}

fn filtered<T: Send>(program: BpfProgram, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            seccompiler::apply_filter(&program).expect("the filter is installed");
            work()
        });
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Answers the calls with this error number, of which 0 is success with nothing moved.
fn filter(calls: &[Refusing], errno: u32) -> BpfProgram {
    answering(calls, SeccompAction::Errno(errno))
}

fn answering(calls: &[Refusing], answer: SeccompAction) -> BpfProgram {
    let rules = calls.iter().map(|refusing| {
        let conditions = refusing.where_argument.map(|(argument, value)| {
            let (len, is) = (SeccompCmpArgLen::Dword, SeccompCmpOp::Eq);
            SeccompCondition::new(argument, len, is, value).expect("a condition")
        });
        let rules = conditions.map(|condition| SeccompRule::new(vec![condition]).expect("a rule"));
        (refusing.call, rules.into_iter().collect())
    });
    let here = std::env::consts::ARCH.try_into().expect("an architecture that it knows");
    SeccompFilter::new(rules.collect(), SeccompAction::Allow, answer, here)
        .and_then(BpfProgram::try_from)
        .expect("a filter")
}

fn always(calls: &[i64]) -> Vec<Refusing> {
    calls.iter().map(|&call| Refusing { call, where_argument: None }).collect()
}

/// The calls that routes are named after.
const CALLS: &[(&str, i64)] = &[
    ("tee", libc::SYS_tee),
    ("copy-file-range", libc::SYS_copy_file_range),
    ("splice", libc::SYS_splice),
    ("splice-through", libc::SYS_splice),
    ("sendfile", libc::SYS_sendfile),
];

/// The calls without which routes cannot begin, where an argument has a value if one is given.
const BEGINNINGS: &[(&str, i64, Option<Argument>)] = &[
    ("uring", libc::SYS_io_uring_setup, None),
    ("uring-linked", libc::SYS_io_uring_setup, None),
    ("uring-registered", libc::SYS_io_uring_setup, None),
    ("uring-registered", libc::SYS_io_uring_register, None),
    ("uring-direct", libc::SYS_io_uring_setup, None),
    ("linux-aio", libc::SYS_io_setup, None),
    ("reflink", libc::SYS_ioctl, Some((1, FICLONERANGE))),
    // Memory of our own is mapped to be written as well.
    ("mmap-write", libc::SYS_mmap, Some((2, libc::PROT_READ as u64))),
    ("parallel", libc::SYS_fallocate, None),
    ("dontcache", libc::SYS_preadv2, None),
    ("fadvise", libc::SYS_mmap, Some((2, libc::PROT_READ as u64))),
];

const FICLONERANGE: u64 = 0x4020_940d;

/// What sandboxes answer: containers EPERM, others ENOSYS.
const WORDS: [Errno; 2] = [Errno::PERM, Errno::NOSYS];

/// The calls that come back at once; kernels before 6.4 say EOPNOTSUPP to them on pipes.
const NOWAIT: [i64; 2] = [libc::SYS_preadv2, libc::SYS_pwritev2];

const PAIRS: &[(&str, &str)] = &[
    ("memfd", "memfd"),
    ("memfd", "pipe"),
    ("memfd", "tcp socket"),
    ("pipe", "pipe"),
    ("pipe", "memfd"),
    ("unix socket", "tcp socket"),
    ("tcp socket", "disk file"),
    ("tcp socket", "/dev/null"),
];

fn trials() -> impl Iterator<Item = Trial> {
    PAIRS.iter().map(|(source, sink)| Trial::new(source_named(source), sink_named(sink), 300_007))
}

#[test]
fn a_route_alone_whose_call_is_refused_declines_with_the_kernels_word() {
    bounded(|watch| {
        for errno in WORDS {
            for &(name, call) in CALLS {
                for trial in trials() {
                    let trial = Trial { only: Some(name), ..trial };
                    watch.at(format_args!("{errno}: {trial}"));
                    let ended = trial.run_where(|carry| refusing(&always(&[call]), errno, carry));
                    let word = std::io::Error::from(errno).to_string();
                    match ended {
                        Ended::Refused => {}
                        Ended::Declined(why) => assert!(why.contains(&word), "{why}"),
                        Ended::Moved(moved) => panic!("{moved:?} without its call"),
                    }
                }
            }
        }
    });
}

#[test]
fn several_threads_copy_within_memory_without_userfaultfd_too() {
    bounded(|watch| {
        for errno in WORDS {
            watch.at(errno);
            let trial = Trial::new(source_named("memfd"), sink_named("memfd"), (3 << 20) + 12_345);
            let trial = Trial { only: Some("parallel"), ..trial };
            let calls = always(&[libc::SYS_userfaultfd]);
            match trial.run_where(|carry| refusing(&calls, errno, carry)) {
                Ended::Moved(moved) => assert_eq!(moved.route, "parallel"),
                _ => panic!("it does without"),
            }
        }
    });
}

#[test]
fn a_route_that_cannot_begin_declines_with_the_kernels_word() {
    bounded(|watch| {
        for errno in WORDS {
            for &(name, call, where_argument) in BEGINNINGS {
                for source in ["whole disk file", "memfd"] {
                    let (source, sink) = (source_named(source), sink_named("new disk file"));
                    let trial = Trial { only: Some(name), ..Trial::new(source, sink, 300_007) };
                    watch.at(format_args!("{errno}: {trial}"));
                    let refused = [Refusing { call, where_argument }];
                    let ended = trial.run_where(|carry| refusing(&refused, errno, carry));
                    match ended {
                        Ended::Declined(why) => {
                            let word = std::io::Error::from(errno).to_string();
                            // The older tmpfs has no direct access, which comes before.
                            assert!(why.contains(&word) || why.contains("O_DIRECT"), "{why}");
                        }
                        // Files that lie on two file systems.
                        Ended::Refused => assert_eq!(name, "reflink"),
                        Ended::Moved(moved) => panic!("{moved:?} without its call"),
                    }
                }
            }
        }
    });
}

/// Who forbids a ring, and what a kernel does not know, are told apart.
#[test]
fn a_ring_that_is_not_permitted_is_told_from_one_that_is_not_known() {
    for (errno, words) in
        [(Errno::PERM, "io_uring is not permitted"), (Errno::NOSYS, "io_uring is not known")]
    {
        let refusal = refusing(&always(&[libc::SYS_io_uring_setup]), errno, || {
            Ring::open(&Setup::default()).map(drop).expect_err("it was refused")
        });
        assert_eq!(refusal.errno, Some(errno));
        let said = refusal.to_string();
        assert!(said.starts_with(words), "{said}");
    }
}

/// A kernel of before Linux 5.19 says so while answers wait that had no room.
#[test]
fn a_ring_that_is_dropped_ends_though_the_kernel_takes_nothing_more() {
    bounded(|_| {
        refusing(&always(&[libc::SYS_io_uring_enter]), Errno::BUSY, || {
            let Ok(mut ring) = Ring::open(&Setup::with_entries(4)) else {
                return println!("skipped: there is no ring here");
            };
            while ring.room() > 0 {
                ring.push(Request::new(0, Operation::Nop));
            }
            drop(ring);
        });
    });
}

/// As of one thread that a server has put into a sandbox, also where it has moved bytes before.
#[test]
fn calls_that_kill_one_thread_alone_or_later_are_not_made() {
    if !crate::is_alone("faults::refused::calls_that_kill_one_thread_alone_or_later_are_not_made") {
        return;
    }
    let killing = |calls: &[i64]| answering(&always(calls), SeccompAction::KillProcess);
    let ring = || Ring::open(&Setup::default()).map(drop).map_err(|refusal| refusal.errno);
    let before = ring();
    if before == Err(Some(Errno::PERM)) {
        println!(
            "skipped: that a ring which was open to this thread is not any more: none is here"
        );
    }
    let deadly = [libc::SYS_io_uring_setup, libc::SYS_io_setup, libc::SYS_userfaultfd];
    filtered(killing(&[libc::SYS_acct]), || {
        assert_eq!(ring(), before, "a filter of something else");
        let more = killing(&deadly);
        seccompiler::apply_filter(&more).expect("the filter is installed");
        assert_eq!(ring(), Err(Some(Errno::PERM)));
        let (disk, memory) = (("whole disk file", "new disk file"), ("memfd", "memfd"));
        for (only, (source, sink), is_moved) in [
            ("uring", disk, false),
            ("linux-aio", disk, false),
            ("parallel", memory, true),
            ("read-write", memory, true),
        ] {
            let ends = (source_named(source), sink_named(sink));
            let trial = Trial { only: Some(only), ..Trial::new(ends.0, ends.1, (3 << 20) + 5) };
            let ended = trial.run();
            assert_eq!(matches!(ended, Ended::Moved(_)), is_moved, "{only}: {ended:?}");
        }
    });
    assert_eq!(ring(), before, "another thread is free to");
}

/// Of processes that were waited for the kernel tells the page faults.
#[test]
fn threads_that_copy_together_do_not_ask_a_process_each_about_their_filter() {
    let name = "threads_that_copy_together_do_not_ask_a_process_each_about_their_filter";
    if !crate::is_alone(&format!("faults::refused::{name}")) {
        return;
    }
    let faults = || {
        let stat = std::fs::read_to_string("/proc/self/stat").expect("of this process");
        let (_, fields) = stat.rsplit_once(") ").expect("its name");
        let cminflt = fields.split(' ').nth(8).expect("see proc(5)");
        cminflt.parse::<u64>().expect("a number")
    };
    filtered(answering(&always(&[libc::SYS_acct]), SeccompAction::KillProcess), || {
        let before = faults();
        assert_eq!(survived(libc::SYS_userfaultfd), Ok(()));
        let asked = faults();
        assert!(asked > before, "a process was asked");
        let trial = Trial {
            only: Some("parallel"),
            knobs: Knobs { threads: Some(4), ..Knobs::default() },
            ..Trial::new(source_named("memfd"), sink_named("memfd"), (3 << 20) + 5)
        };
        let ended = trial.run();
        assert!(matches!(ended, Ended::Moved(_)), "{ended:?}");
        assert_eq!(faults(), asked, "no other was");
    });
}

/// A filter that lets rings be made and not used.
#[test]
fn a_ring_that_nobody_may_enter_is_declined_and_given_up() {
    bounded(|watch| {
        for name in ["uring", "uring-linked", "uring-registered", "uring-direct"] {
            let ends = (source_named("whole disk file"), sink_named("new disk file"));
            let trial = Trial { only: Some(name), ..Trial::new(ends.0, ends.1, 300_007) };
            watch.at(&trial);
            let calls = always(&[libc::SYS_io_uring_enter]);
            let ended = trial.run_where(|carry| refusing(&calls, Errno::PERM, carry));
            let Ended::Declined(why) = ended else { panic!("{ended:?}") };
            assert!(why.contains("io_uring_enter is refused") || why.contains("O_DIRECT"), "{why}");
        }
    });
}

/// Kernels have answered 0 for files that have more to give: see copy_file_range(2), BUGS.
#[test]
fn an_answer_of_0_before_the_end_of_a_file_is_not_believed() {
    bounded(|watch| {
        let calls: Vec<i64> = CALLS.iter().map(|&(_, call)| call).collect();
        for source in ["tmpfs file", "disk file", "memfd"] {
            for sink in ["memfd", "pipe", "unix socket", "/dev/null"] {
                for only in CALLS.iter().map(|&(name, _)| Some(name)).chain([None]) {
                    let ends = (source_named(source), sink_named(sink));
                    let trial = Trial { only, ..Trial::new(ends.0, ends.1, 10_007) };
                    watch.at(&trial);
                    let ended =
                        trial.run_where(|carry| filtered(filter(&always(&calls), 0), carry));
                    match ended {
                        Ended::Declined(why) => assert!(why.contains("the end of the file")),
                        Ended::Moved(_) => assert_eq!(only, None),
                        Ended::Refused => assert_ne!(only, None),
                    }
                }
            }
        }
    });
}

#[test]
fn the_best_plan_gets_through_whatever_is_refused() {
    bounded(|watch| {
        let mut sets: Vec<Vec<i64>> = CALLS.iter().map(|&(_, call)| vec![call]).collect();
        sets.push(CALLS.iter().map(|&(_, call)| call).collect());
        sets.push(NOWAIT.to_vec());
        sets.push([&NOWAIT[..], &[libc::SYS_splice]].concat());
        let mut refusals: Vec<(Vec<i64>, Errno)> = Vec::new();
        for errno in WORDS {
            refusals.extend(sets.iter().map(|set| (set.clone(), errno)));
        }
        refusals.push((NOWAIT.to_vec(), Errno::OPNOTSUPP));
        // The process or the system is out of descriptors.
        refusals.push((vec![libc::SYS_pipe2], Errno::MFILE));
        refusals.push((vec![libc::SYS_pipe2], Errno::NFILE));
        for (set, errno) in &refusals {
            for trial in trials() {
                for cancellable in [false, true] {
                    let trial = Trial { cancellable, pace: Pace::Odd, ..trial.clone() };
                    watch.at(format_args!("{errno} for {set:?}: {trial}"));
                    let ended = trial.run_where(|carry| refusing(&always(set), *errno, carry));
                    assert!(matches!(ended, Ended::Moved(_)));
                }
            }
        }
    });
}

#[test]
fn every_wait_works_where_calls_that_return_at_once_are_refused() {
    bounded(|watch| {
        let set = always(&NOWAIT);
        for wait in Wait::NAMES.iter().filter_map(|name| Wait::named(name)) {
            for errno in WORDS.into_iter().chain([Errno::OPNOTSUPP]) {
                let trial = Trial {
                    knobs: Knobs { wait, pipe_bytes: Some(4096), ..Knobs::default() },
                    only: Some("read-write"),
                    ..Trial::new(source_named("pipe"), sink_named("pipe"), 300_007)
                };
                watch.at(format_args!("{errno}: {trial}"));
                let ended = trial.run_where(|carry| refusing(&set, errno, carry));
                assert!(matches!(ended, Ended::Moved(_)));
            }
        }
    });
}

#[test]
fn a_pipe_size_that_is_only_wished_for_may_be_refused() {
    bounded(|watch| {
        let set = [Refusing { call: libc::SYS_fcntl, where_argument: Some((1, F_SETPIPE_SZ)) }];
        for trial in trials() {
            watch.at(&trial);
            let ended = trial.run_where(|carry| refusing(&set, Errno::PERM, carry));
            assert!(matches!(ended, Ended::Moved(_)));
        }
    });
}

const F_SETPIPE_SZ: u64 = libc::F_SETPIPE_SZ as u64;

/// The bytes are in a pipe of our own by then: they go back to the source, or on to the sink.
#[test]
fn splice_that_is_refused_by_the_sink_alone_loses_nothing_in_flight() {
    bounded(|watch| {
        let all = contents(300_007);
        for source_name in ["memfd", "disk file", "unix socket", "tcp socket"] {
            for only in [Some("splice"), None] {
                watch.at(format_args!("{source_name} by {only:?}"));
                let source = source_named(source_name).open(all, Pace::Whole);
                let mut sink = memfd();
                let number = u64::try_from(sink.as_raw_fd()).expect("a number");
                let set = [
                    Refusing { call: libc::SYS_splice, where_argument: Some((2, number)) },
                    Refusing { call: libc::SYS_copy_file_range, where_argument: None },
                    Refusing { call: libc::SYS_sendfile, where_argument: None },
                ];
                let meter = Meter::new();
                let ended = refusing(&set, Errno::PERM, || {
                    carry_on(&meter, &source, &sink, only, Knobs::default(), None)
                });
                let offset = match ended.expect("a plan") {
                    Ok(moved) if only.is_none() => moved.bytes,
                    Err(TransferError::Declined { offset, .. }) if only.is_some() => offset,
                    other => panic!("{other:?}"),
                };
                let offset = usize::try_from(offset).expect("a size");
                assert_eq!(meter.bytes(), offset as u64);
                same(&written_after(&mut sink, 0), &all[..offset]);
                same(&source.rest(0), &all[offset..]);
            }
        }
    });
}

/// A sink that fails with bytes in a pipe of our own, and a source that they cannot go back to.
#[test]
fn bytes_in_flight_to_a_sink_that_fails_come_with_the_error() {
    bounded(|watch| {
        let all = contents(300_007);
        for (name, connect) in [("unix", unix_pair as fn() -> _), ("tcp", tcp_pair)] {
            watch.at(name);
            let source = source_named("unix socket").open(all, Pace::Whole);
            let (sink, far) = connect();
            drop(far);
            let outcome =
                crate::faults::carry(&source, sink.as_fd(), Some("splice"), Knobs::default(), None);
            let outcome = outcome.expect("a plan");
            assert!(!outcome.stranded().is_empty());
            assert!(outcome.failed().to_string().contains("they are in the error"));
            outcome.accounts_for(all, &source.rest(0));
        }
    });
}

/// Another route would go on from where the bytes are not.
#[test]
fn an_end_that_cannot_be_placed_behind_what_was_moved_is_named() {
    bounded(|watch| {
        let all = contents(300_007);
        let set = [Refusing { call: libc::SYS_lseek, where_argument: Some((2, 0)) }];
        let mut told = Vec::new();
        for name in ROUTES.iter().map(|route| route.name()) {
            watch.at(name);
            let source = source_named("disk file").open(all, Pace::Whole);
            let mut sink = memfd();
            let meter = Meter::new();
            let ended = refusing(&set, Errno::IO, || {
                carry_on(&meter, &source, &sink, Some(name), Knobs::default(), None)
            });
            if let Some(Err(TransferError::Failed(failed))) = &ended {
                assert_eq!(failed.call, "lseek", "{failed}");
                assert_ne!(failed.side, Side::Either, "{failed}");
                told.push(name);
            }
            let taken = usize::try_from(meter.bytes()).expect("a size");
            same(&written_after(&mut sink, 0), &all[..taken]);
        }
        assert!(told.contains(&"mmap-write"), "only {told:?} placed an end");
    });
}

#[test]
fn an_outlet_whose_call_is_refused_declines_with_the_kernels_word() {
    for outlet in OUTLETS {
        for errno in WORDS {
            let (_reader, writer) = pipe();
            let ended = refusing(&always(&[libc::SYS_vmsplice, libc::SYS_tee]), errno, || {
                let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
                let meter = Meter::new();
                let setup = outlets::Setup::new(&meter);
                outlet.open(&sink, &setup).and_then(|mut producer| producer.repeat_some(1))
            });
            match ended {
                Ok(_) => assert!(outlet.name().starts_with("write"), "{}", outlet.name()),
                Err(Stop::Declined(refusal)) => assert_eq!(refusal.errno, Some(errno)),
                Err(stop) => panic!("{}: {stop}", outlet.name()),
            }
        }
    }
}

#[test]
fn what_was_to_be_lent_is_written_where_lending_is_refused() {
    for outlet in OUTLETS.iter().filter(|outlet| outlet.used_for() == outlets::Use::Streams) {
        for errno in WORDS {
            let (mut reader, writer) = pipe();
            let meter = Meter::new();
            let ended = refusing(&always(&[libc::SYS_vmsplice]), errno, || {
                let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
                let setup = outlets::Setup::new(&meter);
                let mut producer = outlet.open(&sink, &setup).expect("it opens");
                producer.room().expect("room").expect("it streams")[..5].copy_from_slice(b"bytes");
                producer.send(5)
            });
            match ended {
                Ok(()) => assert!(outlet.name().starts_with("write"), "{}", outlet.name()),
                Err(Stop::Declined(refusal)) => assert_eq!(refusal.errno, Some(errno)),
                Err(stop) => panic!("{}: {stop}", outlet.name()),
            }
            drop(writer);
            let mut arrived = Vec::new();
            reader.read_to_end(&mut arrived).expect("read");
            assert_eq!((&arrived[..], meter.bytes()), (&b"bytes"[..], 5), "{}", outlet.name());
        }
    }
}

/// EAGAIN is also the word for a pipe that is full, which an empty one is not.
#[test]
fn a_reservoir_or_relay_that_takes_nothing_is_declined_with_the_kernels_word() {
    for (outlet, calls, wait, what) in [
        ("wide-tee", &[libc::SYS_splice][..], Wait::Block, "splice does not fill the reservoir"),
        ("tee", &[libc::SYS_pwritev2], Wait::Block, "write does not fill the reservoir"),
        ("tee", &[libc::SYS_tee], Wait::Spin, "tee does not fill the relay pipe"),
        ("wide-tee", &[libc::SYS_tee], Wait::Spin, "tee does not fill the relay pipe"),
    ] {
        let (_reader, writer) = pipe();
        let outlet = outlets::by_name(outlet).expect("an outlet");
        let ended = refusing(&always(calls), Errno::AGAIN, || {
            let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
            let meter = Meter::new();
            let setup = outlets::Setup { wait, ..outlets::Setup::new(&meter) };
            outlet.open(&sink, &setup).and_then(|mut producer| producer.repeat_some(1))
        });
        let Err(Stop::Declined(refusal)) = ended else { panic!("{}: {ended:?}", outlet.name()) };
        assert_eq!(refusal.errno, Some(Errno::AGAIN), "{refusal}");
        assert!(refusal.reason.contains(what), "{}: {refusal}", outlet.name());
    }
}

/// Faults that a test cannot make everywhere, in the kernel's word alone.
#[test]
fn a_used_up_quota_and_a_failing_device_are_told_whatever_the_route() {
    let calls = [("read-write", libc::SYS_write)].iter().chain(CALLS);
    for &(name, call) in calls {
        for (errno, hint) in [(Errno::DQUOT, "your disk quota"), (Errno::IO, "dmesg")] {
            let source = if name.starts_with("splice") { "pipe" } else { "memfd" };
            let source = source_named(source).open(contents(10_007), Pace::Whole);
            let sink = memfd();
            let meter = Meter::new();
            let ended = refusing(&always(&[call]), errno, || {
                carry_on(&meter, &source, &sink, Some(name), Knobs::default(), None)
            });
            let Some(ended) = ended else {
                assert!(["tee", "splice-through"].contains(&name), "{name} suits these ends");
                continue;
            };
            let Err(TransferError::Failed(failed)) = ended else { panic!("{name}: {ended:?}") };
            assert_eq!((failed.errno, failed.offset), (errno, 0), "{failed}");
            // Its first call takes from the source and gives to a pipe of ours.
            let by_source = name == "splice";
            assert_eq!(failed.side == Side::Source, by_source, "{failed}");
            assert!(failed.to_string().contains(hint), "{failed}");
        }
    }
}

#[test]
fn a_cpu_that_a_sandbox_does_not_let_a_thread_choose_is_refused_with_the_reason() {
    let cpu = Machine::this().allowed_cpus().first().expect("a CPU");
    for errno in WORDS {
        for (call, what) in [
            (libc::SYS_sched_setaffinity, format!("CPU {cpu}")),
            (libc::SYS_sched_getaffinity, "cannot read the CPUs".to_owned()),
        ] {
            let pinned = refusing(&always(&[call]), errno, || {
                pin_this_thread(cpu).map(drop).map_err(|error| error.to_string())
            });
            let said = pinned.expect_err("the call was refused");
            let word = std::io::Error::from(errno).to_string();
            let word = word.split(" (os").next().expect("a word");
            assert!(said.contains(&what) && said.contains(word), "{said}");
            // Not every command has the option.
            assert!(said.contains("placement") && !said.contains("--placement"), "{said}");
        }
    }
}

#[test]
fn every_route_but_the_last_resort_has_its_call_refused_here() {
    let named: Vec<_> = CALLS.iter().map(|&(name, _)| name).collect();
    let named = [named, BEGINNINGS.iter().map(|&(name, ..)| name).collect()].concat();
    for route in ROUTES {
        assert!(named.contains(&route.name()) || route.name() == "read-write", "{}", route.name());
    }
}
