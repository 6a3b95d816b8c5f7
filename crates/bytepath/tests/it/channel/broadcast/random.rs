//! Anything in any order, against a model: where in the ring the sender and each receiver are.

use std::collections::VecDeque;

use bytepath::channel::{Broadcast, MessageNow, MessageReceiver};
use proptest::collection::vec;
use proptest::prelude::{Strategy, prop_oneof};
use proptest::test_runner::{Config, TestRunner};

use super::super::small;
use super::{admits_until, joined};
use crate::ends::contents;
use crate::watch::bounded;

const CASES: u32 = 150;

const RING_BYTES: usize = 4096;

#[derive(Debug, Clone, Copy)]
enum Step {
    Send { most: usize, used: usize },
    Take { who: usize },
    Join,
    Leave { who: usize },
    Watch { who: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..2030_usize, 0..2030_usize).prop_map(|(most, used)| Step::Send { most, used }),
        8 => (0..5_usize).prop_map(|who| Step::Take { who }),
        1 => (0..1_usize).prop_map(|_| Step::Join),
        1 => (0..5_usize).prop_map(|who| Step::Leave { who }),
        1 => (0..5_usize).prop_map(|who| Step::Watch { who }),
    ];
    vec(step, 1..150)
}

/// A message that was sent: its length, and the place behind it.
type Sent = (usize, usize);

struct Model {
    receiver: MessageReceiver,
    to_come: VecDeque<Sent>,
    released: usize,
}

/// What a record takes of the ring, whose next place is `at`.
fn needs(at: usize, len: usize) -> usize {
    let (record, to_the_end) = (8 + len.next_multiple_of(8), RING_BYTES - at % RING_BYTES);
    if record > to_the_end { to_the_end + record } else { record }
}

fn sent(sender: &mut Broadcast, models: &mut [Model], at: &mut usize, most: usize, used: usize) {
    let slowest = models.iter().map(|model| model.released).min().unwrap_or(*at);
    let fits = *at + needs(*at, most) - slowest <= RING_BYTES;
    let space = sender.try_space(most).expect("an answer");
    assert_eq!(space.is_some(), fits, "{most} bytes at {at}, the slowest at {slowest}");
    let Some(mut space) = space else { return };
    let used = used.min(most);
    space.bytes().copy_from(0, contents(used));
    space.commit(used);
    // The gap is one for what was asked for.
    let gap = needs(*at, most) - (8 + most.next_multiple_of(8));
    *at += gap + 8 + used.next_multiple_of(8);
    models.iter_mut().for_each(|model| model.to_come.push_back((used, *at)));
}

fn taken(model: &mut Model) {
    match model.receiver.try_receive().expect("an answer") {
        MessageNow::Message(message) => {
            let mut bytes = vec![0; message.bytes().len()];
            message.bytes().copy_to(&mut bytes);
            let (len, behind) = model.to_come.pop_front().expect("one was sent");
            assert_eq!(bytes, contents(len));
            model.released = behind;
        }
        MessageNow::Nothing => assert!(model.to_come.is_empty()),
        MessageNow::End => panic!("nobody ended it"),
    }
}

#[test]
fn a_broadcast_does_what_a_queue_for_each_does() {
    bounded(|watch| {
        let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
        let run = TestRunner::new(config).run(&steps(), |steps| {
            watch.at("a broadcast");
            let mut sender = Broadcast::new(&small()).expect("a sender");
            let (mut models, mut at) = (Vec::new(), 0);
            for step in steps {
                match step {
                    Step::Send { most, used } => {
                        sent(&mut sender, &mut models, &mut at, most, used);
                    }
                    Step::Take { who } => {
                        models.get_mut(who).into_iter().for_each(taken);
                    }
                    Step::Join => {
                        let receiver = joined(&mut sender, small());
                        models.push(Model { receiver, to_come: VecDeque::new(), released: at });
                    }
                    Step::Leave { who } => {
                        let leaves = who < models.len();
                        leaves.then(|| models.swap_remove(who));
                        admits_until(&mut sender, |now| now.present == models.len());
                    }
                    Step::Watch { who } => {
                        if let Some(model) = models.get_mut(who) {
                            let ready = model.receiver.watch().expect("an answer");
                            assert_eq!(ready, !model.to_come.is_empty());
                        }
                        let slowest = models.iter().map(|model| model.released).min();
                        let fits = at + needs(at, 100) - slowest.unwrap_or(at) <= RING_BYTES;
                        assert_eq!(sender.watch(100).expect("an answer"), fits);
                    }
                }
            }
            Ok(())
        });
        run.unwrap_or_else(|failure| panic!("{failure}"));
    });
}
