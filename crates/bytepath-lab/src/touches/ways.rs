//! The ways of touching pages, a function each, and the list of them.

use std::fs::File;
use std::io::{IoSliceMut, Write as _};
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::fs::FileExt;

use bytepath::pages::{Memory, PageSize, Pages};
use bytepath::ring::{Buffer, Ring, Setup};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use rustix::fs::{Mode, OFlags};
use rustix::pipe::{SpliceFlags, fcntl_setpipe_size, splice};

use super::{AREA_BYTES, Area, Clock, Made, Setting, Touch, TouchError, base_pages};
use crate::memory::in_wanted_pages;
use crate::pair_work::unnamed;
use crate::sys::pinning;

/// Areas of every kind.
const ANY: &[Made] = Made::ALL;
/// Areas whose pages are there.
const THERE: &[Made] =
    &[Made::Of(PageSize::Base), Made::Of(PageSize::Huge), Made::Of(PageSize::Hugetlb)];
/// Areas that one mmap(2) makes: for transparent huge pages more is mapped, cut to where they begin,
/// and advised, which is four calls.
const BY_ONE_CALL: &[Made] = &[Made::Of(PageSize::Base), Made::Of(PageSize::Hugetlb)];

const PAGE: &str = "4 KiB of the area";

const fn touch(
    name: &'static str,
    summary: &'static str,
    on: &'static [Made],
    measure: fn(&Setting, &mut Clock) -> Result<(), TouchError>,
) -> Touch {
    Touch { name, summary, operation: PAGE, on, area_bytes: AREA_BYTES, measure }
}

const fn stride(name: &'static str, area_bytes: usize) -> Touch {
    Touch {
        name,
        summary: "reads one word of each 4 KiB, in random order, each telling where the next is",
        operation: "one read",
        on: THERE,
        area_bytes,
        measure: strides,
    }
}

/// Every way.
pub const TOUCHES: &[Touch] = &[
    touch("vmsplice", "lends the area to a pipe, which is then drained", ANY, lent),
    touch("process-vm-readv", "reads a word of each 4 KiB as of another process", ANY, visited),
    touch("o-direct", "reads a file into the area past the page cache", ANY, read_directly),
    touch("register-buffers", "has a ring keep the area", ANY, registered),
    touch("gup-fast", "get_user_pages_fast alone, by the kernel's gup_test", ANY, gup_test),
    touch("fault-write", "writes a byte of each 4 KiB that is not there", THERE, faults_by_writing),
    touch("fault-read", "reads a byte of each 4 KiB that is not there", THERE, faults_by_reading),
    touch("munmap", "unmaps an area that is there", THERE, unmapped),
    Touch {
        operation: "one mmap(2) and munmap(2)",
        ..touch("mmap", "maps an area and unmaps it, untouched", BY_ONE_CALL, mapped)
    },
    stride("stride-256K", 256 << 10),
    stride("stride-2M", 2 << 20),
    stride("stride-8M", 8 << 20),
    stride("stride-32M", 32 << 20),
    stride("stride-128M", 128 << 20),
];

/// The way of this name.
pub fn by_name(name: &str) -> Option<&'static Touch> {
    TOUCHES.iter().find(|touch| touch.name == name)
}

/// As much as an ordinary user's pipe holds.
const PIPE_BYTES: usize = 1 << 20;

fn lent(setting: &Setting, clock: &mut Clock) -> Result<(), TouchError> {
    let mut area = Area::make(setting)?;
    let pipe = rustix::pipe::pipe().map_err(TouchError::of("pipe"))?;
    let null =
        File::options().write(true).open("/dev/null").map_err(TouchError::of("/dev/null"))?;
    // A smaller one only means more calls.
    let holds = fcntl_setpipe_size(&pipe.1, PIPE_BYTES).unwrap_or(64 << 10);
    while clock.goes_on() {
        let mut rest = area.ready()?;
        while !rest.is_empty() {
            let piece = &rest[..holds.min(rest.len())];
            let lent = clock.clock(0, || pinning::vmsplice(pipe.1.as_fd(), piece));
            let lent = lent.map_err(TouchError::of("vmsplice"))?;
            clock.add(base_pages(lent), std::time::Duration::ZERO);
            let mut left = lent;
            while left > 0 {
                let moved = splice(&pipe.0, None, &null, None, left, SpliceFlags::empty());
                left -= moved.map_err(TouchError::of("splice"))?;
            }
            rest = &rest[lent..];
        }
    }
    Ok(())
}

