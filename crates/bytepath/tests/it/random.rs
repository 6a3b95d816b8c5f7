//! Movements drawn at random, shrunk to the smallest that fails.

use std::os::fd::AsFd;

use bytepath::outlets::{Contents, OUTLETS, Setup};
use bytepath::routes::{Allowed, ROUTES};
use bytepath::{Endpoint, Knobs, Meter, Wait};
use proptest::option;
use proptest::prelude::{Strategy, any};
use proptest::test_runner::{Config, TestRunner};

use crate::ends::{Pace, SINKS, SOURCES, contents};
use crate::outlets::{collected, may_decline, repeat_all, repeated};
use crate::trial::{Nonblock, Trial, same};
use crate::watch::bounded;

/// Enough to find what one run in a hundred shows, over the runs of a few days.
const CASES: u32 = 200;

fn runner() -> TestRunner {
    // The test's own output says what failed; files of past failures are kept by nobody.
    TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() })
}

fn waits() -> impl Strategy<Value = Wait> {
    (0..Wait::NAMES.len()).prop_map(|at| Wait::named(Wait::NAMES[at]).expect("a wait"))
}

fn pipe_sizes() -> impl Strategy<Value = usize> {
    (12_u32..=20).prop_map(|power| 1 << power)
}

fn paces() -> impl Strategy<Value = Pace> {
    any::<bool>().prop_map(|odd| if odd { Pace::Odd } else { Pace::Whole })
}

fn knobs() -> impl Strategy<Value = Knobs> {
    let chunks = option::of(500_usize..200_000);
    (chunks, option::of(pipe_sizes()), waits()).prop_map(|(chunk_bytes, pipe_bytes, wait)| Knobs {
        chunk_bytes,
        pipe_bytes,
        wait,
        ..Knobs::default()
    })
}

fn trials() -> impl Strategy<Value = Trial> {
    let ends = (0..SOURCES.len(), 0..SINKS.len(), option::of(0..ROUTES.len()));
    let sizes = (0..300_000_usize, option::of(0..400_000_u64));
    let manners = (any::<[bool; 4]>(), paces());
    (ends, sizes, knobs(), manners).prop_map(
        |((source, sink, route), (bytes, limit), knobs, (flags, pace))| Trial {
            limit,
            only: route.map(|route| ROUTES[route].name()),
            aliasing: if flags[0] { Allowed::Yes } else { Allowed::No },
            knobs,
            cancellable: flags[1],
            nonblock: Nonblock { source: flags[2], sink: flags[3] },
            pace,
            ..Trial::new(&SOURCES[source], &SINKS[sink], bytes)
        },
    )
}

#[test]
fn any_movement_keeps_every_byte() {
    bounded(|watch| {
        let run = runner().run(&trials().prop_filter("it ends", Trial::ends), |trial| {
            watch.at(&trial);
            trial.run();
            Ok(())
        });
        run.unwrap_or_else(|failure| panic!("{failure}"));
    });
}

#[test]
fn any_repetition_is_exact() {
    bounded(|watch| {
        let drawn = (0..OUTLETS.len(), 1..40_000_usize, 1..300_000_usize, pipe_sizes(), waits());
        let run = runner().run(&(drawn, 0..400_000_usize, paces()), |(drawn, total, pace)| {
            let (outlet, period, buf_bytes, pipe_bytes, wait) = drawn;
            let outlet = OUTLETS[outlet];
            watch.at(format_args!("{}: {drawn:?}, {total} bytes, {pace:?}", outlet.name()));
            let (writer, collector) = collected(pipe_bytes, pace);
            let meter = Meter::new();
            let setup = Setup {
                contents: Contents::Repeat(contents(period)),
                buf_bytes: buf_bytes.max(total / 500 + 1),
                pipe_bytes: Some(pipe_bytes),
                wait,
                ..Setup::new(&meter)
            };
            let sent = {
                let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
                match outlet.open(&sink, &setup) {
                    Ok(mut producer) => {
                        repeat_all(&mut *producer, total);
                        total
                    }
                    Err(stop) => {
                        assert!(may_decline(outlet, period, pipe_bytes), "{stop}");
                        0
                    }
                }
            };
            drop(writer);
            let arrived = collector.join().expect("the collector ends");
            same(&arrived, &repeated(contents(period), sent));
            assert_eq!(meter.bytes(), sent as u64);
            Ok(())
        });
        run.unwrap_or_else(|failure| panic!("{failure}"));
    });
}
