//! Joins the producer at an address (see `broadcast_producer`), writes the messages that are sent from
//! then on to its standard output, and says how many bytes that were. The bytes are written from the
//! ring that all consumers share, and copied nowhere else.
//!
//! `cargo run --example broadcast_consumer -- @name >FILE`

use std::time::Duration;

use bytepath::channel::{Address, Connection, Setup};

/// How long to wait for a producer to be there.
const PATIENCE: Duration = Duration::from_secs(5);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args_os().nth(1).ok_or("usage: broadcast_consumer ADDRESS >FILE")?;
    let producer = Connection::connect(&Address::parse(address)?, PATIENCE)?;
    let mut receiver = producer.message_receiver(&Setup::default())?;
    let mut bytes = 0;
    // A producer that dies is an error here, after all that it had sent.
    while let Some(message) = receiver.receive()? {
        let mut written = 0;
        while written < message.bytes().len() {
            let rest = message.bytes().range(written..message.bytes().len());
            written += rest.write_to(std::io::stdout())?;
        }
        bytes += written;
    }
    eprintln!("{bytes} bytes received");
    Ok(())
}
