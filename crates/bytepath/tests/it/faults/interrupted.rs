//! Signals that interrupt every call that sleeps.

use bytepath::routes::ROUTES;
use bytepath::{Endpoint, Kind, Knobs, Meter, Wait};

use crate::ends::{Pace, SINKS, SOURCES};
use crate::storm::in_a_storm;
use crate::stuck::until_stuck;
use crate::trial::Trial;
use crate::watch::bounded;

#[test]
fn a_storm_of_signals_loses_nothing() {
    bounded(|watch| {
        for source in SOURCES {
            for sink in SINKS {
                for route in ROUTES {
                    for (wait, cancellable) in [(Wait::Block, false), (Wait::Poll, true)] {
                        let bytes = if [source.name, sink.name].contains(&"tty") {
                            10_007
                        } else {
                            200_003
                        };
                        let trial = Trial {
                            only: Some(route.name()),
                            limit: Some(bytes as u64),
                            knobs: Knobs { wait, ..Knobs::default() },
                            cancellable,
                            pace: Pace::Odd,
                            ..Trial::new(source, sink, bytes)
                        };
                        watch.at(&trial);
                        trial.run_where(|carry| in_a_storm(carry));
                    }
                }
            }
        }
    });
}

#[test]
fn a_fifo_is_waited_for_however_often_that_is_interrupted() {
    bounded(|_| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("fifo");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).expect("a FIFO");
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let path = &path;
            let opening = scope.spawn(move || {
                in_a_storm(|| {
                    tell.send(rustix::thread::gettid()).expect("the test listens");
                    Endpoint::open_source(path)
                })
            });
            let thread = told.recv().expect("it starts");
            until_stuck(thread, &Meter::new(), || opening.is_finished());
            let sink = Endpoint::open_sink(path).expect("somebody waits for it");
            let source = opening.join().expect("no panic").expect("somebody has come");
            assert_eq!((source.kind(), sink.kind()), (Kind::Pipe, Kind::Pipe));
        });
    });
}
