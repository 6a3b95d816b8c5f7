//! Loop devices by the calls of linux/loop.h: one that goes by itself from its first moment on. losetup
//! knows only devices that stay until they are told to go, and a run may be killed before that.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::AsRawFd;

use rustix::io::{Errno, Result};
use rustix::ioctl::{IntegerSetter, Ioctl, IoctlOutput, Opcode, Setter, ioctl, opcode};

/// `LOOP_SET_DIRECT_IO`, `LOOP_CONFIGURE` (since 5.8) and `LOOP_CTL_GET_FREE`.
const SET_DIRECT_IO: Opcode = opcode::none(b'L', 0x08);
const CONFIGURE: Opcode = opcode::none(b'L', 0x0A);
const GET_FREE: Opcode = opcode::none(b'L', 0x82);

/// The device goes when nobody has it open any more (`LO_FLAGS_AUTOCLEAR`).
const AUTOCLEAR: u32 = 4;

/// `struct loop_config`; 0 is what the kernel chooses itself.
#[repr(C)]
#[derive(Default)]
struct Config {
    fd: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

/// `struct loop_info64`.
#[repr(C)]
#[derive(Default)]
struct Info {
    device_and_inode: [u64; 3],
    offset: u64,
    size_limit: u64,
    number: u32,
    encryption: [u32; 2],
    flags: u32,
    names_and_key: [[u8; 32]; 5],
    init: [u64; 2],
}

/// Asks for the number of a device that has no file; makes one where there is none.
struct GetFree;

// SAFETY: the call takes no argument, and answers with a number.
unsafe impl Ioctl for GetFree {
    type Output = u32;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        GET_FREE
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(answer: IoctlOutput, _: *mut c_void) -> Result<u32> {
        u32::try_from(answer).map_err(|_| Errno::RANGE)
    }
}

/// The number of a device that has no file; somebody else may be faster to give it one.
pub(crate) fn free(control: &File) -> Result<u32> {
    // SAFETY: as `GetFree` says.
    unsafe { ioctl(control, GetFree) }
}

/// Puts a device in front of a file, until nobody has it open any more.
///
/// # Errors
/// `EBUSY` where it has a file already.
pub(crate) fn configure(device: &File, image: &File) -> Result<()> {
    let info = Info { flags: AUTOCLEAR, ..Info::default() };
    let fd = image.as_raw_fd().cast_unsigned();
    let config = Config { fd, info, ..Config::default() };
    // SAFETY: the opcode is that of LOOP_CONFIGURE, which reads a `struct loop_config`.
    let call = unsafe { Setter::<CONFIGURE, Config>::new(config) };
    // SAFETY: the kernel only reads it, and takes a reference of its own to the file.
    unsafe { ioctl(device, call) }
}

/// Has a device read and write its file past the page cache.
pub(crate) fn set_direct(device: &File) -> Result<()> {
    // SAFETY: the opcode is that of LOOP_SET_DIRECT_IO, which takes a number.
    let call = unsafe { IntegerSetter::<SET_DIRECT_IO>::new_usize(1) };
    // SAFETY: a number is all that it reads.
    unsafe { ioctl(device, call) }
}

const _: () = assert!(size_of::<Config>() == 304 && size_of::<Info>() == 232);
