//! What programs are attached to, and how they read what it tells: tracepoints in three ways, of which
//! the first that this machine allows is taken.
//!
//! | way | needs | reads |
//! |---|---|---|
//! | `tp_btf` | Linux 5.5, BTF | the kernel's own structures, directly |
//! | `raw_tp` | BTF | the same by bpf_probe_read_kernel |
//! | `tracepoint` | tracefs, perf_event_open(2) | the record that perf sees |

use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use bytepath::machine::survived;
use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};
use rustix::io::Errno;

use super::asm::{Alu, Asm, Helper, Reg, Size};
use super::btf::{Btf, BtfError, Member};
use super::format::Format;
use crate::sys::bpf::{LoadError, Program, ProgramKind};
use crate::tracefs::Tracepoints;

/// What this kernel tells about itself.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) btf: Result<Btf, BtfError>,
    pub(super) tracefs: io::Result<Tracepoints>,
}

impl Kernel {
    pub(super) fn running() -> Kernel {
        Kernel { btf: Btf::of_kernel(), tracefs: Tracepoints::find() }
    }

    /// Where a structure's member lies; `names` are what kernels have called it.
    pub(super) fn member(&self, structure: &str, names: &[&str]) -> Result<Member, Unknown> {
        let btf = self.btf.as_ref().map_err(|error| {
            Unknown(format!("the kernel's types (/sys/kernel/btf/vmlinux): {error}"))
        })?;
        let found = names.iter().find_map(|name| btf.member(structure, name));
        found.ok_or_else(|| {
            Unknown(format!("{structure} has no member {} in this kernel", names.join(" or ")))
        })
    }

    /// Where a task tells, by which bit, that the call that it is in is one of a program for 32 bits.
    pub(super) fn of_32_bits(&self) -> Result<(i32, i32), Unknown> {
        // TS_COMPAT, and TIF_32BIT.
        let (member, bit) =
            if cfg!(target_arch = "x86_64") { ("status", 1 << 1) } else { ("flags", 1 << 22) };
        let at = self.offset("task_struct", "thread_info")? + self.offset("thread_info", member)?;
        Ok((at, bit))
    }

    /// Only the offset of a member.
    pub(super) fn offset(&self, structure: &str, name: &str) -> Result<i32, Unknown> {
        let member = self.member(structure, &[name])?;
        i32::try_from(member.offset).map_err(|_| Unknown(format!("{structure} is huge")))
    }
}

/// Something that a program has to know and that this kernel does not tell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unknown(pub(super) String);

/// A tracepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) group: &'static str,
    pub(super) name: &'static str,
}

/// Something that an event tells.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value {
    /// The argument's name, and where it is if the kernel does not say.
    pub(super) argument: (&'static str, usize),
    /// The structure that it points to, and the member's names there.
    pub(super) member: Option<(&'static str, &'static [&'static str])>,
    /// The field of perf's record.
    pub(super) field: &'static str,
}

/// A way to be attached to a tracepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// `tp_btf`: its arguments, with types that the kernel knows.
    Typed,
    /// `raw_tp`: its arguments.
    Raw,
    /// `tracepoint`: perf's record of it.
    Record,
}

impl Way {
    /// All, the best first.
    pub const ALL: [Way; 3] = [Way::Typed, Way::Raw, Way::Record];
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Typed => "tp_btf",
            Way::Raw => "raw_tp",
            Way::Record => "tracepoint",
        })
    }
}

/// An event, looked at in one way: what a program is written against.
#[derive(Debug)]
pub(super) struct Hook<'k> {
    pub(super) kernel: &'k Kernel,
    event: Event,
    way: Way,
    format: Option<Format>,
}

/// Where a program keeps its context, which helpers ask for.
pub(super) const CONTEXT: Reg = Reg::R6;

/// Eight bytes of the stack that reading may overwrite.
pub(super) const SCRATCH: i16 = -8;

