//! Programs that copy, as they are run by most people.

use std::path::{Path, PathBuf};

use super::material::Kind;
use crate::peers;

/// Stands for what is copied, and for where to.
const SOURCE: &str = "{source}";
const SINK: &str = "{sink}";

/// A program that copies files.
#[derive(Debug)]
pub struct Copier {
    /// Its name on the command line of bytepath.
    pub name: &'static str,
    /// Its words for one file; a word that ends in [`SOURCE`] or [`SINK`] has the path there. One
    /// that names no sink copies to its standard output.
    one: &'static [&'static str],
    /// For a file with holes, which it is to keep.
    sparse: &'static [&'static str],
    /// For a tree; none where it copies no trees.
    tree: &'static [&'static str],
    /// How to install it.
    install: &'static str,
    /// Whether it goes where the text of a link says. That of a link of /proc to a mount of ours is
    /// "/", and so it would write there.
    reads_links: bool,
}

/// Every one.
pub const COPIERS: &[Copier] = &[
    Copier {
        name: "cp",
        one: &["cp", SOURCE, SINK],
        sparse: &["cp", SOURCE, SINK],
        tree: &["cp", "-r", SOURCE, SINK],
        install: "on Debian: apt-get install coreutils",
        reads_links: false,
    },
    Copier {
        name: "dd",
        one: &["dd", "if={source}", "of={sink}", "bs=1M", "status=none"],
        sparse: &["dd", "if={source}", "of={sink}", "bs=64K", "conv=sparse", "status=none"],
        tree: &[],
        install: "on Debian: apt-get install coreutils",
        reads_links: false,
    },
    Copier {
        name: "cat",
        one: &["cat", SOURCE],
        sparse: &["cat", SOURCE],
        tree: &[],
        install: "on Debian: apt-get install coreutils",
        reads_links: false,
    },
    Copier {
        name: "rsync",
        one: &["rsync", SOURCE, SINK],
        sparse: &["rsync", "-S", SOURCE, SINK],
        tree: &["rsync", "-r", "{source}/", SINK],
        install: "on Debian: apt-get install rsync",
        reads_links: true,
    },
    Copier {
        name: "xcp",
        one: &["xcp", "--no-progress", SOURCE, SINK],
        sparse: &["xcp", "--no-progress", SOURCE, SINK],
        tree: &["xcp", "--no-progress", "-r", SOURCE, SINK],
        install: "cargo install xcp",
        reads_links: false,
    },
    Copier {
        name: "fcp",
        one: &["fcp", SOURCE, SINK],
        sparse: &["fcp", SOURCE, SINK],
        tree: &["fcp", SOURCE, SINK],
        install: "cargo install fcp",
        reads_links: false,
    },
    Copier {
        name: "cpz",
        one: &["cpz", SOURCE, SINK],
        sparse: &["cpz", SOURCE, SINK],
        tree: &["cpz", SOURCE, SINK],
        install: "cargo install cpz",
        reads_links: false,
    },
];

/// The copier of this name.
pub fn by_name(name: &str) -> Option<&'static Copier> {
    COPIERS.iter().find(|copier| copier.name == name)
}

/// How a program is told what to copy.
#[derive(Debug, Clone)]
pub struct Line {
    /// Its words, in which [`SOURCE`] and [`SINK`] stand for the paths.
    words: Vec<String>,
}

impl Copier {
    /// How it copies such material there.
    ///
    /// # Errors
    /// It cannot, or it is not installed: how to install it.
    pub fn line(&self, kind: Kind, is_mount: bool) -> Result<Line, String> {
        self.reaches(is_mount)?;
        let words = match kind {
            Kind::One => self.one,
            Kind::Sparse => self.sparse,
            Kind::Tree => self.tree,
        };
        let Some((program, rest)) = words.split_first() else {
            return Err(format!("{} copies no trees", self.name));
        };
        let path = peers::found(program)
            .ok_or_else(|| format!("{} is not installed; {}", self.name, self.install))?;
        let path = path.to_string_lossy().into_owned();
        Ok(Line { words: std::iter::once(path).chain(rest.iter().map(|w| (*w).into())).collect() })
    }

