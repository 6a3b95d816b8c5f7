//! What the kernel writes into the ring of an event (perf_event_open(2), "MMAP layout"), read.
//!
//! Every event is opened with the same set of fields ([`FIELDS`]), so that one reader does for all.
//! The ready-made one takes registers for granted that samples of kernel threads do not have.

use perf_event::SampleFlag;

use crate::files::Identity;

/// The fields of every sample; the first three stand behind every other record too.
pub(crate) const FIELDS: SampleFlag =
    SampleFlag::TID.union(SampleFlag::TIME).union(SampleFlag::CPU).union(SampleFlag::CALLCHAIN);

/// As [`FIELDS`], with what is needed to unwind stacks by tables: registers and a piece of the stack.
pub(crate) const FIELDS_TO_UNWIND: SampleFlag =
    FIELDS.union(SampleFlag::REGS_USER).union(SampleFlag::STACK_USER);

/// Of the fields that stand behind records which are no samples: TID, TIME and CPU, 8 bytes each.
const TRAILER_BYTES: usize = 24;

/// PERF_RECORD_MISC_COMM_EXEC: a name that comes from a new program.
const COMM_EXEC: u16 = 1 << 13;

/// PERF_CONTEXT_*: what follows in a call chain is of the kernel, of user space.
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
const CONTEXT_USER: u64 = -512_i64 as u64;
/// Anything from here up is such a mark, not an address.
const CONTEXT_MAX: u64 = -4095_i64 as u64;

/// A record, and when and where it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    pub(crate) time_ns: u64,
    pub(crate) cpu: u32,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Sample(Box<Sample>),
    /// A process has a new mapping of code.
    Map(Map),
    /// A thread has a new name; `exec` where it is a new program altogether.
    Comm {
        pid: u32,
        tid: u32,
        name: String,
        exec: bool,
    },
    /// A process or thread began.
    Fork {
        pid: u32,
        parent_pid: u32,
        tid: u32,
        parent_tid: u32,
    },
    /// One ended.
    Exit {
        tid: u32,
    },
    /// So many records could not be written.
    Lost(u64),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Map {
    pub(crate) pid: u32,
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) offset: u64,
    pub(crate) file: Identity,
    pub(crate) name: String,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Sample {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    /// Addresses of the kernel, leaf first.
    pub(crate) kernel: Vec<u64>,
    /// Addresses of user space by frame pointers, leaf first.
    pub(crate) user: Vec<u64>,
    pub(crate) to_unwind: Option<ToUnwind>,
}

/// What a stack is unwound from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToUnwind {
    /// The registers of [`crate::unwind::REGISTERS`], in ascending order of their bits.
    pub(crate) registers: Vec<u64>,
    /// The top of the stack.
    pub(crate) stack: Vec<u8>,
}

/// Types of records (enum perf_event_type).
mod types {
    pub(super) const LOST: u32 = 2;
    pub(super) const COMM: u32 = 3;
    pub(super) const EXIT: u32 = 4;
    pub(super) const FORK: u32 = 7;
    pub(super) const SAMPLE: u32 = 9;
    pub(super) const MMAP2: u32 = 10;
    pub(super) const LOST_SAMPLES: u32 = 13;
}

/// Reads a record; none where it is of a kind that is of no interest, or cut short.
///
/// `registers` is how many were asked for; none where stacks are not to be unwound.
pub(crate) fn read(kind: u32, misc: u16, bytes: &[u8], registers: Option<u32>) -> Option<Record> {
    let mut fields = Fields(bytes);
    if kind == types::SAMPLE {
        return sample(fields, registers);
    }
    let trailer = bytes.len().checked_sub(TRAILER_BYTES)?;
    let mut behind = Fields(&bytes[trailer..]);
    behind.u64()?;
    let (time_ns, cpu) = (behind.u64()?, behind.u32()?);
    fields.0 = &bytes[..trailer];
    let kind = match kind {
        types::LOST => {
            fields.u64()?;
            Kind::Lost(fields.u64()?)
        }
        types::LOST_SAMPLES => Kind::Lost(fields.u64()?),
        types::COMM => Kind::Comm {
            pid: fields.u32()?,
            tid: fields.u32()?,
            name: fields.text(),
            exec: misc & COMM_EXEC != 0,
        },
        types::FORK => {
            let (pid, parent_pid) = (fields.u32()?, fields.u32()?);
            Kind::Fork { pid, parent_pid, tid: fields.u32()?, parent_tid: fields.u32()? }
        }
        types::EXIT => {
            fields.u64()?;
            Kind::Exit { tid: fields.u32()? }
        }
        types::MMAP2 => Kind::Map(map(&mut fields)?),
        _ => return None,
    };
    Some(Record { time_ns, cpu, kind })
}

fn map(fields: &mut Fields<'_>) -> Option<Map> {
    let (pid, _tid) = (fields.u32()?, fields.u32()?);
    let (start, bytes, offset) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (major, minor) = (fields.u32()?, fields.u32()?);
    let (device, inode) = (rustix::fs::makedev(major, minor), fields.u64()?);
    // File systems that have none say 0.
    let generation = Some(fields.u64()?).filter(|generation| *generation != 0);
    let file = Identity { device, inode, generation };
    // Protection and flags.
    fields.skip(8)?;
    Some(Map { pid, start, bytes, offset, file, name: fields.text() })
}

