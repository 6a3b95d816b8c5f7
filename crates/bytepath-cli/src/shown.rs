//! What of an explanation is shown, and the files that it goes to.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context;
use bytepath_explain::profile::Profile;
use bytepath_explain::trace::Mode;
use bytepath_explain::{NO_SAMPLES, Settings, Stacks, firefox, flame, folded, show, tree};
use bytepath_lab::lab;
use bytepath_report::Explained;
use clap::Args;

use crate::output::{self, Output};
use crate::style::style;
use crate::usage::wrong_usage;
use crate::values;

/// How samples are taken, and what is made of them.
#[derive(Args, Default, Clone)]
pub(crate) struct Shown {
    /// Samples a second, of each CPU
    #[arg(long, value_name = "N", default_value_t = 999, value_parser = clap::value_parser!(u32).range(1..=20_000), conflicts_with = "trace")]
    hz: u32,
    /// How stacks of programs are found: tables (by what compilers leave for unwinding), fp (by frame
    /// pointers: cheaper, and right only where programs keep them)
    #[arg(long, value_name = "HOW", value_parser = stacks, default_value = "tables")]
    stacks: Stacks,
    /// Trace it by eBPF instead of taking samples: offcpu, wakeups, syscalls, softirq, filelife, tcp
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub(crate) trace: Option<Mode>,
    /// Draw the call tree
    #[arg(long)]
    tree: bool,
    /// In the call tree, leave branches out that have less than this share of all samples
    #[arg(long, value_name = "PERCENT", default_value = "1", value_parser = values::percent(0.0..=100.0))]
    min_share: f64,
    /// Of the call tree, graphs and exports, only stacks with a function like this one: '*pipe_*',
    /// 'lock'
    #[arg(long, value_name = "NAME")]
    symbol: Option<String>,
    /// Only threads of a name like this one
    #[arg(long, value_name = "NAME")]
    thread: Option<String>,
    /// Draw a flame graph into a file (SVG)
    #[arg(long, value_name = "FILE")]
    flame: Option<PathBuf>,
    /// Write folded stacks to a file, as tools for flame graphs read them
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,
    /// Write a profile for the Firefox Profiler (profiler.firefox.com) to a file
    #[arg(long, value_name = "FILE")]
    firefox: Option<PathBuf>,
}

fn mode(name: &str) -> Result<Mode, String> {
    Mode::ALL.iter().copied().find(|mode| mode.name() == name).ok_or_else(|| {
        let all = Mode::ALL.iter().map(|mode| format!("\n  {:<9} {}", mode.name(), mode.about()));
        format!("nothing is traced by the name {name:?}; there are:{}", all.collect::<String>())
    })
}

fn stacks(name: &str) -> Result<Stacks, String> {
    match name {
        "tables" | "dwarf" => Ok(Stacks::Tables),
        "fp" => Ok(Stacks::FramePointers),
        _ => Err(format!("there is no way {name:?} to find stacks; there are: tables, fp")),
    }
}

/// A file for an export.
struct File {
    option: &'static str,
    path: PathBuf,
    make: fn(&Named<'_>) -> anyhow::Result<Vec<u8>>,
}

/// Something that was explained, by its name.
pub(crate) struct Named<'a> {
    pub(crate) name: &'a str,
    pub(crate) explained: &'a Explained,
    /// All samples; where they are of a record, those that it keeps.
    pub(crate) profile: &'a Profile,
}

impl File {
    /// The files of several that are explained, with the option that asks for them.
    fn beside(&self, names: &[&str]) -> Vec<(&'static str, PathBuf)> {
        let mut taken = HashSet::new();
        let several = names.iter().filter(|_| names.len() > 1);
        several.map(|name| (self.option, beside(&self.path, name, &mut taken))).collect()
    }
}

impl Shown {
    pub(crate) fn settings(&self) -> Settings {
        // A structure that was not parsed asks for what is usual.
        let usual = Settings::default();
        let hz = if self.hz == 0 { usual.hz } else { self.hz };
        Settings { hz, stacks: self.stacks, ..usual }
    }

    /// The same, for the arms of an experiment.
    pub(crate) fn for_arms(&self) -> lab::Explain {
        let Settings { hz, stacks, .. } = self.settings();
        let trace = self.trace.map(Mode::name);
        lab::Explain { hz, frame_pointers: stacks == Stacks::FramePointers, trace }
    }

    /// Whether anything is asked for that only an explanation has.
    pub(crate) fn asks_for_anything(&self) -> bool {
        let usual = Settings::default();
        let Settings { hz, stacks, .. } = self.settings();
        (hz, stacks) != (usual.hz, usual.stacks)
            || self.trace.is_some()
            || self.tree
            || self.symbol.is_some()
            || self.thread.is_some()
            || !self.files().is_empty()
    }

