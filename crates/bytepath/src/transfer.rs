//! Runs a plan: tries a route, goes on with the next from the byte reached, stops at a failure.

use std::fmt;

use crate::endpoint::Kind;
use crate::error::{Count, Failed, Refusal, Side, Stop};
use crate::knobs::Cpu;
use crate::meter::Meter;
use crate::placement::pin_this_thread;
use crate::plan::{self, Basis, Choice, Plan, PlanError};
use crate::routes::{Allowed, Job, Rank, Route, Span};
use crate::wait::Cancel;

/// A job about to be carried out by a plan.
pub struct Transfer<'a> {
    job: Job<'a>,
    plan: &'a Plan,
    meter: Option<&'a Meter>,
    cancel: Option<&'a Cancel>,
    wakes: Option<Wakes<'a>>,
}

/// Whether a route is woken by the cancel.
type Wakes<'a> = &'a dyn Fn(&dyn Route) -> bool;

/// What a transfer did.
#[derive(Debug, Clone, Default)]
pub struct Moved {
    /// Bytes that the sink took.
    pub bytes: u64,
    /// The route that brought it to the end.
    pub route: &'static str,
    /// Routes that gave up before, in order.
    pub declined: Vec<Gave>,
    /// Why a pipe at either end is smaller than the plan wished, if one is.
    pub small_pipe: Option<Refusal>,
}

/// A route that gave up, and where.
#[derive(Debug, Clone)]
pub struct Gave {
    /// Its name.
    pub route: &'static str,
    /// Bytes delivered when it did.
    pub offset: u64,
    /// Why.
    pub why: String,
}

/// How a transfer ended short. Each tells what the sink has taken.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// No route could have gone on.
    #[error(transparent)]
    Failed(#[from] Failed),
    /// Every route of the plan declined.
    #[error("stopped at byte {offset}: {}", .declined.iter().map(|gave| format!("{}: {}", gave.route, gave.why)).collect::<Vec<_>>().join("; "))]
    Declined {
        /// Bytes that the sink has taken.
        offset: u64,
        /// The routes, in the order in which they were tried.
        declined: Vec<Gave>,
    },
    /// The caller asked to stop.
    #[error("cancelled at byte {offset}{}", kept(.stranded))]
    Cancelled {
        /// Bytes that the sink has taken.
        offset: u64,
        /// Bytes taken from a source that cannot be set back, and not delivered.
        stranded: Vec<u8>,
        /// The route that was at work.
        route: &'static str,
        /// Routes that gave up before, in order.
        declined: Vec<Gave>,
    },
    /// The meter is already told by another transfer.
    #[error("this meter already counts another transfer; give each its own")]
    MeterInUse,
    /// A pipe cannot have the size that was asked for.
    #[error("{0}")]
    PipeSize(Refusal),
    /// The plan was made for another job, of which this one does not allow as much, or for ends of
    /// another kind. Nothing was moved.
    #[error("the plan is not for this job: {0}; make a plan for it")]
    OtherJob(PlanError),
}

impl fmt::Debug for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransferError::Failed(failed) => f.debug_tuple("Failed").field(failed).finish(),
            TransferError::Declined { offset, declined } => f
                .debug_struct("Declined")
                .field("offset", offset)
                .field("declined", declined)
                .finish(),
            TransferError::Cancelled { offset, stranded, route, declined } => f
                .debug_struct("Cancelled")
                .field("offset", offset)
                .field("stranded", &Count(stranded))
                .field("route", route)
                .field("declined", declined)
                .finish(),
            TransferError::MeterInUse => f.write_str("MeterInUse"),
            TransferError::PipeSize(refusal) => f.debug_tuple("PipeSize").field(refusal).finish(),
            TransferError::OtherJob(error) => f.debug_tuple("OtherJob").field(error).finish(),
        }
    }
}

impl fmt::Debug for Transfer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transfer").field("job", &self.job).finish_non_exhaustive()
    }
}