impl<'k> Hook<'k> {
    pub(super) fn new(kernel: &'k Kernel, event: Event, way: Way) -> Result<Hook<'k>, Unknown> {
        let format = match way {
            Way::Typed | Way::Raw => None,
            Way::Record => Some(format(kernel, event)?),
        };
        Ok(Hook { kernel, event, way, format })
    }

    /// Begins a program: keeps its context.
    pub(super) fn begin(&self) -> Asm {
        let mut asm = Asm::new();
        asm.mov(CONTEXT, Reg::R1);
        asm
    }

    /// `to` = the value, `to` being none of R0 to R5.
    pub(super) fn value(&self, asm: &mut Asm, to: Reg, value: &Value) -> Result<(), Unknown> {
        if let Some(format) = &self.format {
            let field = format.field(value.field);
            let member = field.ok_or_else(|| self.no_field(value.field))?;
            let size = size(member).ok_or_else(|| self.no_field(value.field))?;
            asm.load(size, to, CONTEXT, short(member.offset)?);
            return Ok(());
        }
        asm.load(Size::B8, to, CONTEXT, short(self.argument(value.argument) * 8)?);
        let Some((structure, names)) = value.member else { return Ok(()) };
        let member = self.kernel.member(structure, names)?;
        let size = size(member).ok_or_else(|| self.no_field(names[0]))?;
        if self.way == Way::Typed {
            asm.load(size, to, to, short(member.offset)?);
        } else {
            chase(asm, to, member.offset as i32, size);
        }
        Ok(())
    }

    /// Whether the event tells this.
    pub(super) fn tells(&self, value: &Value) -> bool {
        self.value(&mut Asm::new(), Reg::R7, value).is_ok()
    }

    /// Argument `index` of a system call that begins; `to` is none of R0 to R5.
    pub(super) fn call_argument(
        &self,
        asm: &mut Asm,
        to: Reg,
        index: usize,
    ) -> Result<(), Unknown> {
        if let Some(format) = &self.format {
            let member = format.field("args").ok_or_else(|| self.no_field("args"))?;
            asm.load(Size::B8, to, CONTEXT, short(member.offset + index * 8)?);
            return Ok(());
        }
        let offset = call_argument_offset(self.kernel, index)?;
        asm.load(Size::B8, to, CONTEXT, short(self.argument(("regs", 0)) * 8)?);
        chase(asm, to, offset as i32, Size::B8);
        Ok(())
    }

    /// Whether the event has an argument of this name in this kernel, as far as its types tell.
    pub(super) fn names(&self, argument: &str) -> bool {
        self.named(argument).is_some()
    }

    /// Where an argument is, from 0.
    fn argument(&self, (name, otherwise): (&str, usize)) -> usize {
        self.named(name).unwrap_or(otherwise)
    }

    /// The kernel's functions have one more in front.
    fn named(&self, argument: &str) -> Option<usize> {
        let btf = self.kernel.btf.as_ref().ok()?;
        let functions =
            ["__traceiter_", "__bpf_trace_"].map(|kind| format!("{kind}{}", self.event.name));
        let told = functions.iter().find_map(|function| btf.argument(function, argument));
        told?.checked_sub(1)
    }

    fn no_field(&self, name: &str) -> Unknown {
        Unknown(format!("{}:{} does not tell {name}", self.event.group, self.event.name))
    }

    /// Has the kernel take a program and attaches it.
    pub(super) fn attach(&self, asm: Asm) -> Result<Held, Refused> {
        let name = self.event.name;
        let refused = |errno| Refused::Kernel(LoadError { errno, log: String::new() });
        let kind = match self.way {
            Way::Raw => ProgramKind::RawTracepoint,
            Way::Record => ProgramKind::Tracepoint,
            Way::Typed => ProgramKind::TypedTracepoint(self.function_type()?),
        };
        let program = Program::load(kind, name, &asm.finish()).map_err(Refused::Kernel)?;
        // What is attached holds the program.
        let link = match (&self.format, self.way) {
            (Some(format), _) => {
                let attached = attach_to_record(&program, format.id);
                let counter = attached.map_err(|error| refused(errno(&error)))?;
                return Ok(Held::Event { _counter: counter });
            }
            (None, Way::Raw) => {
                let name = CString::new(name).map_err(|_| refused(Errno::INVAL))?;
                program.attach(Some(&name))
            }
            (None, _) => program.attach(None),
        };
        Ok(Held::Link { _fd: link.map_err(refused)? })
    }

    fn function_type(&self) -> Result<u32, Unknown> {
        let btf = self.kernel.btf.as_ref().map_err(|error| Unknown(error.to_string()))?;
        let name = format!("btf_trace_{}", self.event.name);
        btf.type_name(&name).ok_or_else(|| Unknown(format!("the kernel's types have no {name}")))
    }
}

/// Attaches a program to the entry of a kernel function.
pub(super) fn attach_entry(kernel: &Kernel, function: &str, asm: Asm) -> Result<Held, Refused> {
    let btf = kernel.btf.as_ref().map_err(|error| Unknown(error.to_string()))?;
    let number = btf.function(function);
    let number =
        number.ok_or_else(|| Unknown(format!("no function {function} in the kernel's types")))?;
    let kind = ProgramKind::FunctionEntry(number);
    let program = Program::load(kind, function, &asm.finish()).map_err(Refused::Kernel)?;
    let refused = |errno| Refused::Kernel(LoadError { errno, log: String::new() });
    Ok(Held::Link { _fd: program.attach(None).map_err(refused)? })
}

/// Why a program is not attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refused {
    Unknown(Unknown),
    Kernel(LoadError),
}