/// Pages that one process_vm_readv visits: IOV_MAX pieces.
const VISITED_AT_ONCE: usize = 1024;

fn visited(setting: &Setting, clock: &mut Clock) -> Result<(), TouchError> {
    let mut area = Area::make(setting)?;
    let (page, this) = (rustix::param::page_size(), nix::unistd::Pid::this());
    let mut words = vec![0_u8; 8 * VISITED_AT_ONCE];
    while clock.goes_on() {
        let memory = area.ready()?;
        let start = memory.as_ptr() as usize;
        for chunk in (0..memory.len() / page).collect::<Vec<_>>().chunks(VISITED_AT_ONCE) {
            let word = |page_index: &usize| RemoteIoVec { base: start + page_index * page, len: 8 };
            let remote: Vec<_> = chunk.iter().map(word).collect();
            let mut local = [IoSliceMut::new(&mut words[..8 * chunk.len()])];
            let pages = chunk.len() as u64;
            let read = clock.clock(pages, || process_vm_readv(this, &mut local, &remote));
            let read = read.map_err(|errno| TouchError::Failed {
                what: "process_vm_readv",
                errno: errno.into(),
            })?;
            if read != 8 * chunk.len() {
                return Err(TouchError::Unavailable("process_vm_readv came short".into()));
            }
        }
    }
    Ok(())
}

/// What one O_DIRECT read reads: large enough that the device is no more than its part.
const DIRECT_BYTES: usize = 1 << 20;

fn read_directly(setting: &Setting, clock: &mut Clock) -> Result<(), TouchError> {
    let mut area = Area::make(setting)?;
    // Without a name: it goes with the process, whatever ends that.
    let mut made = unnamed(&setting.directory).map_err(TouchError::of("a file"))?;
    let block = vec![0x5a_u8; DIRECT_BYTES];
    made.write_all(&block).map_err(TouchError::of("a file"))?;
    made.sync_all().map_err(TouchError::of("a file"))?;
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let path = format!("/proc/self/fd/{}", made.as_raw_fd());
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| {
        let place = setting.directory.display();
        TouchError::Unavailable(format!(
            "cannot open a file in {place} with O_DIRECT: {}; give --dir on another file system",
            std::io::Error::from(errno)
        ))
    })?;
    let file = File::from(file);
    while clock.goes_on() {
        for piece in area.ready_to_write()?.chunks_exact_mut(DIRECT_BYTES) {
            let pages = base_pages(piece.len());
            clock
                .clock(pages, || file.read_exact_at(piece, 0))
                .map_err(TouchError::of("read with O_DIRECT"))?;
        }
    }
    Ok(())
}

fn registered(setting: &Setting, clock: &mut Clock) -> Result<(), TouchError> {
    let unavailable = |refusal: bytepath::Refusal| TouchError::Unavailable(refusal.to_string());
    let pages = Pages { size: setting.made.size(), locked: false };
    let mut ring = Ring::open(&Setup::default()).map_err(unavailable)?;
    let mut buffer = Buffer::allocate(setting.area_bytes, &pages)?;
    while clock.goes_on() {
        match setting.made {
            Made::Untouched => {
                pinning::discard(buffer.as_mut_slice()).map_err(TouchError::of("madvise"))?;
            }
            Made::Of(size) => {
                buffer.as_mut_slice().fill(1);
                in_wanted_pages(buffer.as_slice(), size)?;
            }
        }
        let count = base_pages(setting.area_bytes);
        let kept = clock.clock(count, || ring.register_buffers(vec![buffer]));
        drop(kept.map_err(unavailable)?);
        // A ring takes buffers once, and lets go of them with its end.
        ring = Ring::open(&Setup::default()).map_err(unavailable)?;
        buffer = Buffer::allocate(setting.area_bytes, &pages)?;
    }
    Ok(())
}