impl<'a> Transfer<'a> {
    /// The job, by the plan: one that was made for it, or for a job that differs in its limit alone.
    pub fn new(job: &Job<'a>, plan: &'a Plan) -> Self {
        Transfer { job: *job, plan, meter: None, cancel: None, wakes: None }
    }

    /// Counts on this meter, from where it stands.
    #[must_use]
    pub fn meter(self, meter: &'a Meter) -> Self {
        Transfer { meter: Some(meter), ..self }
    }

    /// Stops when asked to. Every wait for a pipe, terminal or socket is woken; only a chunk that
    /// a blocking socket's peer does not take holds it up.
    #[must_use]
    pub fn cancel(self, cancel: &'a Cancel) -> Self {
        Transfer { cancel: Some(cancel), ..self }
    }

    /// Asks of each route as it begins whether the [`Cancel`] is to wake it, which costs it a call each
    /// time it waits. The others go on until they have moved all.
    #[must_use]
    pub fn wakes(self, wakes: &'a dyn Fn(&dyn Route) -> bool) -> Self {
        Transfer { wakes: Some(wakes), ..self }
    }

    /// Moves the bytes, blocking until the source ends or the limit is reached.
    ///
    /// A program that does not ignore SIGPIPE is ended by it where the reader of a pipe is gone, or
    /// where the kernel itself moves the bytes to a socket (splice(2), sendfile(2)) whose peer is: as
    /// with write(2). Rust's and Python's programs ignore it.
    ///
    /// # Errors
    /// See [`TransferError`]; the sink has taken the bytes that the error says, and no other
    /// bytes have left the source unless the error holds them.
    pub fn run(self) -> Result<Moved, TransferError> {
        let own = Meter::new();
        let meter = self.meter.unwrap_or(&own);
        let _claim = meter.claim().ok_or(TransferError::MeterInUse)?;
        self.is_for_this_job()?;
        let small_pipe = self.size_pipes()?;
        let start = meter.bytes();
        let mut declined = Vec::new();
        for (place, choice) in self.plan.routes().iter().enumerate() {
            let done = meter.bytes() - start;
            meter.goes(choice.route.name());
            let suits = match place {
                // Looked at before anything was touched.
                0 => Ok(()),
                _ => self.may_go_by(choice).map_err(Stop::Declined),
            };
            let stop = match suits.and_then(|()| self.carry(choice, meter, done)) {
                Ok(()) => {
                    let bytes = meter.bytes() - start;
                    return Ok(Moved { bytes, route: choice.route.name(), declined, small_pipe });
                }
                Err(stop) => stop,
            };
            let offset = meter.bytes() - start;
            let last = place + 1 == self.plan.routes().len();
            went_on(stop, (choice.route.name(), offset), last, &mut declined)?;
        }
        Err(TransferError::Declined { offset: meter.bytes() - start, declined })
    }

    /// Refuses a plan that was made for a job of which more is allowed, or for ends of another
    /// kind.
    fn is_for_this_job(&self) -> Result<(), TransferError> {
        plan::ends(&self.job).map_err(TransferError::OtherJob)?;
        let Some(first) = self.plan.routes().first() else { return Ok(()) };
        self.may_go_by(first).map_err(|refusal| {
            TransferError::OtherJob(PlanError::Refused { route: first.route.name(), refusal })
        })
    }

    /// Whether the job allows a choice of the plan. Asks nothing of the kernel.
    fn may_go_by(&self, choice: &Choice) -> Result<(), Refusal> {
        let takes_any_order = match self.plan.basis() {
            Basis::Asked => false,
            Basis::Rules => choice.rank == Rank::Together,
            Basis::Profile => choice.route.is_parallel(),
        };
        if takes_any_order && self.job.any_order == Allowed::No {
            return Err(Refusal::because(
                "what comes later could be written before what comes first",
            ));
        }
        plan::allows(choice.route, &self.job)
    }

