//! Routes that the kernel refuses in the middle: the next goes on from the byte reached.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;

use bytepath::{Endpoint, Job, Knobs, Meter, Plan, Transfer};
use rustix::fs::OFlags;

use crate::ends::{Pace, contents, disk_file, memfd, pipe, tcp_pair, tmpfs_file, unix_pair};
use crate::faults::written_after;
use crate::trial::same;
use crate::watch::bounded;

/// What has arrived when the sink changes under the transfer.
const BEFORE_BYTES: usize = 100_003;

/// What is to be moved; the source has a little more.
const LIMIT: usize = 690_001;

/// Somebody who shares the sink sets O_APPEND, after which splice says EINVAL.
#[test]
fn splice_that_is_refused_midway_hands_over_at_the_byte_reached() {
    let sources = [("pipe", pipe as fn() -> (File, File)), ("unix", unix_pair), ("tcp", tcp_pair)];
    let sinks = [("tmpfs file", tmpfs_file as fn() -> File), ("memfd", memfd), ("disk", disk_file)];
    bounded(move |watch| {
        let all = contents(700_001);
        // One call then takes no more than a part of what follows.
        let knobs = Knobs { chunk_bytes: Some(65_536), ..Knobs::default() };
        for (source_name, connect) in sources {
            for (sink_name, make) in sinks {
                watch.at(format_args!("{source_name} to {sink_name}"));
                let (near, mut far) = connect();
                let mut sink = make();
                let meter = Meter::new();
                let moved = std::thread::scope(|scope| {
                    let mover = scope.spawn(|| {
                        let source = Endpoint::source(near.as_fd()).expect("a source");
                        let sink = Endpoint::sink(sink.as_fd()).expect("a sink");
                        let job = Job::new(&source, &sink).limit(LIMIT as u64);
                        let plan = Plan::best(&job, knobs.clone()).expect("a plan");
                        Transfer::new(&job, &plan).meter(&meter).run()
                    });
                    far.write_all(&all[..BEFORE_BYTES]).expect("written");
                    while meter.bytes() < BEFORE_BYTES as u64 {
                        std::thread::yield_now();
                    }
                    rustix::fs::fcntl_setfl(&sink, OFlags::APPEND).expect("O_APPEND is set");
                    far.write_all(&all[BEFORE_BYTES..]).expect("written");
                    drop(far);
                    mover.join().expect("it ends").expect("moved")
                });
                assert_eq!(moved.bytes, LIMIT as u64);
                let gave: Vec<_> = moved.declined.iter().map(|gave| gave.route).collect();
                assert_eq!((&gave[..], moved.route), (&["splice"][..], "read-write"));
                for gave in &moved.declined {
                    assert!(gave.offset >= BEFORE_BYTES as u64, "{gave:?}");
                    assert!(gave.offset < moved.bytes, "{gave:?}");
                    assert!(gave.why.contains("Invalid argument"), "{gave:?}");
                }
                same(&written_after(&mut sink, 0), &all[..LIMIT]);
                same(&Pace::Whole.collect(near), &all[LIMIT..]);
            }
        }
    });
}
