//! Sends its standard input through a channel to whoever listens at an address (see
//! `channel_consumer`), and says how many bytes that were. The bytes are read into the ring, and
//! copied nowhere else.
//!
//! `cargo run --example channel_producer -- @name <FILE`

use std::time::Duration;

use bytepath::channel::{Address, Connection, Setup};

/// How long to wait for a consumer to be there.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes that are read at once.
const PIECE_BYTES: usize = 64 << 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args_os().nth(1).ok_or("usage: channel_producer ADDRESS <FILE")?;
    let consumer = Connection::connect(&Address::parse(address)?, PATIENCE)?;
    let mut sender = consumer.sender(&Setup::default())?;
    let mut bytes = 0;
    loop {
        let mut space = sender.space(PIECE_BYTES)?;
        let count = space.bytes().read_from(0, std::io::stdin())?;
        if count == 0 {
            break;
        }
        space.commit(count);
        bytes += count;
    }
    // Else an end of the input would look the same to this end as a consumer that fails.
    sender.wait_until_taken()?;
    sender.finish();
    eprintln!("{bytes} bytes sent");
    Ok(())
}