    fn files(&self) -> Vec<File> {
        let one =
            |option, path: &Option<PathBuf>, make| Some(File { option, path: path.clone()?, make });
        [
            one("--flame", &self.flame, |named| {
                let stacks = folded::all(named.profile);
                Ok(flame::graph(named.name, &stacks)?)
            }),
            one("--folded", &self.folded, |named| {
                Ok(folded::text(&folded::all(named.profile)).into_bytes())
            }),
            one("--firefox", &self.firefox, |named| {
                Ok(firefox::json(named.name, named.explained.hz, named.profile)?)
            }),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Sees that the files are neither each other nor those that other options name.
    pub(crate) fn check(&self, others: &[(&str, Option<&Path>)]) -> anyhow::Result<()> {
        self.check_of(&[], others)
    }

    /// The same, where these may be explained.
    pub(crate) fn check_of(
        &self,
        names: &[&str],
        others: &[(&str, Option<&Path>)],
    ) -> anyhow::Result<()> {
        let files = self.files();
        let beside: Vec<_> = files.iter().flat_map(|file| file.beside(names)).collect();
        let own = files.iter().map(|file| (file.option, Some(&*file.path)));
        let beside_own = beside.iter().map(|(option, path)| (*option, Some(&**path)));
        let all: Vec<_> = others.iter().copied().chain(own).chain(beside_own).collect();
        output::each_its_own(&all).map_err(wrong_usage)?;
        let samples = self.tree || self.symbol.is_some() || self.thread.is_some();
        if self.trace.is_some() && (samples || !self.files().is_empty()) {
            return Err(wrong_usage(
                "--trace takes no samples, of which --tree, --symbol, --thread and the files are made",
            ));
        }
        Ok(())
    }

    /// Opens the files, so that nobody learns after the work that one cannot be written.
    pub(crate) fn open(&self) -> anyhow::Result<Vec<Output>> {
        self.files().iter().map(|file| Output::open(&file.path)).collect()
    }

    /// The same, where there may be several that are explained, each with files of its own.
    pub(crate) fn look(&self, names: &[&str]) -> anyhow::Result<()> {
        for file in self.files() {
            let is_other = file.path.exists() && !file.path.is_file();
            if names.len() > 1 && (output::is_stdout(&file.path) || is_other) {
                return Err(wrong_usage(format!(
                    "{} {}: each of {} arms has a file of its own, called after this one; name a \
                     regular file, or leave one arm",
                    file.option,
                    file.path.display(),
                    names.len()
                )));
            }
            Output::look(&file.path)?;
            file.beside(names).iter().try_for_each(|(_, path)| Output::look(path))?;
        }
        Ok(())
    }

    /// The text for a terminal.
    pub(crate) fn text(&self, named: &Named<'_>) -> String {
        let mut text = show::text(named.explained, style());
        if self.tree || self.symbol.is_some() || self.thread.is_some() {
            let shown = tree::Shown { share_min: self.min_share / 100.0, ..Default::default() };
            let all = named.profile.samples();
            text += &match self.left_nothing_of(named.profile) {
                Some(why) => format!("\n{why}\n"),
                None => format!("\n{}", tree::text(&self.filtered(named.profile), all, &shown)),
            };
        }
        text
    }

    /// Where there are samples, and none is as the filters want it: so.
    fn left_nothing_of(&self, profile: &Profile) -> Option<String> {
        if profile.samples() == 0 || self.filtered(profile).samples() > 0 {
            return None;
        }
        let thread = self.thread.as_ref().map(|name| format!("is of a thread like {name}"));
        let symbol = self.symbol.as_ref().map(|name| format!("has a function like {name}"));
        let wanted: Vec<_> = thread.into_iter().chain(symbol).collect();
        Some(format!("none of {} samples {}", profile.samples(), wanted.join(" and ")))
    }

    fn filtered(&self, profile: &Profile) -> Profile {
        match (&self.thread, &self.symbol) {
            (None, None) => profile.clone(),
            (thread, symbol) => tree::filtered(profile, thread.as_deref(), symbol.as_deref()),
        }
    }

    /// The files, and what is to be in them; where there is more than one to be explained, each has its
    /// own, with its name in the file's. One that there are no samples for is an error.
    pub(crate) fn made(&self, all: &[Named<'_>]) -> Vec<anyhow::Result<(PathBuf, Vec<u8>)>> {
        let one = |file: &File, named: &Named<'_>, taken: &mut HashSet<PathBuf>| {
            let path = match all.len() {
                1 => file.path.clone(),
                _ => beside(&file.path, named.name, taken),
            };
            if named.explained.samples == 0 {
                return Err(no_samples(&path, named));
            }
            if let Some(why) = self.left_nothing_of(named.profile) {
                return Err(cannot_write(&path, named, &why));
            }
            let profile = self.filtered(named.profile);
            let made = (file.make)(&Named { profile: &profile, ..*named });
            let made = made.with_context(|| format!("{}: {}", path.display(), named.name))?;
            Ok((path, made))
        };
        let mut made = Vec::new();
        for file in self.files() {
            let mut taken = HashSet::new();
            made.extend(all.iter().map(|named| one(&file, named, &mut taken)));
        }
        made
    }
}

/// Why nothing can be made for a file.
fn no_samples(path: &Path, named: &Named<'_>) -> anyhow::Error {
    let refused = named.explained.missing.iter().find(|why| why.starts_with(NO_SAMPLES));
    let why = match refused {
        Some(why) => why.clone(),
        None => format!("{NO_SAMPLES}; let it run for longer, or take more of them (--hz)"),
    };
    cannot_write(path, named, &why)
}

fn cannot_write(path: &Path, named: &Named<'_>, why: &str) -> anyhow::Error {
    anyhow::anyhow!("cannot write {}, of {}: {why}", path.display(), named.name)
}

/// `out.svg` and `write-read@same-cpu` make `out.write-read@same-cpu.svg`, cut to what a file can be
/// called; a name that is taken gets a number: two may differ in nothing that can stand there.
fn beside(path: &Path, name: &str, taken: &mut HashSet<PathBuf>) -> PathBuf {
    let safe: String = name
        .chars()
        .map(|char| if char.is_alphanumeric() || "@-_.".contains(char) { char } else { '_' })
        .collect();
    let stem = path.file_stem().unwrap_or_default();
    let whole = [stem.as_bytes(), b".", safe.as_bytes()].concat();
    let ending = path.extension().map(|ending| [b".", ending.as_bytes()].concat());
    let ending = ending.unwrap_or_default();
    let numbers = (2..).map(|number| format!("-{number}"));
    let mut names = std::iter::once(String::new()).chain(numbers).map(|number| {
        let mut end = whole.len().min(NAME_BYTES_MAX.saturating_sub(number.len() + ending.len()));
        // A letter is left whole.
        while end > 0 && whole.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
            end -= 1;
        }
        let name = [&whole[..end], number.as_bytes(), &ending].concat();
        path.with_file_name(OsString::from_vec(name))
    });
    names.find(|name| taken.insert(name.clone())).expect("there is a number for each")
}

/// What Linux allows (NAME_MAX).
const NAME_BYTES_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_there_are_no_samples_for_says_why() {
        let shown = Shown { folded: Some("out".into()), ..Shown::default() };
        let told = |missing: &[&str]| {
            let missing = missing.iter().map(|why| (*why).to_owned()).collect();
            let explained = Explained { missing, ..Explained::default() };
            let named = Named { name: "arm", explained: &explained, profile: &Profile::default() };
            let made = shown.made(&[named]);
            let [Err(error)] = made.as_slice() else { panic!("{made:?}") };
            error.to_string()
        };
        assert_eq!(told(&["x", "no samples: y"]), "cannot write out, of arm: no samples: y");
        assert!(told(&[]).ends_with("let it run for longer, or take more of them (--hz)"));
    }

