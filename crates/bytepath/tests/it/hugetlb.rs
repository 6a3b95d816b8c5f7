//! Buffers in pages of the hugetlbfs pool.

use std::os::fd::AsFd;

use bytepath::channel::Parcel;
use bytepath::outlets::{Contents, OUTLETS, Setup};
use bytepath::pages::{HUGE_PAGE_BYTES, Memory, PageSize, Pages};
use bytepath::{Endpoint, Meter};

use crate::ends::{Pace, contents, pipe};
use crate::pool::Filled;
use crate::trial::same;
use crate::watch::bounded;

#[test]
fn every_outlet_delivers_from_pages_of_the_pool() {
    let Some(_filled) = Filled::new() else { return };
    bounded(|watch| {
        let pages = Pages { size: PageSize::Hugetlb, locked: false };
        let mut memory = Memory::allocate(1, &pages).expect("a page of the pool");
        memory.as_mut_slice().fill(1);
        match memory.huge_bytes() {
            Ok(huge) => assert!(huge > 0, "the page is one of the pool"),
            Err(error) => eprintln!("not looked up: {error}"),
        }
        drop(memory);
        let period = contents(4096);
        // Three buffers and a bit, so that pages are renewed and come round.
        let bytes = (6 << 20) + 4096 * 3;
        for outlet in OUTLETS {
            watch.at(outlet.name());
            let (reader, writer) = pipe();
            let collector = std::thread::spawn(move || Pace::Whole.collect(reader));
            let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
            let meter = Meter::new();
            let setup = Setup {
                contents: Contents::Repeat(period),
                buf_bytes: 1 << 20,
                pages,
                ..Setup::new(&meter)
            };
            let mut producer = outlet.open(&sink, &setup).expect("it opens");
            producer.repeat(bytes as u64).expect("it goes");
            drop(producer);
            drop(writer);
            same(&collector.join().expect("it reads"), &period.repeat(bytes / period.len()));
        }
    });
}

#[test]
fn a_sealed_buffer_of_the_pool_has_all_its_pages() {
    let Some(_filled) = Filled::new() else { return };
    bounded(|_| {
        let bytes = 3 * HUGE_PAGE_BYTES;
        let mut parcel = Parcel::allocate(bytes, PageSize::Hugetlb).expect("pages of the pool");
        parcel.as_mut_slice()[..5].copy_from_slice(b"bytes");
        let sealed = parcel.seal(bytes).expect("sealed");
        // Those that were never written: read where one is missed, they are taken, or end this process.
        let made = rustix::fs::fstat(&sealed).expect("its size").st_blocks as usize * 512;
        assert_eq!(made, bytes);
        let (begin, rest) = sealed.as_slice().split_at(5);
        assert_eq!(begin, b"bytes");
        assert!(rest.iter().all(|&byte| byte == 0));
    });
}
