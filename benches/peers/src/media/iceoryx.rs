//! iceoryx2: one service of publish and subscribe a direction, with samples that are lent; and, where
//! ends sleep, an event beside it, which is how iceoryx2 has subscribers woken.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use iceoryx2::node::Node;
use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::{
    BackpressureStrategy, NodeBuilder, PortFactory as _, SignalHandlingMode, ipc,
};
use iceoryx2::service::port_factory::publish_subscribe::PortFactory;

use super::{Ends, Has, In, Out, Setup, Wait, sys};
use crate::content::{fill, sum};
use crate::end::PATIENCE;

/// Samples that wait for a subscriber, at the most: as many as lie in a ring of ours, but no fewer
/// than these and no more.
const RING_BYTES: usize = 512 << 10;
const SAMPLES_MIN: usize = 4;
const SAMPLES_MAX: usize = 1024;

type Words = PortFactory<ipc::Service, [u64], ()>;

pub(super) fn ends(setup: &Setup, has: Has) -> anyhow::Result<Ends> {
    let quiet = SignalHandlingMode::Disabled;
    let node = NodeBuilder::new().signal_handling_mode(quiet).create::<ipc::Service>()?;
    let (mut out, mut back) = (None::<Box<dyn Out>>, None);
    let mut services = Vec::new();
    for (way, sends) in [("there", has.begins), ("back", !has.begins)] {
        if !(if sends { has.out } else { has.back }) {
            continue;
        }
        let name = format!("{}/{way}", setup.name);
        let service = words(&node, &name, setup)?;
        if sends {
            out = Some(Box::new(sending(&node, &name, &service, setup)?));
        } else {
            back = Some(receiving(&node, &name, &service, setup)?);
        }
        services.push(service);
    }
    services.iter().try_for_each(until_joined)?;
    if let Some(receiving) = &back {
        // It connects when it first looks. Until then samples that its buffer has no room for go
        // nowhere, whatever the publisher's strategy is.
        receiving.subscriber.has_samples()?;
    }
    Ok((out, back.map(|receiving| Box::new(receiving) as Box<dyn In>)))
}

fn words(node: &Node<ipc::Service>, name: &str, setup: &Setup) -> anyhow::Result<Words> {
    let samples = (RING_BYTES / (8 * setup.words)).clamp(SAMPLES_MIN, SAMPLES_MAX);
    Ok(node
        .service_builder(&name.try_into()?)
        .publish_subscribe::<[u64]>()
        .enable_safe_overflow(false)
        .history_size(0)
        .subscriber_max_buffer_size(samples)
        .max_publishers(1)
        .max_subscribers(1)
        .max_nodes(2)
        .open_or_create()?)
}

fn until_joined(service: &Words) -> anyhow::Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        let there = service.dynamic_config();
        if there.number_of_publishers() == 1 && there.number_of_subscribers() == 1 {
            return Ok(());
        }
        if Instant::now() > until {
            bail!("the other end did not come");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

struct Sending {
    publisher: Publisher<ipc::Service, [u64], ()>,
    notifier: Option<Notifier<ipc::Service>>,
    words: usize,
}

fn sending(
    node: &Node<ipc::Service>,
    name: &str,
    service: &Words,
    setup: &Setup,
) -> anyhow::Result<Sending> {
    let publisher = service.publisher_builder().initial_max_slice_len(setup.words);
    let publisher =
        publisher.backpressure_strategy(BackpressureStrategy::RetryUntilDelivered).create()?;
    let notifier = match setup.wait {
        Wait::Block => {
            let event = node.service_builder(&name.try_into()?).event().open_or_create()?;
            Some(event.notifier_builder().create()?)
        }
        Wait::Spin => None,
    };
    Ok(Sending { publisher, notifier, words: setup.words })
}

impl Out for Sending {
    fn send(&mut self, number: u64) -> anyhow::Result<()> {
        let mut sample = self.publisher.loan_slice_uninit(self.words)?;
        fill(sample.payload_mut(), number);
        sys::filled(sample).send()?;
        if let Some(notifier) = &self.notifier {
            notifier.notify()?;
        }
        Ok(())
    }
}

struct Receiving {
    subscriber: Subscriber<ipc::Service, [u64], ()>,
    listener: Option<Listener<ipc::Service>>,
    yields: bool,
}

fn receiving(
    node: &Node<ipc::Service>,
    name: &str,
    service: &Words,
    setup: &Setup,
) -> anyhow::Result<Receiving> {
    let listener = match setup.wait {
        Wait::Block => {
            let event = node.service_builder(&name.try_into()?).event().open_or_create()?;
            Some(event.listener_builder().create()?)
        }
        Wait::Spin => None,
    };
    let subscriber = service.subscriber_builder().create().context("the subscriber")?;
    Ok(Receiving { subscriber, listener, yields: setup.shares_cpu })
}

impl In for Receiving {
    fn receive(&mut self) -> anyhow::Result<(u64, u64)> {
        loop {
            if let Some(sample) = self.subscriber.receive()? {
                let words = sample.payload();
                return Ok((words[0], sum(words)));
            }
            match &self.listener {
                Some(listener) => {
                    listener.blocking_wait(|_| {})?;
                }
                None if self.yields => std::thread::yield_now(),
                None => std::hint::spin_loop(),
            }
        }
    }
}
