//! Asks the kernel for an io_uring, what it can do, and gives it back.
//!
//! Two system calls and a close; nothing is mapped and nothing submitted.

#![allow(unsafe_code)]

use std::os::fd::OwnedFd;
use std::ptr;

use rustix::io;
use rustix::io_uring::{IoringRegisterOp, io_uring_params, io_uring_register, io_uring_setup};

use super::deadly::survived;

/// More operations than this are not asked about; Linux 6.18 has 63.
const OPERATIONS_MAX: usize = 128;

/// IO_URING_OP_SUPPORTED of linux/io_uring.h.
const SUPPORTED: u16 = 1;

/// What a ring of this kernel can do.
pub(crate) struct Ring {
    /// The IORING_FEAT_* bits.
    pub(crate) features: u32,
    /// Bit n is set where operation n (IORING_OP_*) is supported.
    pub(crate) operations: u128,
}

/// Opens a ring of two entries and closes it.
///
/// # Errors
///
/// ENOSYS where the kernel has no io_uring (or a sandbox hides it), EPERM or EACCES where it is not
/// allowed, EMFILE, ENFILE and ENOMEM where something has run out.
pub(crate) fn ring() -> io::Result<Ring> {
    survived(libc::SYS_io_uring_setup)?;
    let mut parameters = io_uring_params::default();
    // SAFETY: the parameters are all zero, so no flag asks the kernel to use another descriptor.
    let ring = unsafe { io_uring_setup(2, &mut parameters) }?;
    let operations = operations(&ring).unwrap_or(0);
    Ok(Ring { features: parameters.features.bits(), operations })
}

/// struct io_uring_probe of linux/io_uring.h with room for its operations.
#[repr(C)]
struct Probe {
    last_operation: u8,
    operation_count: u8,
    reserved: u16,
    reserved2: [u32; 3],
    operations: [Operation; OPERATIONS_MAX],
}

/// struct io_uring_probe_op of linux/io_uring.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct Operation {
    code: u8,
    reserved: u8,
    flags: u16,
    reserved2: u32,
}

fn operations(ring: &OwnedFd) -> io::Result<u128> {
    let blank = Operation { code: 0, reserved: 0, flags: 0, reserved2: 0 };
    let mut probe = Probe {
        last_operation: 0,
        operation_count: 0,
        reserved: 0,
        reserved2: [0; 3],
        operations: [blank; OPERATIONS_MAX],
    };
    let start = ptr::from_mut(&mut probe).cast();
    let what = IoringRegisterOp::RegisterProbe;
    // SAFETY: the kernel writes a header and at most OPERATIONS_MAX entries, for which `probe` has
    // room, and any bits are valid in it. It keeps no pointer to it.
    unsafe { io_uring_register(ring, what, start, OPERATIONS_MAX as u32) }?;
    let told = probe.operations.iter().take(usize::from(probe.operation_count));
    let supported = told.filter(|operation| operation.flags & SUPPORTED != 0);
    Ok(supported
        .fold(0, |bits, operation| bits | 1_u128.checked_shl(operation.code.into()).unwrap_or(0)))
}