    fn carry(&self, choice: &Choice, meter: &Meter, done: u64) -> Result<(), Stop> {
        let limit = self.job.limit.map_or(u64::MAX, |limit| limit - done.min(limit));
        // A wish: where it is refused, the scheduler decides as ever.
        let _stays = match choice.knobs.cpu {
            Cpu::Stay => pin_this_thread(rustix::thread::sched_getcpu()).ok(),
            Cpu::Any => None,
        };
        choice.route.carry(&Span {
            source: self.job.source,
            sink: self.job.sink,
            limit,
            beyond: self.job.beyond,
            preallocation: self.job.preallocation,
            knobs: &choice.knobs,
            meter,
            cancel: self.cancel.filter(|_| self.wakes.is_none_or(|wakes| wakes(choice.route))),
        })
    }

    /// A size that was asked for has to be had by a pipe; one that the plan wishes for need not, and
    /// why not is the answer.
    fn size_pipes(&self) -> Result<Option<Refusal>, TransferError> {
        let (asked, wished) = (self.plan.pipe_bytes(), self.plan.grow_pipes_to());
        let mut small = None;
        for end in [self.job.source, self.job.sink] {
            match (end.kind(), asked) {
                (Kind::Pipe, Some(bytes)) => {
                    end.set_pipe_bytes(bytes).map_err(TransferError::PipeSize)?;
                }
                // What a socket holds that is read from is its writer's to say.
                (Kind::UnixSocket, _) if std::ptr::eq(end, self.job.source) => {}
                _ => {
                    let enlarged = asked.or(wished).map(|bytes| end.enlarge(bytes));
                    small = enlarged.and_then(Result::err).or(small);
                }
            }
        }
        Ok(small)
    }
}

/// Says that bytes are in the error, if there are any.
fn kept(stranded: &[u8]) -> String {
    match stranded.len() {
        0 => String::new(),
        count => format!("; {count} bytes were read and not written: they are in the error"),
    }
}

