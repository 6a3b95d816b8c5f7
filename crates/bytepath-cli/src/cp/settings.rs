//! What the options of `cp` amount to, once all are read.

use std::ffi::OsString;

/// What is done, and how.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) backup: Backup,
    pub(super) suffix: OsString,
    pub(super) dereference: Dereference,
    pub(super) recursive: bool,
    /// Whether a FIFO or device is read like a file, instead of being made anew.
    pub(super) special_as_file: bool,
    pub(super) existing: Existing,
    pub(super) update: bool,
    pub(super) make: Make,
    /// Whether only attributes are wanted, where links are made as well.
    pub(super) attributes_only: bool,
    /// Whether a destination that cannot be opened is removed.
    pub(super) force: bool,
    /// Whether each destination is removed before it is opened.
    pub(super) remove_first: bool,
    pub(super) preserve: Preserve,
    pub(super) sparse: Sparse,
    pub(super) reflink: Reflink,
    pub(super) one_file_system: bool,
    pub(super) verbose: bool,
    pub(super) debug: bool,
    pub(super) parents: bool,
    pub(super) strip_slashes: bool,
    pub(super) target_directory: Option<OsString>,
    pub(super) no_target_directory: bool,
    pub(super) keep_directory_symlink: bool,
    /// Whether a file is written through a symbolic link that leads nowhere, as POSIX has it.
    pub(super) through_dangling: bool,
    pub(super) context: Context,
    /// Whether the user may give files away, and write any: root.
    pub(super) privileged: bool,
}

/// What is made in the place of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Make {
    /// A file with the same bytes and attributes.
    Copy,
    /// One with the attributes only.
    Attributes,
    /// Another name of it.
    HardLink,
    /// A symbolic link to it.
    SymbolicLink,
}

/// Whether, and how, what is in the way is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backup {
    None,
    Simple,
    /// Numbered where there are numbered ones.
    Existing,
    Numbered,
}

/// Which symbolic links stand for what they lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dereference {
    Never,
    /// Those on the command line.
    Arguments,
    Always,
}

/// What is done about a destination that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Existing {
    Overwrite,
    Ask,
    Skip,
    /// Skip it, and say so, and fail.
    Refuse,
}

/// Which holes the copy has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sparse {
    Never,
    /// Those of the source.
    Auto,
    /// One wherever there are enough zeros.
    Always,
}

/// Whether blocks are shared until they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reflink {
    Never,
    Auto,
    Always,
}

/// What is kept of a file besides its bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Preserve {
    pub(super) mode: bool,
    /// Whether the mode is that of any new file, because `--no-preserve=mode` was given.
    pub(super) default_mode: bool,
    pub(super) ownership: bool,
    pub(super) timestamps: bool,
    pub(super) links: bool,
    pub(super) context: bool,
    pub(super) xattr: bool,
    /// Whether failing to is a failure.
    pub(super) required: bool,
    pub(super) context_required: bool,
    pub(super) xattr_required: bool,
    /// Whether extended attributes that cannot be kept are no matter for a message.
    pub(super) quiet: bool,
}

/// The SELinux context that new files get, besides what is preserved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Context {
    /// Whatever the kernel gives them.
    Kernel,
    /// The one that the policy names for their place.
    Policy,
    /// This one.
    Given(OsString),
}

impl Settings {
    /// Before any option is read.
    pub(super) fn new() -> Settings {
        Settings {
            backup: Backup::None,
            suffix: OsString::new(),
            dereference: Dereference::Always,
            recursive: false,
            special_as_file: true,
            existing: Existing::Overwrite,
            update: false,
            make: Make::Copy,
            attributes_only: false,
            force: false,
            remove_first: false,
            preserve: Preserve::default(),
            sparse: Sparse::Auto,
            reflink: Reflink::Auto,
            one_file_system: false,
            verbose: false,
            debug: false,
            parents: false,
            strip_slashes: false,
            target_directory: None,
            no_target_directory: false,
            keep_directory_symlink: false,
            through_dangling: std::env::var_os("POSIXLY_CORRECT").is_some(),
            context: Context::Kernel,
            privileged: rustix::process::geteuid().is_root(),
        }
    }

    /// Whether a symbolic link stands for what it leads to.
    pub(super) fn follows(&self, argument: bool) -> bool {
        match self.dereference {
            Dereference::Never => false,
            Dereference::Arguments => argument,
            Dereference::Always => true,
        }
    }
}
