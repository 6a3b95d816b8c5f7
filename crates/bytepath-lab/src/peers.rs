//! Classics that can stand between the two ends of a pipe, as they are run by most people.

use std::path::{Path, PathBuf};

use crate::program::Program;

/// A program that copies its standard input to its standard output.
#[derive(Debug)]
pub struct Peer {
    /// Its name on the command line of bytepath.
    pub name: &'static str,
    /// Its words.
    pub words: &'static [&'static str],
    /// The Debian package that has it.
    pub package: &'static str,
}

/// Every peer.
pub const PEERS: &[Peer] = &[
    Peer { name: "pv", words: &["pv", "-q"], package: "pv" },
    Peer { name: "cat", words: &["cat"], package: "coreutils" },
    Peer {
        name: "dd",
        words: &["dd", "bs=1M", "iflag=fullblock", "status=none"],
        package: "coreutils",
    },
    Peer { name: "tee", words: &["tee"], package: "coreutils" },
    Peer { name: "mbuffer", words: &["mbuffer", "-q", "-m", "16M"], package: "mbuffer" },
];

/// The peer of this name.
pub fn by_name(name: &str) -> Option<&'static Peer> {
    PEERS.iter().find(|peer| peer.name == name)
}

impl Peer {
    /// The words to run it by, the program with its path.
    ///
    /// # Errors
    /// It is not installed: how to install it.
    pub fn found(&self) -> Result<Vec<String>, String> {
        let found = found(self.words[0]).ok_or_else(|| {
            format!("{} is not installed; on Debian: apt-get install {}", self.name, self.package)
        })?;
        let rest = self.words[1..].iter().map(|word| (*word).to_owned());
        Ok(std::iter::once(found.to_string_lossy().into_owned()).chain(rest).collect())
    }
}

/// Where a program is, if it is installed. A name with a / is a path as it is. Any other is not this
/// program's: a link to it may have the name of a classic, and it is no peer of itself.
pub fn found(program: impl AsRef<Path>) -> Option<PathBuf> {
    let program = program.as_ref();
    if program.as_os_str().as_encoded_bytes().contains(&b'/') {
        return Some(program.to_owned()).filter(is_executable);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::split_paths(&path).map(|folder| folder.join(program));
    all.filter(is_executable).find(|file| !is_this_program(file))
}

fn is_this_program(file: &Path) -> bool {
    let this = Program::this();
    file.metadata().is_ok_and(|file| this.is_ok_and(|this| this.is(&file)))
}

pub(crate) fn is_executable(file: &PathBuf) -> bool {
    rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok() && file.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cat_is_found_and_what_is_not_installed_says_how_to_install_it() {
        let cat = by_name("cat").and_then(|cat| cat.found().ok()).expect("cat is everywhere");
        assert!(cat[0].ends_with("/cat"), "{cat:?}");
        let none = Peer { name: "none", words: &["no-such-program"], package: "none" };
        assert!(none.found().is_err_and(|why| why.contains("apt-get install none")));
    }
}