/// Keeps why a route could not go on there, if the next one may.
fn went_on(
    stop: Stop,
    (route, offset): (&'static str, u64),
    last: bool,
    gave_up: &mut Vec<Gave>,
) -> Result<(), TransferError> {
    let declined = std::mem::take(gave_up);
    let why = match stop {
        Stop::Declined(refusal) => refusal.to_string(),
        // Which end failed does not show from inside the kernel; a more general route will tell,
        // or get through.
        Stop::Failed(failed) if failed.side == Side::Either && !last => failed.to_string(),
        Stop::Failed(failed) => {
            return Err(TransferError::Failed(Failed { offset, declined, ..failed }));
        }
        Stop::Cancelled { stranded } => {
            return Err(TransferError::Cancelled { offset, stranded, route, declined });
        }
    };
    *gave_up = declined;
    gave_up.push(Gave { route, offset, why });
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsFd;

    use super::*;
    use crate::endpoint::Endpoint;
    use crate::knobs::Knobs;

    #[test]
    fn a_file_goes_through_a_pipe_and_the_meter_says_so() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"some bytes").and_then(|()| file.rewind()).expect("written");
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let source = Endpoint::source(file.as_fd()).expect("a source");
        let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
        let job = Job::new(&source, &sink);
        let plan = Plan::best(&job, Knobs::default()).expect("a plan");
        let meter = Meter::new();
        let moved = Transfer::new(&job, &plan).meter(&meter).run().expect("moved");
        drop(sink);
        drop(writer);
        let mut got = String::new();
        std::fs::File::from(reader).read_to_string(&mut got).expect("read");
        assert_eq!((got.as_str(), moved.bytes, meter.bytes()), ("some bytes", 10, 10));
    }

    #[test]
    fn each_route_is_asked_as_it_begins_whether_a_cancel_wakes_it() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let source = Endpoint::source(reader.as_fd()).expect("a source");
        // It takes nothing by splice(2).
        let sink = Endpoint::open_sink("/dev/full").expect("a sink");
        let job = Job::new(&source, &sink);
        let plan = Plan::best(&job, Knobs::default()).expect("a plan");
        assert_eq!(plan.routes()[0].route.name(), "splice");
        let cancel = Cancel::new().expect("a cancel");
        cancel.cancel();
        let asked = std::cell::RefCell::new(Vec::new());
        let wakes = |route: &dyn Route| {
            asked.borrow_mut().push(route.name());
            route.holds_bytes(&job)
        };
        let stopped = Transfer::new(&job, &plan).cancel(&cancel).wakes(&wakes).run();
        drop(writer);
        assert_eq!(asked.borrow().first(), Some(&"splice"));
        match stopped {
            Err(TransferError::Cancelled { route, declined, .. }) => {
                assert_eq!(declined[0].route, "splice");
                assert_eq!(asked.borrow().last(), Some(&route));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_thread_that_was_to_stay_has_its_cpus_back_afterwards() {
        let source = Endpoint::open_source("/dev/zero").expect("a source");
        let sink = Endpoint::open_sink("/dev/null").expect("a sink");
        let job = Job::new(&source, &sink).limit(1 << 20);
        let knobs = Knobs { cpu: Cpu::Stay, ..Knobs::default() };
        let plan = Plan::only("read-write", &job, knobs).expect("a plan");
        let before = rustix::thread::sched_getaffinity(None).expect("a set");
        Transfer::new(&job, &plan).run().expect("moved");
        assert_eq!(rustix::thread::sched_getaffinity(None).expect("a set"), before);
    }

    #[test]
    fn of_sockets_only_a_unix_one_that_is_written_to_gets_a_larger_buffer() {
        use std::net::{TcpListener, TcpStream};
        use std::os::fd::BorrowedFd;
        use std::os::unix::net::UnixStream;

        use rustix::net::sockopt::{set_socket_send_buffer_size, socket_send_buffer_size as size};

        let tcp = || {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let far = TcpStream::connect(listener.local_addr().expect("it")).expect("connected");
            (far, listener.accept().expect("accepted").0)
        };
        // Sizes that any net.core.wmem_max allows; the kernel reckons with twice as much.
        let moved = |source: BorrowedFd<'_>, sink: BorrowedFd<'_>, leave| {
            let (source, sink) = (Endpoint::source(source), Endpoint::sink(sink));
            let (source, sink) = (source.expect("a source"), sink.expect("a sink"));
            let job = Job::new(&source, &sink).limit(16 << 10);
            let knobs = Knobs { pipe_bytes: Some(64 << 10), ..Knobs::default() };
            let plan = Plan::best(&job, if leave { Knobs::default() } else { knobs });
            let plan = plan.expect("a plan").leave_pipes();
            Transfer::new(&job, &plan).run().expect("moved");
        };
        for leave in [false, true] {
            let (from, mut feed) = UnixStream::pair().expect("sockets");
            feed.write_all(&[7; 48 << 10]).expect("taken");
            for small in [from.as_fd(), feed.as_fd()] {
                set_socket_send_buffer_size(small, 16 << 10).expect("set");
            }
            let (to, _drain) = UnixStream::pair().expect("sockets");
            set_socket_send_buffer_size(&to, 32 << 10).expect("set");
            moved(from.as_fd(), to.as_fd(), leave);
            let expected = if leave { 64 << 10 } else { 128 << 10 };
            assert_eq!(size(&to).expect("a size"), expected);
            assert_eq!(size(&from).expect("a size"), 32 << 10, "it is read from");
            moved(from.as_fd(), to.as_fd(), true);
            assert_eq!(size(&to).expect("a size"), expected, "large enough already");
            let (to, _drain) = tcp();
            let before = size(&to).expect("a size");
            moved(from.as_fd(), to.as_fd(), leave);
            assert_eq!(size(&to).expect("a size"), before, "TCP goes by itself");
        }
    }

    #[test]
    fn a_failure_whose_side_is_unknown_goes_to_the_next_route_unless_it_is_the_last() {
        let failed =
            || Stop::Failed(Failed::new("splice", Side::Either, "splice", rustix::io::Errno::IO));
        let (at, mut gave_up) = (("splice", 5), Vec::new());
        assert!(went_on(failed(), at, false, &mut gave_up).is_ok());
        let Err(TransferError::Failed(failed)) = went_on(failed(), at, true, &mut gave_up) else {
            panic!("it went on");
        };
        assert_eq!((failed.offset, failed.declined.len()), (5, 1));
    }

    #[test]
    fn the_debug_of_an_error_counts_the_bytes_that_it_holds() {
        let stranded = vec![7; 1 << 20];
        let failed = Failed::new("read-write", Side::Sink, "write", rustix::io::Errno::NOSPC);
        let failed = || Failed { stranded: stranded.clone(), ..failed.clone() };
        let cancelled = || Stop::Cancelled { stranded: stranded.clone() };
        let ended = went_on(cancelled(), ("read-write", 1), false, &mut Vec::new());
        for shown in [
            format!("{:?}", TransferError::from(failed())),
            format!("{:?}", ended.expect_err("it was cancelled")),
            format!("{:?}", Stop::Failed(failed())),
            format!("{:?}", cancelled()),
        ] {
            assert!(shown.contains("stranded: 1048576 bytes"), "{} bytes", shown.len());
        }
    }

    #[test]
    fn a_plan_for_another_job_is_refused_before_anything_moves() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), b"some bytes").expect("written");
        let source = Endpoint::open_source(file.path()).expect("a source");
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
        let null = Endpoint::open_sink("/dev/null").expect("a sink");
        let itself = Endpoint::open_sink_to_append(file.path()).expect("a sink");
        let pipe = Endpoint::source(reader.as_fd()).expect("a source");
        let refused = |planned: Job<'_>, job: Job<'_>, why: &str| {
            let plan = Plan::best(&planned, Knobs::default()).expect("a plan");
            let meter = Meter::new();
            let error = Transfer::new(&job, &plan).meter(&meter).run().expect_err(why);
            assert!(matches!(error, TransferError::OtherJob(_)), "{error:?}");
            assert!(error.to_string().contains(why), "{error}");
            assert_eq!(meter.bytes(), 0);
        };
        let plain = Job::new(&source, &sink);
        refused(plain.allow_aliasing(), plain, "later writes to it would show");
        refused(Job::new(&source, &null), Job::new(&source, &itself), "grow without end");
        let emptied = Job::new(&pipe, &sink);
        refused(emptied.keep_source(), emptied, "tee keeps the source");
        assert_eq!(file.as_file().metadata().expect("it").len(), 10);
        // A limit alone makes no other job of it, and one that allows more is served as well.
        let plan = Plan::best(&plain, Knobs::default()).expect("a plan");
        for job in [plain.limit(4), plain.allow_aliasing()] {
            Transfer::new(&job, &plan).run().expect("moved");
        }
        let mut got = [0; 10];
        reader.read_exact(&mut got).expect("read");
        assert_eq!(&got, b"some bytes");
    }
    #[test]
    fn a_plan_of_several_threads_is_refused_where_the_order_counts_unless_it_was_asked_for() {
        let file = |bytes: usize| {
            let file = rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC);
            let mut file = std::fs::File::from(file.expect("a file"));
            file.write_all(&vec![7; bytes]).and_then(|()| file.rewind()).expect("written");
            file
        };
        let (from, to) = (file(16 << 20), file(0));
        let source = Endpoint::source(from.as_fd()).expect("a source");
        let sink = Endpoint::sink(to.as_fd()).expect("a sink");
        let job = Job::new(&source, &sink);
        let len = || to.metadata().expect("it").len();
        let plan = Plan::best(&job.allow_any_order(), Knobs::default()).expect("a plan");
        if plan.routes()[0].rank == Rank::Together {
            let error = Transfer::new(&job, &plan).run().expect_err("the order counts");
            assert!(matches!(error, TransferError::OtherJob(_)), "{error:?}");
            assert!(error.to_string().contains("before what comes first"), "{error}");
            assert_eq!(len(), 0);
        } else {
            println!("skipped: several threads are not taken here: {plan}");
        }
        let plan = Plan::only("parallel", &job.allow_any_order(), Knobs::default());
        Transfer::new(&job, &plan.expect("a plan")).run().expect("it was asked for");
        assert_eq!(len(), 16 << 20);
    }
}
