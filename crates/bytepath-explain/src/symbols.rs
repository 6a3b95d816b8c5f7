//! Names for places: the kernel's by /proc/kallsyms, those of user space by the files that code was
//! mapped from, which are there when the process is not any more.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};

use blazesym::MaybeDefault;
use blazesym::symbolize::source::{Kernel, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use bytepath_report::table::printable;

use crate::collect::Collected;
use crate::files::Files;
use crate::missing::Missing;
use crate::profile::{IDLE, Made, Moment, OTHERS, Part, Profile, Stack, Symbol, Thread};
use crate::world::{Place, Whose};

const KALLSYMS: &str = "/proc/kallsyms";

/// Names everything that was sampled.
pub(crate) fn named(collected: &Collected, missing: &mut Vec<String>) -> Profile {
    let names = Names::of(&collected.world.files, &collected.places, missing);
    let mut made = Made::default();
    let threads: Vec<u32> = collected.threads.iter().map(|of| made.thread(thread(of))).collect();
    let mut numbers = Vec::with_capacity(collected.stacks.len());
    for (stack, count) in collected.stacks.iter().zip(&collected.counts) {
        let mut frames = Vec::new();
        for place in stack.places.iter().rev() {
            for name in &names.0[*place as usize] {
                let symbol = made.symbol(name.clone());
                // Of a file without symbols, calls among its own functions say nothing.
                if !(name.name.starts_with('[') && frames.last() == Some(&symbol)) {
                    frames.push(symbol);
                }
            }
        }
        let thread = threads[stack.thread as usize];
        let number = made.stack(Stack { thread, frames });
        made.profile.counts[number as usize] += count;
        numbers.push(number);
    }
    made.profile.moments = collected
        .moments
        .iter()
        .map(|moment| Moment { time_ns: moment.time_ns, stack: numbers[moment.stack as usize] })
        .collect();
    made.profile
}

fn thread(of: &crate::collect::Thread) -> Thread {
    let (name, part) = match of.whose {
        Whose::Work => (of.name.clone(), Part::Work),
        Whose::Kernel => (format!("[{}]", of.name), Part::Kernel),
        Whose::Idle => (IDLE.to_owned(), Part::Idle),
        Whose::Others => (OTHERS.to_owned(), Part::Others),
    };
    Thread { pid: of.pid, tid: of.tid, name: clean(&name), part }
}

/// For each place, its functions, root first: more than one where some were inlined.
struct Names(Vec<Vec<Symbol>>);

/// Names places: for each its functions, root first.
pub(crate) fn of_places(
    files: &Files,
    places: &[Place],
    missing: &mut Vec<String>,
) -> Vec<Vec<Symbol>> {
    Names::of(files, places, missing).0
}

impl Names {
    fn of(all: &Files, places: &[Place], missing: &mut Vec<String>) -> Names {
        let mut names = Names(vec![Vec::new(); places.len()]);
        let symbolizer = || Symbolizer::builder().enable_code_info(false).build();
        let (mut kernel, mut files) = (Vec::new(), HashMap::<u32, Vec<(usize, u64)>>::new());
        let mut unread = BTreeSet::new();
        for (number, place) in places.iter().enumerate() {
            match place {
                Place::Kernel(address) => kernel.push((number, *address)),
                Place::File(file, address) => {
                    files.entry(*file).or_default().push((number, *address));
                }
                Place::Within(file) => {
                    let file = all.get(*file);
                    names.0[number] = vec![file_alone(&file.name)];
                    if file.is_missing() {
                        unread.insert(clean(&file.name));
                    }
                }
                Place::Unknown => names.0[number] = vec![user("[unknown]", None)],
            }
        }
        names.of_kernel(&symbolizer(), &kernel, missing);
        for (file, places) in files {
            let file = all.get(file);
            let name = &file.name;
            let fallback = |_: u64| file_alone(name);
            match file.symbols() {
                Some((source, _kept_open)) => {
                    let named = |text: &str| user(text, Some(name));
                    // It keeps what it has read open, and a build runs thousands of programs.
                    let symbolizer = symbolizer();
                    names.found(&symbolizer, &Source::Elf(source), &places, &fallback, &named);
                }
                None => {
                    unread.insert(clean(name));
                    for (number, address) in places {
                        names.0[number] = vec![fallback(address)];
                    }
                }
            }
        }
        if !unread.is_empty() {
            missing.push(Missing::no_files(&unread).0);
        }
        names
    }

    fn of_kernel(
        &mut self,
        symbolizer: &Symbolizer,
        places: &[(usize, u64)],
        missing: &mut Vec<String>,
    ) {
        if places.is_empty() {
            return;
        }
        let fallback = |address: u64| kernel(&format!("{address:#x}"));
        if let Some(why) = hidden() {
            missing.push(Missing::no_kernel_symbols(&why).0);
            for (number, _) in places {
                self.0[*number] = vec![kernel(crate::classes::NAMELESS)];
            }
            return;
        }
        let source = Source::Kernel(Kernel {
            kallsyms: MaybeDefault::Default,
            vmlinux: MaybeDefault::None,
            debug_syms: false,
            ..Kernel::default()
        });
        self.found(symbolizer, &source, places, &fallback, &kernel);
    }

    /// Fills in what a source says.
    fn found(
        &mut self,
        symbolizer: &Symbolizer,
        source: &Source<'_>,
        places: &[(usize, u64)],
        fallback: &dyn Fn(u64) -> Symbol,
        named: &dyn Fn(&str) -> Symbol,
    ) {
        let addresses: Vec<u64> = places.iter().map(|(_, address)| *address).collect();
        let input = match source {
            Source::Kernel(_) => Input::AbsAddr(addresses.as_slice()),
            _ => Input::VirtOffset(addresses.as_slice()),
        };
        // A file that is no more, or of which nothing can be read, has no names.
        let found = symbolizer.symbolize(source, input).unwrap_or_default();
        for (index, (number, address)) in places.iter().enumerate() {
            self.0[*number] = match found.get(index) {
                Some(Symbolized::Sym(symbol)) => {
                    let inlined = symbol.inlined.iter().map(|inlined| named(&clean(&inlined.name)));
                    std::iter::once(named(&clean(&symbol.name))).chain(inlined).collect()
                }
                _ => vec![fallback(*address)],
            };
        }
    }
}

fn kernel(name: &str) -> Symbol {
    Symbol { name: name.to_owned(), is_kernel: true, file: None }
}

fn user(name: &str, file: Option<&str>) -> Symbol {
    Symbol { name: name.to_owned(), is_kernel: false, file: file.map(str::to_owned) }
}

/// What stands for a function of a file that tells none.
fn file_alone(name: &str) -> Symbol {
    user(&format!("[{}]", clean(bare(name))), Some(name))
}

/// The last part of a path.
fn bare(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path).trim_matches(['[', ']'])
}

