//! Names for addresses and numbers.

use std::collections::HashMap;

use blazesym::symbolize::source::{Kernel, Process, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};

/// Names functions, each address once.
pub(super) struct Names {
    symbolizer: Symbolizer,
    kernel: HashMap<u64, String>,
    user: HashMap<(u32, u64), String>,
    unnamed: bool,
}

impl Names {
    pub(super) fn new() -> Names {
        Names {
            symbolizer: Symbolizer::builder().enable_code_info(false).build(),
            kernel: HashMap::new(),
            user: HashMap::new(),
            unnamed: false,
        }
    }

    /// The functions of the kernel at these addresses, which come innermost first; the outermost
    /// first.
    pub(super) fn of_kernel(&mut self, addresses: &[u64]) -> Vec<String> {
        let new: Vec<u64> =
            addresses.iter().copied().filter(|at| !self.kernel.contains_key(at)).collect();
        if !new.is_empty() {
            let source = Source::Kernel(Kernel {
                vmlinux: blazesym::MaybeDefault::None,
                debug_syms: false,
                ..Kernel::default()
            });
            let named = self.symbolizer.symbolize(&source, Input::AbsAddr(&new));
            let named = named.unwrap_or_default();
            for (index, address) in new.iter().enumerate() {
                let name = match named.get(index) {
                    Some(Symbolized::Sym(symbol)) => symbol.name.clone().into_owned(),
                    _ => {
                        self.unnamed = true;
                        format!("{address:#x}")
                    }
                };
                self.kernel.insert(*address, name);
            }
        }
        addresses.iter().rev().map(|address| self.kernel[address].clone()).collect()
    }

    /// The same of a process.
    pub(super) fn of_user(&mut self, pid: u32, addresses: &[u64]) -> Vec<String> {
        let new: Vec<u64> =
            addresses.iter().copied().filter(|at| !self.user.contains_key(&(pid, *at))).collect();
        if !new.is_empty() {
            let source = Source::Process(Process::new(pid.into()));
            let named = self.symbolizer.symbolize(&source, Input::AbsAddr(&new));
            let named = named.unwrap_or_default();
            for (index, address) in new.iter().enumerate() {
                let name = match named.get(index) {
                    Some(Symbolized::Sym(symbol)) => symbol.name.clone().into_owned(),
                    _ => format!("{address:#x}"),
                };
                self.user.insert((pid, *address), name);
            }
        }
        addresses.iter().rev().map(|address| self.user[&(pid, *address)].clone()).collect()
    }

    /// What could not be named, and why.
    pub(super) fn missing(&self) -> Option<String> {
        self.unnamed.then(|| {
            "functions of the kernel have no names: /proc/kallsyms hides its addresses; root, or \
             sysctl kernel.kptr_restrict=0 with CAP_SYSLOG, shows them"
                .to_owned()
        })
    }
}

/// The name of a system call of this machine.
pub(super) fn syscall(number: u32) -> String {
    let known = syscalls::Sysno::new(number as usize);
    known.map_or_else(|| format!("syscall {number}"), |known| known.name().to_owned())
}
