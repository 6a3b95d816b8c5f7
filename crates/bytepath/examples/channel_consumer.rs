//! Listens at an address for one producer (see `channel_producer`), writes what comes through the
//! channel to its standard output, and says how many bytes that were. The bytes are written from the
//! ring, and copied nowhere else.
//!
//! `cargo run --example channel_consumer -- @name >FILE`

use bytepath::channel::{Address, Listener, Setup};

/// Bytes that are written at once.
const PIECE_BYTES: usize = 64 << 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args_os().nth(1).ok_or("usage: channel_consumer ADDRESS >FILE")?;
    let listener = Listener::bind(&Address::parse(address)?)?;
    let mut receiver = listener.accept()?.receiver(&Setup::default())?;
    let mut bytes = 0;
    // A producer that dies is an error here, after all that it had committed.
    while let Some(filled) = receiver.filled(PIECE_BYTES)? {
        let count = filled.bytes().write_to(std::io::stdout())?;
        filled.release(count);
        bytes += count;
    }
    eprintln!("{bytes} bytes received");
    Ok(())
}
