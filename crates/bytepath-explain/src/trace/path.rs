//! The path of an open file, as a program finds it: from name to parent, and over the edges of mounts,
//! into a record of a ring.

use super::asm::{Asm, Helper, If, Reg, Size};
use super::hook::{Hook, Unknown, chase};

/// Names on the way up, beyond which a path is cut off.
const LEVELS_MAX: usize = 24;
/// The longest name, with its end.
const NAME_BYTES: i32 = 256;
/// Room for all of them.
pub(super) const PATH_BYTES: i16 = 1024;

/// Where a walk keeps what helpers would lose: 24 bytes of the stack below this.
pub(super) struct Places {
    /// The record's address.
    pub(super) record: i16,
    /// Where in it the path goes.
    pub(super) path: i16,
    /// How long that is by now.
    pub(super) len: i16,
}

/// Writes the names from the file in R8 up to the root, each with its end, into the record. R8, R9 and
/// R7 are lost. The path's length is at `len`; one that was cut off has [`PATH_BYTES`] more.
pub(super) fn walk(hook: &Hook<'_>, asm: &mut Asm, at: &Places) -> Result<(), Unknown> {
    let kernel = hook.kernel;
    let path = kernel.offset("file", "f_path")?;
    let mount_in = kernel.offset("mount", "mnt")?;
    let (dentry, mount, found) = (Reg::R8, Reg::R9, Reg::R7);
    let (done, cut) = (asm.label(), asm.label());
    asm.store(Size::B8, Reg::R10, at.len, 0);
    asm.mov(mount, dentry);
    chase(asm, mount, path + kernel.offset("path", "mnt")?, Size::B8);
    asm.add(mount, -mount_in);
    chase(asm, dentry, path + kernel.offset("path", "dentry")?, Size::B8);
    for _ in 0..LEVELS_MAX {
        let (name, next) = (asm.label(), asm.label());
        asm.jump_if(dentry, If::Equal, 0, done);
        asm.mov(found, mount);
        chase(asm, found, mount_in + kernel.offset("vfsmount", "mnt_root")?, Size::B8);
        asm.jump_if(found, If::Different, dentry, name);
        // The top of what is mounted: on to what it is mounted on.
        asm.mov(found, mount);
        chase(asm, found, kernel.offset("mount", "mnt_parent")?, Size::B8);
        asm.jump_if(found, If::Equal, mount, done);
        asm.mov(dentry, mount);
        chase(asm, dentry, kernel.offset("mount", "mnt_mountpoint")?, Size::B8);
        asm.mov(mount, found);
        asm.jump(next);

        asm.place(name);
        asm.mov(found, dentry);
        let of_name = kernel.offset("dentry", "d_name")? + kernel.offset("qstr", "name")?;
        chase(asm, found, of_name, Size::B8);
        asm.load(Size::B8, Reg::R1, Reg::R10, at.len);
        asm.jump_if(Reg::R1, If::Above, i32::from(PATH_BYTES) - NAME_BYTES, cut);
        asm.load(Size::B8, Reg::R2, Reg::R10, at.record);
        asm.add(Reg::R2, i32::from(at.path));
        asm.add(Reg::R2, Reg::R1);
        asm.mov(Reg::R1, Reg::R2);
        asm.mov(Reg::R2, NAME_BYTES);
        asm.mov(Reg::R3, found);
        asm.call(Helper::ReadKernelString);
        asm.jump_if(Reg::R0, If::SignedBelow, 0, done);
        asm.load(Size::B8, Reg::R1, Reg::R10, at.len);
        asm.add(Reg::R1, Reg::R0);
        asm.store(Size::B8, Reg::R10, at.len, Reg::R1);
        asm.mov(found, dentry);
        chase(asm, found, kernel.offset("dentry", "d_parent")?, Size::B8);
        // What was never in a folder, such as a file in memory, ends here.
        asm.jump_if(found, If::Equal, dentry, done);
        asm.mov(dentry, found);
        asm.place(next);
    }
    asm.place(cut);
    asm.load(Size::B8, Reg::R1, Reg::R10, at.len);
    asm.add(Reg::R1, i32::from(PATH_BYTES));
    asm.store(Size::B8, Reg::R10, at.len, Reg::R1);
    asm.place(done);
    Ok(())
}

/// The path that a walk left: names from the last to the first.
pub(super) fn told(names: &[u8], len: u32) -> (String, bool) {
    let cut = len > PATH_BYTES as u32;
    let len = (len as usize % (PATH_BYTES as usize + 1)).min(names.len());
    let mut path = String::new();
    let names: Vec<&[u8]> = names[..len].split(|byte| *byte == 0).collect();
    for name in names.iter().rev().filter(|name| !name.is_empty()) {
        if !path.is_empty() || !cut {
            path.push('/');
        }
        path.push_str(&String::from_utf8_lossy(name));
    }
    if cut {
        path.insert_str(0, "…/");
    }
    (if path.is_empty() { "/".to_owned() } else { path }, cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_turned_round() {
        assert_eq!(told(b"c\0bb\0a\0", 7), ("/a/bb/c".to_owned(), false));
        assert_eq!(told(b"", 0), ("/".to_owned(), false));
        assert_eq!(told(b"c\0bb\0??", 5 + 1024), ("…/bb/c".to_owned(), true));
    }
}