    /// Whether it gets to what is copied.
    fn reaches(&self, is_mount: bool) -> Result<(), String> {
        match self.reads_links && is_mount {
            true => Err(format!(
                "{} does not follow a link to a mount that has no name; try --on dir",
                self.name
            )),
            false => Ok(()),
        }
    }
}

impl Line {
    /// A program by its words, the source and the sink after them unless they are among them.
    pub fn of(words: impl IntoIterator<Item = String>) -> Line {
        let mut words: Vec<String> = words.into_iter().collect();
        if !words.iter().any(|word| word.contains(SOURCE)) {
            words.extend([SOURCE.to_owned(), SINK.to_owned()]);
        }
        Line { words }
    }

    /// The same of any program, where that is one of ours by its name.
    ///
    /// # Errors
    /// It would not get to what is copied.
    pub fn of_other(words: &[String], is_mount: bool) -> Result<Line, String> {
        let name = words.first().and_then(|program| Path::new(program).file_name()?.to_str());
        name.and_then(by_name).map_or(Ok(()), |copier| copier.reaches(is_mount))?;
        Ok(Line::of(words.iter().cloned()))
    }

    /// Its words as they are shown.
    pub fn shown(&self) -> String {
        self.words.join(" ")
    }

    /// Whether the copy comes from its standard output.
    pub(super) fn to_standard_output(&self) -> bool {
        !self.words.iter().any(|word| word.contains(SINK))
    }

    /// The words for these paths.
    pub(super) fn words(&self, source: &Path, sink: &Path) -> Vec<PathBuf> {
        self.words.iter().map(|word| filled(word, [(SOURCE, source), (SINK, sink)])).collect()
    }
}

/// A word with the paths where their marks stand.
fn filled(word: &str, ends: [(&str, &Path); 2]) -> PathBuf {
    let (mut whole, mut rest) = (std::ffi::OsString::new(), word);
    let next = |rest: &str| {
        let found = ends.iter().filter_map(|end| Some((rest.find(end.0)?, end)));
        found.min_by_key(|(at, _)| *at)
    };
    while let Some((at, (mark, path))) = next(rest) {
        whole.push(&rest[..at]);
        whole.push(path);
        rest = &rest[at + mark.len()..];
    }
    whole.push(rest);
    whole.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_take_the_place_of_their_words() {
        let dd =
            by_name("dd").and_then(|dd| dd.line(Kind::One, false).ok()).expect("dd is everywhere");
        let words = dd.words("/a b".as_ref(), "/c".as_ref());
        assert_eq!(words[1..3], [PathBuf::from("if=/a b"), PathBuf::from("of=/c")]);
        assert!(!dd.to_standard_output());
        let cat =
            by_name("cat").and_then(|cat| cat.line(Kind::One, false).ok()).expect("cat as well");
        assert!(cat.to_standard_output());
        assert!(by_name("cat").is_some_and(|cat| cat.line(Kind::Tree, false).is_err()));
    }

    #[test]
    fn a_line_has_the_paths_where_it_says_so_or_else_at_its_end() {
        let words = |line: &str| {
            let line = Line::of(line.split(' ').map(str::to_owned));
            let words = line.words("/a b".as_ref(), "/c".as_ref());
            let shown: Vec<_> = words.iter().map(|word| word.display().to_string()).collect();
            (shown.join("|"), line.to_standard_output())
        };
        assert_eq!(words("x -a"), ("x|-a|/a b|/c".into(), false));
        assert_eq!(words("x {source}/ {sink}"), ("x|/a b/|/c".into(), false));
        assert_eq!(words("x {sink}={source}={sink} -a"), ("x|/c=/a b=/c|-a".into(), false));
        assert_eq!(words("x {source}"), ("x|/a b".into(), true));
    }

    #[test]
    fn what_is_not_installed_says_how_to_install_it() {
        let words = &["no-such-program", SOURCE];
        let none = Copier {
            name: "none",
            one: words,
            sparse: &[],
            tree: &[],
            install: "dig",
            reads_links: false,
        };
        assert_eq!(
            none.line(Kind::One, false).err().as_deref(),
            Some("none is not installed; dig")
        );
    }
}
