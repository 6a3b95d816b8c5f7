//! The call tree as text, as `perf report --stdio -g caller` draws it: from the threads down to the
//! functions in which the time was spent.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::folded::frame;
use crate::profile::{Profile, Stack};

/// What is shown of a tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// Branches with a smaller share of all samples are left out, 0 to 1.
    pub share_min: f64,
    /// At most so many lines.
    pub lines_max: usize,
}

impl Default for Shown {
    fn default() -> Self {
        Shown { share_min: 0.01, lines_max: 200 }
    }
}

/// Only the stacks of threads whose name is like `thread`, and in which a function is like
/// `symbol`; * stands for anything, and what has none for all that hold it.
pub fn filtered(profile: &Profile, thread: Option<&str>, symbol: Option<&str>) -> Profile {
    profile.filtered(|profile, stack| {
        let of_thread = thread.is_none_or(|like| is_like(&profile.thread_of(stack).name, like));
        let with_symbol = symbol
            .is_none_or(|like| profile.symbols_of(stack).any(|symbol| is_like(&symbol.name, like)));
        of_thread && with_symbol
    })
}

fn is_like(name: &str, pattern: &str) -> bool {
    match pattern.contains('*') {
        true => {
            let pieces: Vec<String> = pattern.split('*').map(str::to_owned).collect();
            crate::classes::fits(&pieces, name)
        }
        false => name.contains(pattern),
    }
}

#[derive(Default)]
struct Branch {
    count: u64,
    below: BTreeMap<String, Branch>,
}

/// The tree of a profile. Shares are of `all` samples, so that a filtered tree shows how much of
/// the whole it is.
pub fn text(profile: &Profile, all: u64, shown: &Shown) -> String {
    let mut root = Branch::default();
    for (stack, count) in
        profile.stacks.iter().zip(&profile.counts).filter(|(_, count)| **count > 0)
    {
        root.add(profile, stack, *count);
    }
    let mut drawing = Drawing { text: String::new(), all: all.max(1) as f64, shown, lines: 0 };
    if root.below.is_empty() {
        return "no sample\n".to_owned();
    }
    for (name, branch) in root.sorted() {
        if drawing.is_large(branch) {
            drawing.line(&format!("{:>7}  {name}", drawing.percent(branch.count)));
            drawing.below(branch, "         ");
        }
    }
    if drawing.lines > shown.lines_max {
        let _ = writeln!(
            drawing.text,
            "… cut after {} lines; --min-share shows larger branches alone",
            shown.lines_max
        );
    }
    drawing.text
}

impl Branch {
    fn add(&mut self, profile: &Profile, stack: &Stack, count: u64) {
        self.count += count;
        let mut branch = self.below.entry(profile.thread_of(stack).name.clone()).or_default();
        branch.count += count;
        for symbol in profile.symbols_of(stack) {
            branch = branch.below.entry(frame(symbol)).or_default();
            branch.count += count;
        }
    }

    /// Largest first.
    fn sorted(&self) -> Vec<(&String, &Branch)> {
        let mut below: Vec<_> = self.below.iter().collect();
        below.sort_by(|a, b| b.1.count.cmp(&a.1.count).then_with(|| a.0.cmp(b.0)));
        below
    }
}

struct Drawing<'a> {
    text: String,
    all: f64,
    shown: &'a Shown,
    /// Of the whole tree.
    lines: usize,
}

impl Drawing<'_> {
    fn percent(&self, count: u64) -> String {
        format!("{:.2}%", count as f64 / self.all * 100.0)
    }

    fn is_large(&self, branch: &Branch) -> bool {
        branch.count as f64 / self.all >= self.shown.share_min
    }

    fn line(&mut self, line: &str) {
        self.lines += 1;
        if self.lines <= self.shown.lines_max {
            self.text.push_str(line);
            self.text.push('\n');
        }
    }

    /// What is below a branch. A function that was called by nobody else, and that did nothing
    /// itself, needs no share of its own.
    fn below(&mut self, branch: &Branch, indent: &str) {
        let large: Vec<_> =
            branch.sorted().into_iter().filter(|(_, below)| self.is_large(below)).collect();
        if let [(name, only)] = large.as_slice()
            && only.count == branch.count
        {
            self.line(&format!("{indent}{name}"));
            return self.below(only, indent);
        }
        let last = large.len().saturating_sub(1);
        for (at, (name, below)) in large.iter().enumerate() {
            let share = self.percent(below.count);
            self.line(&format!("{indent}|--{share}--{name}"));
            let bar = if at == last { ' ' } else { '|' };
            self.below(below, &format!("{indent}{bar}         "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        Profile::from_folded([
            ("writer;main;write;pipe_write_[k];copy_page_from_iter_[k]", 60),
            ("writer;main;write;pipe_write_[k]", 20),
            ("reader;main;read;pipe_read_[k]", 19),
            ("reader;main;exit", 1),
        ])
    }

    #[test]
    fn the_tree_is_drawn_as_perf_draws_it() {
        let drawn = text(&profile(), 100, &Shown { share_min: 0.05, ..Shown::default() });
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(
            lines[..4],
            [" 80.00%  writer", "         main", "         write", "         pipe_write_[k]"]
        );
        assert_eq!(lines[4], "         |--60.00%--copy_page_from_iter_[k]");
        assert_eq!(lines[5], " 20.00%  reader");
        assert!(!drawn.contains("exit"), "{drawn}");
    }

    #[test]
    fn filters_leave_what_they_name() {
        let profile = profile();
        let of = |thread, symbol| filtered(&profile, thread, symbol).samples();
        assert_eq!(of(Some("writer"), None), 80);
        assert_eq!(of(Some("w*r"), None), 80);
        assert_eq!(of(None, Some("copy_page")), 60);
        assert_eq!(of(None, Some("copy_page")), 60);
        assert_eq!(of(None, Some("pipe_*")), 99);
        assert_eq!(of(Some("reader"), Some("pipe_write")), 0);
        assert_eq!(
            text(&filtered(&profile, Some("nobody"), None), 100, &Shown::default()),
            "no sample\n"
        );
    }

    #[test]
    fn a_tree_has_its_bounds() {
        let drawn = text(&profile(), 100, &Shown { share_min: 0.0, lines_max: 3 });
        assert_eq!(drawn.lines().count(), 4, "{drawn}");
        assert!(drawn.contains("cut after 3 lines"), "{drawn}");
        let of = |lines_max| text(&profile(), 100, &Shown { share_min: 0.0, lines_max });
        let lines = of(usize::MAX).lines().count();
        assert_eq!(of(lines), of(usize::MAX), "all of it fits");
        assert!(of(lines - 1).contains("cut after"), "a line is missing");
    }
}
