//! Ends that do anything in any order, against a model: a queue in ordinary memory.

use std::collections::VecDeque;

use bytepath::channel::{MessageNow, Now};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::test_runner::{Config, TestRunner};

use super::messages::queue;
use super::{readable, small, stream};
use crate::ends::contents;
use crate::watch::bounded;

/// Enough to find what one run in a hundred shows, over the runs of a few days.
const CASES: u32 = 150;

fn runner() -> TestRunner {
    TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() })
}

/// What an end does next, by numbers of bytes.
#[derive(Debug, Clone, Copy)]
enum Step {
    Send { most: usize, used: usize },
    Take { most: usize, used: usize },
    WatchSender,
    WatchReceiver,
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let send = (1..most, 0..most).prop_map(|(most, used)| Step::Send { most, used });
    let take = (1..most, 0..most).prop_map(|(most, used)| Step::Take { most, used });
    let step = prop_oneof![4 => send, 4 => take, 1 => Just(Step::WatchSender), 1 => Just(Step::WatchReceiver)];
    vec(step, 1..200)
}

#[test]
fn a_stream_does_what_a_queue_of_bytes_does() {
    bounded(|watch| {
        let run = runner().run(&steps(6000), |steps| {
            watch.at("a stream");
            let (mut sender, mut receiver) = stream(small(), small());
            let (mut model, mut next) = (VecDeque::<u8>::new(), 0);
            for step in steps {
                match step {
                    Step::Send { most, used } => match sender.try_space(most).expect("an answer") {
                        Some(mut space) => {
                            let room = space.len();
                            assert!(room > 0 && room <= most.min(4096 - model.len()));
                            let used = used.min(room);
                            let bytes = &contents(2 << 20)[next..next + used];
                            space.bytes().copy_from(0, bytes);
                            space.commit(used);
                            model.extend(bytes);
                            next += used;
                        }
                        None => assert_eq!(model.len(), 4096),
                    },
                    Step::Take { most, used } => {
                        match receiver.try_filled(most).expect("an answer") {
                            Now::Filled(filled) => {
                                let mut bytes = vec![0; filled.len()];
                                filled.bytes().copy_to(&mut bytes);
                                assert!(bytes.len() <= most && !bytes.is_empty());
                                assert!(bytes.iter().eq(model.iter().take(bytes.len())));
                                let used = used.min(bytes.len());
                                filled.release(used);
                                model.drain(..used);
                            }
                            Now::Nothing => assert!(model.is_empty()),
                            Now::End => panic!("nobody ended it"),
                        }
                    }
                    Step::WatchSender => {
                        assert_eq!(sender.watch().expect("an answer"), model.len() < 4096);
                    }
                    Step::WatchReceiver => {
                        let ready = receiver.watch().expect("an answer");
                        assert_eq!(ready, !model.is_empty());
                        assert!(ready || !readable(&receiver));
                    }
                }
            }
            Ok(())
        });
        run.unwrap_or_else(|failure| panic!("{failure}"));
    });
}

#[test]
fn a_queue_of_messages_does_what_a_queue_does() {
    bounded(|watch| {
        let run = runner().run(&steps(2100), |steps| {
            watch.at("a queue");
            let (mut sender, mut receiver) = queue(small());
            let mut model = VecDeque::new();
            for step in steps {
                match step {
                    Step::Send { most, used } => {
                        let most = most.min(sender.longest());
                        let Some(mut space) = sender.try_space(most).expect("an answer") else {
                            assert!(!model.is_empty(), "an empty ring has room");
                            continue;
                        };
                        let used = used.min(most);
                        space.bytes().copy_from(0, contents(used));
                        space.commit(used);
                        model.push_back(used);
                    }
                    Step::Take { .. } => match receiver.try_receive().expect("an answer") {
                        MessageNow::Message(message) => {
                            let mut bytes = vec![0; message.bytes().len()];
                            message.bytes().copy_to(&mut bytes);
                            let len = model.pop_front().expect("one was sent");
                            assert_eq!(bytes, contents(len));
                        }
                        MessageNow::Nothing => assert!(model.is_empty()),
                        MessageNow::End => panic!("nobody ended it"),
                    },
                    Step::WatchSender => {
                        let empty = model.is_empty();
                        assert!(sender.watch(1).expect("an answer") || !empty);
                    }
                    Step::WatchReceiver => {
                        assert_eq!(receiver.watch().expect("an answer"), !model.is_empty());
                    }
                }
            }
            Ok(())
        });
        run.unwrap_or_else(|failure| panic!("{failure}"));
    });
}