const GUP_TEST: &str = "/sys/kernel/debug/gup_test";

fn gup_test(setting: &Setting, clock: &mut Clock) -> Result<(), TouchError> {
    let device = File::options().read(true).write(true).open(GUP_TEST).map_err(|error| {
        TouchError::Unavailable(format!(
            "{GUP_TEST}: {error}; it needs a kernel with CONFIG_GUP_TEST, debugfs, and root"
        ))
    })?;
    let mut area = Area::make(setting)?;
    while clock.goes_on() {
        let memory = area.ready()?;
        let us = pinning::gup_fast_us(device.as_fd(), memory, 512)
            .map_err(TouchError::of("gup_test"))?;
        clock.add(base_pages(memory.len()), std::time::Duration::from_micros(us));
    }
    Ok(())
}

fn faults_by_writing(setting: &Setting, clock: &mut Clock) -> Result<(), TouchError> {
    let mut area = Area::make(setting)?;
    let page = rustix::param::page_size();
    while clock.goes_on() {
        area.discard()?;
        let memory = area.memory.as_mut_slice();
        let pages = base_pages(memory.len());
        clock.clock(pages, || memory.iter_mut().step_by(page).for_each(|byte| *byte = 1));
    }
    Ok(())
}

fn faults_by_reading(setting: &Setting, clock: &mut Clock) -> Result<(), TouchError> {
    let mut area = Area::make(setting)?;
    let page = rustix::param::page_size();
    while clock.goes_on() {
        area.discard()?;
        let memory = area.memory.as_slice();
        let sum = || memory.iter().step_by(page).fold(0_u64, |sum, byte| sum + u64::from(*byte));
        std::hint::black_box(clock.clock(base_pages(memory.len()), sum));
    }
    Ok(())
}

fn unmapped(setting: &Setting, clock: &mut Clock) -> Result<(), TouchError> {
    while clock.goes_on() {
        let area = Area::make(setting)?;
        clock.clock(base_pages(setting.area_bytes), || drop(area));
    }
    Ok(())
}

/// Times that one look at the clock is for.
const MAPPED_AT_ONCE: u64 = 16;

fn mapped(setting: &Setting, clock: &mut Clock) -> Result<(), TouchError> {
    let pages = Pages { size: setting.made.size(), locked: false };
    while clock.goes_on() {
        clock.clock(MAPPED_AT_ONCE, || -> Result<(), TouchError> {
            for _ in 0..MAPPED_AT_ONCE {
                drop(Memory::allocate(setting.area_bytes, &pages)?);
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Reads that one look at the clock is for.
const READS_AT_ONCE: u64 = 1 << 15;

fn strides(setting: &Setting, clock: &mut Clock) -> Result<(), TouchError> {
    let mut area = Area::make(setting)?;
    // Always 4 KiB apart, so that pages of every size are read at the same addresses.
    let apart = 4096;
    let count = setting.area_bytes / apart;
    // Not all at the start of their page: those would share a few sets of the caches.
    let place = |index: usize| index * apart + index % (apart / 64) * 64;
    let mut order: Vec<usize> = (0..count).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut order);
    let memory = area.memory.as_mut_slice();
    for (index, at) in order.iter().enumerate() {
        let next = order[(index + 1) % count] as u32;
        memory[place(*at)..][..4].copy_from_slice(&next.to_ne_bytes());
    }
    let memory = area.memory.as_slice();
    let mut at = order[0];
    while clock.goes_on() {
        at = clock.clock(READS_AT_ONCE, || {
            (0..READS_AT_ONCE).fold(at, |at, _| {
                let word = memory[place(at)..].first_chunk::<4>().expect("a page has a word");
                u32::from_ne_bytes(*word) as usize
            })
        });
    }
    std::hint::black_box(at);
    Ok(())
}
