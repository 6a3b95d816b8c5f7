//! Classes of cost: from a stack of functions to the class that its time belongs to, by the data
//! file `classes.toml`, which the build turns into JSON.

use std::collections::HashMap;
use std::sync::OnceLock;

use bytepath_report::unpacked;
use serde::Deserialize;

use crate::folded::RARE;
use crate::profile::{Part, Profile, Stack, Symbol};

/// The class of what no class claims.
pub const UNCLAIMED: &str = "unclaimed";
/// The class of idle time.
pub const IDLE: &str = "idle";
/// The class of what programs other than the work did on its CPUs.
pub const OTHERS: &str = "other programs";
/// The class of what threads of the kernel did, for the work or for other programs: for which of
/// them is not seen.
pub const KERNEL_THREADS: &str = "threads of the kernel";
/// The class of programs themselves.
pub const USER: &str = "user code";
/// The class of looking descriptors up, which is told by system call too.
pub const DESCRIPTORS: &str = "descriptor lookup";
/// The class of time in the kernel that nothing more is known of.
pub const UNDIVIDED: &str = "the kernel, not divided";

/// Whether a class is no time that the work is known to have been busy.
pub(crate) fn is_beside(class: &str) -> bool {
    [IDLE, OTHERS, KERNEL_THREADS].contains(&class)
}

/// A function of the kernel's where its names are hidden.
pub(crate) const NAMELESS: &str = "[unknown]";

/// The classes, as the data file has them, packed.
const DATA: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/classes.z"));

/// A class, as the data file has it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// What it is, in words.
    pub about: String,
    /// What to try where it dominates.
    #[serde(rename = "try")]
    pub advice: String,
    /// What to try instead where all of the work shares one CPU.
    #[serde(default, rename = "try_on_one_cpu")]
    advice_on_one_cpu: Option<String>,
    #[serde(default)]
    leaf: Vec<String>,
    #[serde(default)]
    within: Vec<String>,
    #[serde(default)]
    user: Vec<String>,
    #[serde(default)]
    pairs: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    class: Vec<Class>,
}

/// The classes, ready to be asked.
pub struct Classes {
    all: Vec<Class>,
    leaf: Patterns,
    within: Patterns,
    user: Patterns,
    /// A caller and its leaf, which together say what the leaf alone does not.
    pairs: HashMap<(String, String), usize>,
}

impl Class {
    /// What to try where it dominates work on so many CPUs.
    pub(crate) fn advice_on(&self, cpus: usize) -> &str {
        match &self.advice_on_one_cpu {
            Some(advice) if cpus == 1 => advice,
            _ => &self.advice,
        }
    }
}

