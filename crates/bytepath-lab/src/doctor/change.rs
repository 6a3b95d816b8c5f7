//! Changes of settings of the running machine, each with the command that undoes it. What has been
//! half done is undone.

use std::fs;
use std::path::{Path, PathBuf};

use bytepath::shell::quoted;
use bytepath_report::Applied;

/// Files that are to hold something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Each with what it is to hold.
    files: Vec<(PathBuf, String)>,
}

/// A change that was refused: what failed, why, what to try.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ChangeError(String);

impl Change {
    /// A change of files below `root`; none where not all of them are there.
    pub(super) fn of(root: &Path, files: &[(PathBuf, String)]) -> Option<Change> {
        let below = |(file, to): &(PathBuf, String)| (root.join(file), to.clone());
        let files: Vec<_> = files.iter().map(below).collect();
        let there = !files.is_empty() && files.iter().all(|(file, _)| file.is_file());
        there.then_some(Change { files })
    }

    /// Whether any of the files holds something else now.
    pub(super) fn changes_something(&self) -> bool {
        self.files.iter().any(|(file, to)| !holds(file, to))
    }

    /// What changes, as a person is asked: `never to madvise`.
    pub fn steps(&self) -> String {
        let mut steps: Vec<String> = Vec::new();
        for (file, to) in &self.files {
            let step = format!("{} to {to}", held(file).unwrap_or_default());
            if !steps.contains(&step) {
                steps.push(step);
            }
        }
        steps.join(", and ")
    }

    /// Makes the change, and sees that it was made. A file that holds what is wanted, as after another
    /// change, is left alone: it has nothing to undo.
    ///
    /// # Errors
    /// Where a file cannot be written, or holds something else afterwards. Files that were changed
    /// before are put back.
    pub fn apply(&self, name: &str) -> Result<Vec<Applied>, ChangeError> {
        let mut applied: Vec<Applied> = Vec::new();
        for (file, to) in self.files.iter().filter(|(file, to)| !holds(file, to)) {
            match write(name, file, to) {
                Ok(one) => applied.push(one),
                Err(error) => {
                    for one in &applied {
                        // It was written a moment ago.
                        let _ = fs::write(&one.file, &one.from);
                    }
                    return Err(error);
                }
            }
        }
        Ok(applied)
    }
}

fn write(name: &str, file: &Path, wanted: &str) -> Result<Applied, ChangeError> {
    let shown = file.display();
    let from = held(file).map_err(|error| {
        ChangeError(format!("cannot change {name}: cannot read {shown}: {error}"))
    })?;
    fs::write(file, wanted).map_err(|error| {
        let remedy = match error.kind() {
            std::io::ErrorKind::PermissionDenied => "run it as root",
            std::io::ErrorKind::ReadOnlyFilesystem => {
                "it is read-only, as in most containers: change it on the host"
            }
            _ => "look at dmesg",
        };
        ChangeError(format!(
            "cannot change {name}: cannot write {wanted} to {shown}: {error}; {remedy}"
        ))
    })?;
    let to = held(file).unwrap_or_default();
    if to != wanted {
        let _ = fs::write(file, &from);
        return Err(ChangeError(format!(
            "cannot change {name}: {shown} took {wanted} and holds {to}; it was put back to {from}"
        )));
    }
    let undo = command(file, &from);
    Ok(Applied { name: name.to_owned(), file: shown.to_string(), from, to, undo })
}

/// What a file holds, with one space between numbers; of a choice such as `always [madvise] never`,
/// the one that is chosen.
fn held(file: &Path) -> std::io::Result<String> {
    let text = fs::read_to_string(file)?;
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let held = chosen.map_or(text.as_str(), |(word, _)| word);
    Ok(held.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn holds(file: &Path, wanted: &str) -> bool {
    held(file).is_ok_and(|held| held == wanted)
}

/// The command that makes a file hold this.
pub(super) fn command(file: &Path, value: &str) -> String {
    let shown = file.display().to_string();
    match shown.strip_prefix("/proc/sys/") {
        Some(name) => format!("sysctl -w {}={}", name.replace('/', "."), quoted(value)),
        None => format!("echo {value} > {}", quoted(&shown)),
    }
}

/// The commands that make these files below `/` hold these.
pub(super) fn commands(files: &[(PathBuf, String)]) -> String {
    let each = files.iter().map(|(file, to)| command(&Path::new("/").join(file), to));
    each.collect::<Vec<_>>().join(" && ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_read_as_what_is_chosen_and_undone_by_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("enabled");
        fs::write(&file, "always madvise [never]\n").expect("a file");
        let files = [("enabled".into(), "madvise".to_owned())];
        let change = Change::of(folder.path(), &files).expect("it is there");
        assert_eq!(change.steps(), "never to madvise");
        let applied = change.apply("thp").expect("it is written");
        assert_eq!(applied[0].undo, format!("echo never > {}", file.display()));
    }

    #[test]
    fn what_was_half_done_is_undone() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("a"), "1").expect("a file");
        fs::write(folder.path().join("b"), "1").expect("a file");
        let files = ["a", "b"].map(|name| (name.into(), "2".to_owned()));
        let change = Change::of(folder.path(), &files).expect("they are there");
        fs::remove_file(folder.path().join("b")).expect("it goes");
        let error = change.apply("both").expect_err("one is gone");
        assert!(error.to_string().starts_with("cannot change both: cannot read "), "{error}");
        assert_eq!(fs::read_to_string(folder.path().join("a")).expect("a file"), "1");
    }

    #[test]
    fn settings_of_the_kernel_are_undone_by_sysctl() {
        let file = Path::new("/proc/sys/net/core/somaxconn");
        assert_eq!(command(file, "128"), "sysctl -w net.core.somaxconn=128");
        let file = Path::new("/proc/sys/net/ipv4/tcp_rmem");
        let told = command(file, "4096 131072 6291456");
        assert_eq!(told, "sysctl -w net.ipv4.tcp_rmem='4096 131072 6291456'");
    }
}