fn sample(mut fields: Fields<'_>, registers: Option<u32>) -> Option<Record> {
    let (pid, tid, time_ns) = (fields.u32()?, fields.u32()?, fields.u64()?);
    let (cpu, _) = (fields.u32()?, fields.u32()?);
    let mut sample = Sample { pid, tid, ..Sample::default() };
    let mut of_kernel = false;
    for _ in 0..fields.u64()? {
        match fields.u64()? {
            CONTEXT_KERNEL => of_kernel = true,
            CONTEXT_USER => of_kernel = false,
            mark if mark >= CONTEXT_MAX => of_kernel = false,
            address if of_kernel => sample.kernel.push(address),
            address => sample.user.push(address),
        }
    }
    if let Some(count) = registers {
        sample.to_unwind = to_unwind(&mut fields, count);
    }
    Some(Record { time_ns, cpu, kind: Kind::Sample(Box::new(sample)) })
}

/// Threads of the kernel have neither registers nor a stack of user space.
fn to_unwind(fields: &mut Fields<'_>, registers: u32) -> Option<ToUnwind> {
    const NO_REGISTERS: u64 = 0;
    if fields.u64()? == NO_REGISTERS {
        return None;
    }
    let registers = (0..registers).map(|_| fields.u64()).collect::<Option<Vec<_>>>()?;
    let room = usize::try_from(fields.u64()?).ok()?;
    if room == 0 {
        return None;
    }
    let stack = fields.bytes(room)?;
    let filled = usize::try_from(fields.u64()?).ok()?;
    Some(ToUnwind { registers, stack: stack.get(..filled)?.to_vec() })
}

/// The rest of a record, taken from its front. Numbers are in the machine's own order.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn skip(&mut self, count: usize) -> Option<()> {
        self.bytes(count).map(drop)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.bytes(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.bytes(8)?.try_into().ok()?))
    }

    /// A string that ends with a zero, filled up with more of them.
    fn text(&mut self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        String::from_utf8_lossy(&self.0[..end]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(numbers: &[u64]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    /// Two halves of 64 bits.
    fn pair(first: u32, second: u32) -> u64 {
        let [a, b] = [first.to_ne_bytes(), second.to_ne_bytes()];
        u64::from_ne_bytes([a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]])
    }

    #[test]
    fn a_sample_has_its_kernel_and_its_user_frames_apart() {
        let chain = [5, CONTEXT_KERNEL, 0xffff_0001, 0xffff_0002, CONTEXT_USER, 0x1000];
        let mut numbers = vec![pair(7, 8), 99, pair(1, 0)];
        numbers.extend(chain);
        let record = read(types::SAMPLE, 0, &bytes(&numbers), None).expect("it is whole");
        assert_eq!((record.time_ns, record.cpu), (99, 1));
        let Kind::Sample(sample) = record.kind else { panic!("no sample") };
        assert_eq!((sample.pid, sample.tid), (7, 8));
        assert_eq!(sample.kernel, [0xffff_0001, 0xffff_0002]);
        assert_eq!(sample.user, [0x1000]);
    }

    #[test]
    fn a_kernel_thread_has_nothing_to_unwind() {
        let numbers = [pair(2, 2), 1, pair(0, 0), 0, 0, 0];
        let record = read(types::SAMPLE, 0, &bytes(&numbers), Some(3)).expect("it is whole");
        let Kind::Sample(sample) = record.kind else { panic!("no sample") };
        assert_eq!(sample.to_unwind, None);
    }

    #[test]
    fn of_the_stack_only_what_was_there_is_taken() {
        let numbers = [pair(2, 2), 1, pair(0, 0), 0, 2, 10, 11, 12, 16, 21, 22, 8];
        let record = read(types::SAMPLE, 0, &bytes(&numbers), Some(3)).expect("it is whole");
        let Kind::Sample(sample) = record.kind else { panic!("no sample") };
        let unwind = sample.to_unwind.expect("it has registers");
        assert_eq!((unwind.registers, unwind.stack), (vec![10, 11, 12], bytes(&[21])));
    }

    #[test]
    fn a_record_that_is_cut_short_is_none() {
        let whole = bytes(&[pair(7, 8), 99, pair(1, 0), 2, CONTEXT_KERNEL, 1]);
        assert!(read(types::SAMPLE, 0, &whole, None).is_some());
        for length in 0..whole.len() {
            assert_eq!(read(types::SAMPLE, 0, &whole[..length], None), None, "{length} bytes");
        }
        for kind in 0..32 {
            assert_eq!(read(kind, 0, &[0; 16], Some(3)), None, "type {kind}");
        }
    }

    #[test]
    fn a_name_ends_where_its_zeros_begin() {
        let mut record = bytes(&[pair(7, 8)]);
        record.extend(*b"sleep\0\0\0");
        record.extend(bytes(&[pair(7, 8), 99, pair(1, 0)]));
        let read = read(types::COMM, COMM_EXEC, &record, None).expect("it is whole");
        let named = Kind::Comm { pid: 7, tid: 8, name: "sleep".to_owned(), exec: true };
        assert_eq!(read, Record { time_ns: 99, cpu: 1, kind: named });
    }
}
