//! Sends its standard input, as messages, to all consumers (see `broadcast_consumer`) that connect to
//! an address: begins once so many are there; those that come later get what follows. The bytes are
//! read into the ring, and copied nowhere else, however many consumers there are.
//!
//! `cargo run --example broadcast_producer -- @name 2 <FILE`

use std::time::Duration;

use bytepath::channel::{Address, Broadcast, Listener, Setup};

/// How long to wait for consumers.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of a message.
const MESSAGE_BYTES: usize = 64 << 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let usage = "usage: broadcast_producer ADDRESS CONSUMERS <FILE";
    let (address, consumers) = args.next().zip(args.next()).ok_or(usage)?;
    let consumers = consumers.to_str().and_then(|number| number.parse().ok()).ok_or(usage)?;
    let listener = Listener::bind(&Address::parse(address)?)?;
    let mut sender = Broadcast::at(listener, &Setup::default())?;
    sender.wait_for_receivers(consumers, PATIENCE)?;
    let mut bytes = 0;
    loop {
        let mut space = sender.space(MESSAGE_BYTES)?;
        let count = space.bytes().read_from(0, std::io::stdin())?;
        if count == 0 {
            break;
        }
        space.commit(count);
        bytes += count;
    }
    sender.wait_until_taken()?;
    let receivers = sender.receivers();
    sender.finish();
    eprintln!(
        "{bytes} bytes sent; {} consumers have them, {} died",
        receivers.present, receivers.lost
    );
    Ok(())
}
