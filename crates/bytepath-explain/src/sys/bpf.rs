//! bpf(2): maps, programs, and what programs are attached to, each owned by its descriptor. Nothing is
//! pinned, so all of it is gone with the process, however that ends.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use bytepath::machine::survived;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// bpf_cmd of linux/bpf.h.
const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP_ELEM: libc::c_int = 1;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const MAP_DELETE_ELEM: libc::c_int = 3;
const MAP_GET_NEXT_KEY: libc::c_int = 4;
const PROG_LOAD: libc::c_int = 5;
const PROG_TEST_RUN: libc::c_int = 10;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;

/// What the kernel's helpers for tracing ask of programs that call them. Only these small programs,
/// not bytepath, are meant.
const LICENSE: &CStr = c"Dual MIT/GPL";

/// How much a verifier may say about a program that it refuses; more than this is cut off.
const LOG_BYTES: usize = 256 << 10;

/// The kinds of maps that are used here, by the kernel's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum MapKind {
    Hash = 1,
    Array = 2,
    PercpuArray = 6,
    StackTrace = 7,
    LruHash = 9,
    RingBuffer = 27,
}

/// A key and its value.
pub(crate) type Entry = (Vec<u8>, Vec<u8>);

/// A map, and the sizes of what lies in it.
#[derive(Debug)]
pub(crate) struct Map {
    fd: OwnedFd,
    key_bytes: usize,
    value_bytes: usize,
    copies: usize,
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
struct MapElement {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

impl Map {
    /// Makes a map for at most `entries` values.
    ///
    /// # Errors
    /// The kernel's word: EPERM without CAP_BPF, EINVAL for a kind that it does not know, ENOMEM. ENOENT
    /// where the map would have a value for each CPU and [`POSSIBLE`] does not tell how many.
    pub(crate) fn new(
        kind: MapKind,
        name: &str,
        key_bytes: usize,
        value_bytes: usize,
        entries: u32,
    ) -> Result<Map, Errno> {
        let (value_bytes, copies) = match kind {
            // A CPU's own value takes whole words.
            MapKind::PercpuArray => (value_bytes.next_multiple_of(8), possible_cpus(POSSIBLE)?),
            _ => (value_bytes, 1),
        };
        let size = |bytes: usize| u32::try_from(bytes).map_err(|_| Errno::INVAL);
        let mut attributes = MapCreate {
            kind: kind as u32,
            key_size: size(key_bytes)?,
            value_size: size(value_bytes)?,
            max_entries: entries,
            name: short_name(name),
            ..MapCreate::default()
        };
        let made = bpf(MAP_CREATE, &mut attributes);
        // Before Linux 5.11 maps were charged to RLIMIT_MEMLOCK.
        let made = match made {
            Err(Errno::PERM) => with_locked_memory(|| bpf(MAP_CREATE, &mut attributes)),
            made => made,
        };
        Ok(Map { fd: owned(made?), key_bytes, value_bytes, copies })
    }