    #[test]
    fn filters_that_leave_nothing_are_what_is_told() {
        let out = || Some(PathBuf::from("out"));
        let shown = |symbol: &str, thread: Option<&str>| Shown {
            flame: out(),
            folded: out(),
            firefox: out(),
            symbol: Some(symbol.to_owned()),
            thread: thread.map(str::to_owned),
            ..Shown::default()
        };
        let profile = Profile::from_folded([("cat;read;anon_pipe_read", 551)]);
        let explained = Explained { samples: 551, ..Explained::default() };
        let named = Named { name: "arm", explained: &explained, profile: &profile };
        let why = "none of 551 samples has a function like pipe_*";
        let nothing = shown("pipe_*", None);
        for made in nothing.made(std::slice::from_ref(&named)) {
            let error = made.expect_err("there is nothing to write").to_string();
            assert_eq!(error, format!("cannot write out, of arm: {why}"));
        }
        assert!(nothing.text(&named).ends_with(&format!("\n{why}\n")));
        let both = shown("pipe_*", Some("tar")).left_nothing_of(&profile).expect("nothing is left");
        assert!(both.ends_with("is of a thread like tar and has a function like pipe_*"), "{both}");
        let found = shown("*pipe_*", None);
        assert!(found.made(&[named]).iter().all(Result::is_ok));
    }

    #[test]
    fn each_arm_has_a_file_of_its_own() {
        let mut taken = HashSet::new();
        let mut path = |path: &str, name: &str| {
            beside(Path::new(path), name, &mut taken).display().to_string()
        };
        assert_eq!(path("a/out.svg", "write-read@same-cpu"), "a/out.write-read@same-cpu.svg");
        assert_eq!(path("out", "x/../y z"), "out.x_.._y_z");
        let cut = [(124, ""), (123, "-2")];
        let cut = cut.map(|(letters, number)| format!("o.{}{number}.svg", "é".repeat(letters)));
        assert_eq!(cut.each_ref().map(String::len), [254, 254], "255 with half a letter");
        assert_eq!([0, 1].map(|_| path("o.svg", &"é".repeat(200))), cut);
        let alike = ["a b-2", "a_b", "a b", "a#b"].map(|name| path("out.svg", name));
        assert_eq!(alike, ["out.a_b-2.svg", "out.a_b.svg", "out.a_b-3.svg", "out.a_b-4.svg"]);
        let odd = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
        assert_eq!(beside(&odd(b"o\xff.\xfe"), "x", &mut taken), odd(b"o\xff.x.\xfe"));
    }
}