impl From<Unknown> for Refused {
    fn from(unknown: Unknown) -> Refused {
        Refused::Unknown(unknown)
    }
}

impl Refused {
    /// The kernel's word, where it did not even look at the program: whoever hears of its verifier has
    /// rights.
    pub(super) fn errno(&self) -> Option<Errno> {
        match self {
            Refused::Kernel(error) if error.log.is_empty() => Some(error.errno),
            _ => None,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Unknown(unknown) => unknown.fmt(f),
            Refused::Kernel(error) => {
                write!(f, "{}", error.errno)?;
                // The verifier's verdict is before its statistics.
                let said = |line: &&str| !line.is_empty() && !line.starts_with("processed ");
                match error.log.lines().rfind(said) {
                    Some(line) => write!(f, " (verifier: {line})"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// `register = *(register + offset)` in the kernel's memory, 0 where there is none. Changes R0 to R5
/// and [`SCRATCH`].
pub(super) fn chase(asm: &mut Asm, register: Reg, offset: i32, size: Size) {
    let bytes = match size {
        Size::B1 => 1,
        Size::B2 => 2,
        Size::B4 => 4,
        Size::B8 => 8,
    };
    asm.mov(Reg::R3, register);
    asm.alu(Alu::Add, Reg::R3, offset);
    asm.address(Reg::R1, Reg::R10, SCRATCH.into());
    asm.mov(Reg::R2, bytes);
    asm.call(Helper::ReadKernel);
    asm.load(size, register, Reg::R10, SCRATCH);
}

fn format(kernel: &Kernel, event: Event) -> Result<Format, Unknown> {
    let name = format!("{}/{}", event.group, event.name);
    let from = kernel.tracefs.as_ref().map_err(|error| Unknown(format!("tracefs: {error}")))?;
    Format::of(from, &name).map_err(|error| Unknown(format!("tracefs: {name}: {error}")))
}

/// Attaches a program to a tracepoint as perf knows it. It runs on all CPUs.
fn attach_to_record(program: &Program, tracepoint: u64) -> io::Result<Counter> {
    survived(libc::SYS_perf_event_open)?;
    let mut builder = Builder::new(Tracepoint::with_id(tracepoint));
    let mut event = builder.any_pid().one_cpu(0).exclude_kernel(false).sample_period(1).build()?;
    event.set_bpf(program.as_fd().as_raw_fd())?;
    event.enable()?;
    Ok(event)
}

/// What keeps a program attached.
#[derive(Debug)]
pub(super) enum Held {
    Link { _fd: OwnedFd },
    Event { _counter: Counter },
}

/// Where the kernel keeps a system call's arguments while it lasts (syscall(2)).
fn call_argument_offset(kernel: &Kernel, index: usize) -> Result<usize, Unknown> {
    if cfg!(target_arch = "x86_64") {
        let names = ["di", "si", "dx", "r10", "r8", "r9"];
        return Ok(kernel.member("pt_regs", &[names[index]])?.offset);
    }
    if cfg!(target_arch = "aarch64") {
        return Ok(kernel.member("pt_regs", &["regs"])?.offset + index * 8);
    }
    Err(Unknown("where system calls have their arguments on this processor".to_owned()))
}

fn size(member: Member) -> Option<Size> {
    Size::of(member.bytes?)
}

fn short(offset: usize) -> Result<i16, Unknown> {
    i16::try_from(offset).map_err(|_| Unknown(format!("the offset {offset} is too large")))
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
