//! bytepath's queue of messages, one a direction.

use std::sync::atomic::Ordering::Relaxed;

use anyhow::Context;
use bytepath::channel::{Address, Connection, Listener, MessageReceiver, MessageSender, Setup};
use bytepath::wait::HYBRID_BUDGET;

use super::{Ends, Has, In, Medium, Out, Wait, sys};
use crate::content::{WORD_BYTES, fill, sum, word};
use crate::end::PATIENCE;

/// Rings hold at least so many of the largest messages, with what is between them.
const MESSAGES: usize = 4;

pub(super) fn ends(medium: Medium, with: &super::Setup, has: Has) -> anyhow::Result<Ends> {
    let usual = Setup::default();
    let setup = Setup {
        wait: match (medium, with.wait) {
            (Medium::BytepathHybrid, _) => bytepath::Wait::Hybrid(HYBRID_BUDGET),
            (_, Wait::Block) => bytepath::Wait::Block,
            (_, Wait::Spin) => bytepath::Wait::Spin,
        },
        ring_bytes: usual.ring_bytes.max(MESSAGES * (with.words + 8) * WORD_BYTES),
        ..usual
    };
    let trusts = medium != Medium::BytepathAtomic;
    let (mut out, mut back) = (None, None);
    // There first, then back, in both processes.
    for (way, sends) in [("there", has.begins), ("back", !has.begins)] {
        if !(if sends { has.out } else { has.back }) {
            continue;
        }
        let connection = met(&format!("@{}-{way}", with.name), has.begins)?;
        if sends {
            let sender = connection.message_sender(&setup)?;
            out = Some(Box::new(Sending { sender, words: with.words, trusts }) as Box<dyn Out>);
        } else {
            let receiver = connection.message_receiver(&setup)?;
            back = Some(Box::new(Receiving { receiver, trusts }) as Box<dyn In>);
        }
    }
    Ok((out, back))
}

fn met(name: &str, begins: bool) -> anyhow::Result<Connection> {
    let address = Address::parse(name)?;
    Ok(match begins {
        true => Connection::connect(&address, PATIENCE)?,
        false => Listener::bind(&address)?.accept()?,
    })
}

struct Sending {
    sender: MessageSender,
    words: usize,
    trusts: bool,
}

impl Out for Sending {
    fn send(&mut self, number: u64) -> anyhow::Result<()> {
        let bytes = self.words * WORD_BYTES;
        let mut space = self.sender.space(bytes)?;
        let mut into = space.bytes();
        if self.trusts {
            fill(sys::words_mut(&mut into), number);
        } else {
            for (place, to) in into.words().1.iter().enumerate() {
                to.store(word(number, place), Relaxed);
            }
        }
        space.commit(bytes);
        Ok(())
    }
}

struct Receiving {
    receiver: MessageReceiver,
    trusts: bool,
}

impl In for Receiving {
    fn receive(&mut self) -> anyhow::Result<(u64, u64)> {
        let message = self.receiver.receive()?.context("the queue has ended")?;
        let bytes = message.bytes();
        if self.trusts {
            let words = sys::words(&bytes);
            return Ok((words[0], sum(words)));
        }
        let words = bytes.words().1;
        Ok((words[0].load(), words.iter().fold(0, |sum, word| sum.wrapping_add(word.load()))))
    }
}