    /// The number by which a program names this map while it is loaded.
    pub(crate) fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// The value of a key, or of each CPU one after the other; none where there is no such key.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
        assert_eq!(key.len(), self.key_bytes, "a key of this map's size");
        let mut value = vec![0u8; self.value_bytes * self.copies];
        match self.element(MAP_LOOKUP_ELEM, key, value.as_mut_ptr()) {
            Ok(_) => Ok(Some(value)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// How many bytes one CPU's value takes in what [`Map::get`] gives.
    pub(crate) fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Sets the value of a key.
    pub(crate) fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Errno> {
        assert_eq!(key.len(), self.key_bytes, "a key of this map's size");
        assert_eq!(value.len(), self.value_bytes * self.copies, "a value of this map's size");
        self.element(MAP_UPDATE_ELEM, key, value.as_ptr().cast_mut()).map(drop)
    }

    /// There is no value of a key any more.
    pub(crate) fn delete(&self, key: &[u8]) -> Result<(), Errno> {
        assert_eq!(key.len(), self.key_bytes, "a key of this map's size");
        match self.element(MAP_DELETE_ELEM, key, std::ptr::null_mut()) {
            Err(Errno::NOENT) => Ok(()),
            deleted => deleted.map(drop),
        }
    }

    /// All that is in the map. What programs change meanwhile may be seen or not.
    pub(crate) fn entries(&self) -> Result<Vec<Entry>, Errno> {
        let mut entries = Vec::new();
        for key in self.keys()? {
            if let Some(value) = self.get(&key)? {
                entries.push((key, value));
            }
        }
        Ok(entries)
    }

    fn keys(&self) -> Result<Vec<Vec<u8>>, Errno> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        // Keys that come and go meanwhile may lead back to the start: there is an end to that.
        while keys.len() < KEYS_MAX {
            let mut next = vec![0u8; self.key_bytes];
            let after = keys.last().map_or(std::ptr::null(), |key| key.as_ptr());
            let mut attributes = MapElement {
                map_fd: self.fd.as_raw_fd() as u32,
                key: after.expose_provenance() as u64,
                value: next.as_mut_ptr().expose_provenance() as u64,
                ..MapElement::default()
            };
            match bpf(MAP_GET_NEXT_KEY, &mut attributes) {
                Ok(_) => keys.push(next),
                Err(Errno::NOENT) => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(keys)
    }

    /// `value` is as long as the command needs: a value to read or write, or nothing.
    fn element(&self, command: libc::c_int, key: &[u8], value: *mut u8) -> Result<i32, Errno> {
        let mut attributes = MapElement {
            map_fd: self.fd.as_raw_fd() as u32,
            key: key.as_ptr().expose_provenance() as u64,
            value: value.expose_provenance() as u64,
            ..MapElement::default()
        };
        bpf(command, &mut attributes)
    }
}

/// More than any map here has.
const KEYS_MAX: usize = 1 << 20;

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What a program may be attached to, by the kernel's numbers of its type and of the attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgramKind {
    /// A tracepoint as perf sees it: a record.
    Tracepoint,
    /// A tracepoint's own arguments.
    RawTracepoint,
    /// The same, with types that the kernel knows: this function type's number in its BTF.
    TypedTracepoint(u32),
    /// The entry of the function with this number in the kernel's BTF.
    FunctionEntry(u32),
}

impl ProgramKind {
    /// bpf_prog_type, bpf_attach_type, and the number of what it is attached to.
    fn numbers(self) -> (u32, u32, u32) {
        match self {
            ProgramKind::Tracepoint => (5, 0, 0),
            ProgramKind::RawTracepoint => (17, 0, 0),
            ProgramKind::TypedTracepoint(id) => (26, 23, id),
            ProgramKind::FunctionEntry(id) => (26, 24, id),
        }
    }
}

/// A program that the kernel has checked and taken.
#[derive(Debug)]
pub(crate) struct Program(OwnedFd);

/// Why a program was not taken: the kernel's word, and the end of what its verifier said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoadError {
    pub(crate) errno: Errno,
    pub(crate) log: String,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    ifindex: u32,
    attach_type: u32,
    btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_count: u32,
    line_info_rec_size: u32,
    line_info: u64,
    line_info_count: u32,
    attach_btf_id: u32,
    attach_program_fd: u32,
    padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct RawTracepointOpen {
    name: u64,
    program_fd: u32,
    padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct TestRun {
    program_fd: u32,
    result: u32,
    data_in_bytes: u32,
    data_out_bytes: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_in_bytes: u32,
    context_out_bytes: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    padding: u32,
}

impl Program {
    /// Has the kernel check and take a program of instructions as linux/bpf.h lays them out.
    ///
    /// # Errors
    /// The kernel's word: EPERM without CAP_BPF and CAP_PERFMON, EACCES or EINVAL where its verifier
    /// refuses the program, and then with what that said.
    pub(crate) fn load(
        kind: ProgramKind,
        name: &str,
        instructions: &[u64],
    ) -> Result<Program, LoadError> {
        let first = Program::try_load(kind, name, instructions, &mut []);
        let errno = match first {
            Ok(program) => return Ok(program),
            Err(Errno::NOSYS) => {
                return Err(LoadError { errno: Errno::NOSYS, log: String::new() });
            }
            Err(errno) => errno,
        };
        // Once more, for the reason. What is too long for the log is refused with ENOSPC, and the log
        // has its beginning.
        let mut log = vec![0u8; LOG_BYTES];
        match Program::try_load(kind, name, instructions, &mut log) {
            Ok(program) => Ok(program),
            Err(_) => {
                let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
                Err(LoadError { errno, log: String::from_utf8_lossy(&log[..end]).into_owned() })
            }
        }
    }

    fn try_load(
        kind: ProgramKind,
        name: &str,
        instructions: &[u64],
        log: &mut [u8],
    ) -> Result<Program, Errno> {
        let (program_type, attach_type, attach_btf_id) = kind.numbers();
        let mut attributes = ProgLoad {
            kind: program_type,
            instruction_count: u32::try_from(instructions.len()).map_err(|_| Errno::TOOBIG)?,
            instructions: instructions.as_ptr().expose_provenance() as u64,
            license: LICENSE.as_ptr().expose_provenance() as u64,
            name: short_name(name),
            attach_type,
            attach_btf_id,
            ..ProgLoad::default()
        };
        if !log.is_empty() {
            attributes.log_level = 1;
            attributes.log_size = log.len() as u32;
            attributes.log_buf = log.as_mut_ptr().expose_provenance() as u64;
        }
        match bpf(PROG_LOAD, &mut attributes) {
            Err(Errno::PERM) if log.is_empty() => {
                with_locked_memory(|| bpf(PROG_LOAD, &mut attributes))
            }
            loaded => loaded,
        }
        .map(|fd| Program(owned(fd)))
    }

    /// Attaches a program to the raw tracepoint of this name, or, with none, to what it was loaded
    /// for. It stays attached while the result lives.
    pub(crate) fn attach(&self, tracepoint: Option<&CStr>) -> Result<OwnedFd, Errno> {
        let mut attributes = RawTracepointOpen {
            name: tracepoint.map_or(0, |name| name.as_ptr().expose_provenance() as u64),
            program_fd: self.0.as_raw_fd() as u32,
            ..RawTracepointOpen::default()
        };
        bpf(RAW_TRACEPOINT_OPEN, &mut attributes).map(owned)
    }

    /// Runs a program of a raw tracepoint once, here and now, in this thread; what it returned.
    pub(crate) fn run_here(&self) -> Result<u32, Errno> {
        let mut attributes =
            TestRun { program_fd: self.0.as_raw_fd() as u32, ..TestRun::default() };
        bpf(PROG_TEST_RUN, &mut attributes).map(|_| attributes.result)
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The one system call. `A` is the part of union bpf_attr that belongs to the command.
fn bpf<A>(command: libc::c_int, attributes: &mut A) -> Result<i32, Errno> {
    survived(libc::SYS_bpf)?;
    let size = size_of::<A>();
    // SAFETY: `attributes` has `size` bytes; the pointers in it, made by the callers above, lead to
    // memory that lives through the call and is as long as its sizes, or the map's, say.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, size) };
    i32::try_from(result).ok().filter(|result| *result >= 0).ok_or_else(last_errno)
}

fn owned(fd: i32) -> OwnedFd {
    // SAFETY: the kernel just gave this descriptor, close-on-exec, to us alone.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Names have 15 bytes of letters, digits, underscores and dots.
fn short_name(name: &str) -> [u8; 16] {
    let mut short = [0u8; 16];
    let letters = name.bytes().filter(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    short.iter_mut().take(15).zip(letters).for_each(|(to, from)| *to = from);
    short
}

/// Does it with as much locked memory as this process may have, and then with as much as before.
fn with_locked_memory<T>(make: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let before = getrlimit(Resource::Memlock);
    let unlimited = Rlimit { current: None, maximum: None };
    let most = Rlimit { current: before.maximum, maximum: before.maximum };
    if setrlimit(Resource::Memlock, unlimited)
        .or_else(|_| setrlimit(Resource::Memlock, most))
        .is_err()
    {
        return Err(Errno::PERM);
    }
    let made = make();
    // Going back down is always allowed.
    let _ = setrlimit(Resource::Memlock, before);
    made
}

/// The CPUs that the kernel keeps values for, which are more than are online where some may be added.
pub(crate) const POSSIBLE: &str = "/sys/devices/system/cpu/possible";

/// The kernel's name for sysfs (linux/magic.h).
const SYSFS_MAGIC: u32 = 0x6265_6572;

/// How many these are, at least. The kernel writes as many values into our memory: nothing else may stand
/// for it, such as a file that a container has in its place.
fn possible_cpus(possible: &str) -> Result<usize, Errno> {
    let file = std::fs::File::open(possible).map_err(|_| Errno::NOENT)?;
    if rustix::fs::fstatfs(&file)?.f_type as u32 != SYSFS_MAGIC {
        return Err(Errno::NOENT);
    }
    let list = std::io::read_to_string(file).unwrap_or_default();
    let last = list.trim().rsplit([',', '-']).next().and_then(|cpu| cpu.parse::<usize>().ok());
    last.map(|cpu| cpu + 1).ok_or(Errno::NOENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel would write behind our memory for the CPUs that it leaves out.
    #[test]
    fn only_the_kernel_tells_how_many_cpus_there_may_be() {
        let other = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(other.path(), "0\n").expect("room");
        let path = other.path().to_str().expect("in plain letters");
        assert_eq!(possible_cpus(path), Err(Errno::NOENT));
        assert_eq!(possible_cpus("/nosuch"), Err(Errno::NOENT));
        assert!(possible_cpus(POSSIBLE).is_ok_and(|cpus| cpus > 0));
    }
}