/// In folded stacks a semicolon ends a frame, and the end of a line the stack. The former is in the names
/// of arrays of Rust's types; whoever names a thread, a file or a symbol may choose either.
fn clean(name: &str) -> String {
    printable(name).replace(';', ":").replace('\n', " ")
}

/// Why the kernel's symbols cannot be had, if they cannot.
fn hidden() -> Option<String> {
    let file = match File::open(KALLSYMS) {
        Ok(file) => file,
        Err(error) => return Some(format!("{KALLSYMS}: {error}")),
    };
    let mut lines = BufReader::new(file).lines().map_while(Result::ok).take(64).peekable();
    if lines.peek().is_none() {
        return Some(format!("{KALLSYMS} is empty (CONFIG_KALLSYMS)"));
    }
    let all_zero = lines.all(|line| line.split(' ').next().is_some_and(is_zero));
    all_zero.then(|| format!("every address in {KALLSYMS} is zero"))
}

fn is_zero(address: &str) -> bool {
    address.bytes().all(|digit| digit == b'0')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Map;

    #[test]
    fn no_name_ends_a_frame_or_a_line_of_folded_stacks() {
        let mut files = Files::default();
        let name = "/no/such/li\nb;1\u{1b}.so".to_owned();
        let file = files.number_of(&Map { name, ..Map::default() });
        let places = [Place::Within(file), Place::File(file, 7)];
        let mut missing = Vec::new();
        for found in of_places(&files, &places, &mut missing) {
            assert_eq!(found[0].name, "[li b:1\u{fffd}.so]");
        }
        assert!(missing.len() == 1 && missing[0].contains("/no/such/li b:1"), "{missing:?}");
        assert_eq!(clean("[u8; 4]\n"), "[u8: 4] ");
        let named =
            crate::collect::Thread { pid: 1, tid: 1, name: "a\nb;".to_owned(), whose: Whose::Work };
        assert_eq!(thread(&named).name, "a b:");
    }
}
