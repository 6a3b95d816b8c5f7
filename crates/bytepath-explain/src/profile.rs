//! Samples with names: what the classes, the trees, the graphs and the exports are made from.

use std::collections::HashMap;

/// A function.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol {
    /// Its name, or an address, or what is known of where it is.
    pub name: String,
    /// Whether it is the kernel's.
    pub is_kernel: bool,
    /// The file that it is in; none for the kernel.
    pub file: Option<String>,
}

/// A thread, or what stands for several.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Thread {
    /// Its process; 0 where it stands for idle time or for other programs.
    pub pid: u32,
    /// Its number.
    pub tid: u32,
    /// What it is called.
    pub name: String,
    /// What it is to the work.
    pub part: Part,
}

/// What a thread is to the work that is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// One of its own.
    Work,
    /// The kernel's.
    Kernel,
    /// None: nothing ran.
    Idle,
    /// None: another program's.
    Others,
}

/// A stack that samples were taken in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stack {
    /// The number of its thread.
    pub thread: u32,
    /// The numbers of its symbols, root first.
    pub frames: Vec<u32>,
}

/// One sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// When, in nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The number of its stack.
    pub stack: u32,
}

/// Samples of some work.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profile {
    /// The functions.
    pub symbols: Vec<Symbol>,
    /// The threads.
    pub threads: Vec<Thread>,
    /// The stacks.
    pub stacks: Vec<Stack>,
    /// How many samples each stack has.
    pub counts: Vec<u64>,
    /// The samples one by one, in their order. In a very long run the last ones are not there.
    pub moments: Vec<Moment>,
}

impl Profile {
    /// All samples.
    pub fn samples(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The thread of a stack.
    pub fn thread_of(&self, stack: &Stack) -> &Thread {
        &self.threads[stack.thread as usize]
    }

    /// The functions of a stack, root first.
    pub fn symbols_of<'a>(
        &'a self,
        stack: &'a Stack,
    ) -> impl DoubleEndedIterator<Item = &'a Symbol> {
        stack.frames.iter().map(|symbol| &self.symbols[*symbol as usize])
    }

    /// Only what `keep` is true of: a stack, by its number.
    pub fn filtered(&self, keep: impl Fn(&Profile, &Stack) -> bool) -> Profile {
        let kept: Vec<bool> = self.stacks.iter().map(|stack| keep(self, stack)).collect();
        let counts =
            self.counts.iter().zip(&kept).map(|(count, kept)| if *kept { *count } else { 0 });
        let moments = self.moments.iter().filter(|moment| kept[moment.stack as usize]);
        Profile { counts: counts.collect(), moments: moments.copied().collect(), ..self.clone() }
    }

    /// Reads folded stacks, root first, as a record has them: `thread;main;write_[k] 12`.
    pub fn from_folded<'a>(stacks: impl IntoIterator<Item = (&'a str, u64)>) -> Profile {
        let mut made = Made::default();
        for (frames, count) in stacks {
            let mut frames = frames.split(';');
            let name = frames.next().unwrap_or_default().to_owned();
            let part = match name.as_str() {
                IDLE => Part::Idle,
                OTHERS => Part::Others,
                // As ps has threads of the kernel, and as they are named here.
                name if name.starts_with('[') && name.ends_with(']') => Part::Kernel,
                _ => Part::Work,
            };
            let thread = made.thread(Thread { pid: 0, tid: 0, name, part });
            let symbols = frames.map(|frame| match frame.strip_suffix(KERNEL_MARK) {
                Some(name) => Symbol { name: name.to_owned(), is_kernel: true, file: None },
                None => Symbol { name: frame.to_owned(), is_kernel: false, file: None },
            });
            let frames = symbols.map(|symbol| made.symbol(symbol)).collect();
            let stack = made.stack(Stack { thread, frames });
            made.profile.counts[stack as usize] += count;
        }
        made.profile
    }
}

/// What marks functions of the kernel in folded stacks, as users of flame graphs know it.
pub const KERNEL_MARK: &str = "_[k]";

/// The thread that stands for idle time.
pub const IDLE: &str = "idle";

/// The thread that stands for programs that are none of the work's.
pub const OTHERS: &str = "other programs";

/// A profile that is being made: each thread, symbol and stack is in it once.
#[derive(Default)]
pub(crate) struct Made {
    pub(crate) profile: Profile,
    threads: HashMap<Thread, u32>,
    symbols: HashMap<Symbol, u32>,
    stacks: HashMap<Stack, u32>,
}

impl Made {
    pub(crate) fn thread(&mut self, thread: Thread) -> u32 {
        number_of(thread, &mut self.profile.threads, &mut self.threads)
    }

    pub(crate) fn symbol(&mut self, symbol: Symbol) -> u32 {
        number_of(symbol, &mut self.profile.symbols, &mut self.symbols)
    }

    pub(crate) fn stack(&mut self, stack: Stack) -> u32 {
        let number = number_of(stack, &mut self.profile.stacks, &mut self.stacks);
        self.profile.counts.resize(self.profile.stacks.len(), 0);
        number
    }
}

/// The number of a thing, which is put behind the others where it is new.
fn number_of<T: Clone + Eq + std::hash::Hash>(
    thing: T,
    all: &mut Vec<T>,
    numbers: &mut HashMap<T, u32>,
) -> u32 {
    if let Some(number) = numbers.get(&thing) {
        return *number;
    }
    let number = u32::try_from(all.len()).expect("fewer than 2^32 of a kind");
    all.push(thing.clone());
    numbers.insert(thing, number);
    number
}