impl Classes {
    /// Those that come with bytepath.
    pub fn built_in() -> &'static Classes {
        static CLASSES: OnceLock<Classes> = OnceLock::new();
        CLASSES.get_or_init(|| Classes::parse(&unpacked(DATA)).expect("a test reads this file too"))
    }

    /// Reads classes from the text of a data file, as JSON.
    ///
    /// # Errors
    /// What is wrong with the text, and where.
    pub fn parse(text: &str) -> Result<Classes, String> {
        let File { class: all } = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let patterns = |of: fn(&Class) -> &[String]| {
            let mut patterns = Patterns::default();
            for (number, class) in all.iter().enumerate() {
                of(class).iter().for_each(|pattern| patterns.add(pattern, number));
            }
            patterns
        };
        let mut pairs = HashMap::new();
        for (number, class) in all.iter().enumerate() {
            for pair in &class.pairs {
                let (caller, leaf) = pair
                    .split_once(';')
                    .ok_or_else(|| format!("{}: {pair:?} is no caller;leaf", class.name))?;
                pairs.entry((caller.to_owned(), leaf.to_owned())).or_insert(number);
            }
        }
        Ok(Classes {
            pairs,
            leaf: patterns(|class| &class.leaf),
            within: patterns(|class| &class.within),
            user: patterns(|class| &class.user),
            all,
        })
    }

    /// All of them.
    pub fn all(&self) -> &[Class] {
        &self.all
    }

    /// The class of this name; none for those that are no class of the file.
    pub fn named(&self, name: &str) -> Option<&Class> {
        self.all.iter().find(|class| class.name == name)
    }

    /// The class of each stack of a profile, in their order.
    pub fn of_all<'c>(&'c self, profile: &Profile) -> Vec<&'c str> {
        // Each function is looked up once, however many stacks it is in.
        let claims: Vec<Claims> =
            profile.symbols.iter().map(|symbol| self.claims(symbol)).collect();
        let of = |stack: &Stack| {
            if let Some(class) = self.merged(profile, stack) {
                return class;
            }
            let frames = stack.frames.iter().rev().map(|frame| claims[*frame as usize]);
            let by_pair = self.pair(profile.symbols_of(stack).rev());
            let claimed = by_pair.or_else(|| self.claimed(frames));
            let claimed = claimed.map(|class| self.all[class].name.as_str());
            match profile.thread_of(stack).part {
                Part::Others => OTHERS,
                Part::Kernel => KERNEL_THREADS,
                _ if profile.thread_of(stack).name == UNDIVIDED => UNDIVIDED,
                // Nothing is claimed where the kernel's functions have no names.
                Part::Idle => claimed.unwrap_or(IDLE),
                _ if claimed.is_none() && is_nameless(profile.symbols_of(stack)) => UNDIVIDED,
                Part::Work => claimed.unwrap_or(UNCLAIMED),
            }
        };
        profile.stacks.iter().map(of).collect()
    }

    /// The class of a stack that stands for many that were rare.
    fn merged(&self, profile: &Profile, stack: &Stack) -> Option<&str> {
        let mut symbols = profile.symbols_of(stack);
        let (first, class) = (symbols.next()?, symbols.next()?);
        let own = self.all.iter().map(|class| class.name.as_str());
        let mut names = own.chain([UNCLAIMED, OTHERS, KERNEL_THREADS, UNDIVIDED]);
        (first.name == RARE).then(|| names.find(|name| *name == class.name)).flatten()
    }

    /// The class that has a leaf by who called it.
    fn pair<'a>(&self, mut symbols: impl Iterator<Item = &'a Symbol>) -> Option<usize> {
        let (leaf, caller) = (symbols.next()?, symbols.next()?);
        let key = (bare(&caller.name).to_owned(), bare(&leaf.name).to_owned());
        self.pairs.get(&key).copied()
    }

    fn claims(&self, symbol: &Symbol) -> Claims {
        let name = bare(&symbol.name);
        match symbol.is_kernel {
            true => Claims {
                is_kernel: true,
                leaf: self.leaf.class_of(name),
                within: self.within.class_of(name),
            },
            false => Claims { is_kernel: false, leaf: None, within: self.user.class_of(name) },
        }
    }

    /// The class that has a stack, leaf first.
    fn claimed(&self, claims: impl IntoIterator<Item = Claims>) -> Option<usize> {
        let mut claims = claims.into_iter();
        let leaf = claims.next()?;
        if let Some(class) = leaf.leaf.or(leaf.within) {
            return Some(class);
        }
        // Where the kernel's part of a stack is not claimed, the program that made the call says
        // nothing about it.
        let found = claims.take_while(|of| of.is_kernel == leaf.is_kernel).find_map(|of| of.within);
        found.or(if leaf.is_kernel { None } else { self.user.any })
    }
}

/// Which classes claim a function: where it is the leaf, and anywhere.
#[derive(Clone, Copy)]
struct Claims {
    is_kernel: bool,
    leaf: Option<usize>,
    within: Option<usize>,
}

/// The name without what compilers append to it.
fn bare(name: &str) -> &str {
    const APPENDED: [&str; 6] = [".isra", ".constprop", ".part", ".cold", ".llvm", ".localalias"];
    let end = APPENDED.iter().filter_map(|suffix| name.find(suffix)).min();
    &name[..end.unwrap_or(name.len())]
}

/// Patterns, each with the class that it belongs to.
#[derive(Default)]
struct Patterns {
    exact: HashMap<String, usize>,
    /// Those with a * in them: the pieces between.
    globs: Vec<(Vec<String>, usize)>,
    /// The class of what nobody else claims.
    any: Option<usize>,
}

impl Patterns {
    fn add(&mut self, pattern: &str, class: usize) {
        if pattern == "*" {
            self.any.get_or_insert(class);
        } else if pattern.contains('*') {
            let pieces = pattern.split('*').map(str::to_owned).collect();
            self.globs.push((pieces, class));
        } else {
            self.exact.entry(pattern.to_owned()).or_insert(class);
        }
    }

    fn class_of(&self, name: &str) -> Option<usize> {
        if let Some(class) = self.exact.get(name) {
            return Some(*class);
        }
        self.globs.iter().find(|(pieces, _)| fits(pieces, name)).map(|(_, class)| *class)
    }
}

/// Whether the pieces stand in the name in this order, the first at its start, the last at its end.
pub(crate) fn fits(pieces: &[String], name: &str) -> bool {
    let [first, between @ .., last] = pieces else { return false };
    let Some(mut rest) = name.strip_prefix(first.as_str()) else { return false };
    for piece in between {
        match rest.find(piece.as_str()) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last.as_str())
}

/// Whether a stack ends in the kernel, where none of its functions has a name.
fn is_nameless<'a>(symbols: impl DoubleEndedIterator<Item = &'a Symbol>) -> bool {
    let mut of_kernel = symbols.rev().take_while(|symbol| symbol.is_kernel).peekable();
    of_kernel.peek().is_some() && of_kernel.all(|symbol| symbol.name == NAMELESS)
}
