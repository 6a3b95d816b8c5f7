//! Where samples of a class came from: the functions that no class claims, and the system calls that a
//! class's samples were taken in.

use std::borrow::Cow;

use bytepath_report::SymbolShare;

use crate::classes::UNCLAIMED;
use crate::folded;
use crate::profile::{Profile, Symbol};

/// So many symbols that no class claims are named.
const UNCLAIMED_MAX: usize = 20;

/// The leaves of what no class claims, which together have this share.
pub(crate) fn unclaimed(profile: &Profile, classes: &[&str], together: f64) -> Vec<SymbolShare> {
    let mut leaves = std::collections::BTreeMap::<String, u64>::new();
    for (number, stack) in profile.stacks.iter().enumerate() {
        if classes[number] == UNCLAIMED && profile.counts[number] > 0 {
            let leaf = profile.symbols_of(stack).next_back();
            let leaf = leaf.map_or_else(|| "[no stack]".to_owned(), folded::frame);
            *leaves.entry(leaf).or_default() += profile.counts[number];
        }
    }
    let all = leaves.values().sum::<u64>().max(1) as f64;
    let share = |(symbol, count): (String, u64)| {
        let share = together * count as f64 / all;
        SymbolShare { symbol, share }
    };
    let mut found: Vec<SymbolShare> = leaves.into_iter().map(share).collect();
    found.sort_by(|a, b| b.share.total_cmp(&a.share));
    found.truncate(UNCLAIMED_MAX);
    found
}

/// From which system calls the samples of a class came, most first, as shares of them.
pub(crate) fn by_call(profile: &Profile, classes: &[&str], class: &str) -> Vec<SymbolShare> {
    let mut calls = std::collections::BTreeMap::<Cow<'_, str>, u64>::new();
    let of_class = |number: &usize| classes[*number] == class && profile.counts[*number] > 0;
    for number in (0..profile.stacks.len()).filter(of_class) {
        let symbols = profile.symbols_of(&profile.stacks[number]);
        *calls.entry(call_from(symbols)).or_default() += profile.counts[number];
    }
    let all = calls.values().sum::<u64>().max(1) as f64;
    let share = |(call, count): (Cow<'_, str>, u64)| SymbolShare {
        symbol: call.into_owned(),
        share: count as f64 / all,
    };
    let mut found: Vec<SymbolShare> = calls.into_iter().map(share).collect();
    found.sort_by(|a, b| b.share.total_cmp(&a.share));
    found
}

/// The system call that a stack, root first, is in. Compilers jump from a call's first function to the
/// one that does it, so that only what comes behind the entry is seen of it: `ksys_write`, or a
/// function with a name of its own, which is told in brackets.
fn call_from<'a>(symbols: impl Iterator<Item = &'a Symbol>) -> Cow<'a, str> {
    const ENTRIES: [&str; 4] =
        ["do_syscall_64", "x64_sys_call", "invoke_syscall", "el0_svc_common"];
    let mut symbols = symbols.filter(|symbol| symbol.is_kernel).map(|symbol| symbol.name.as_str());
    let mut entered = false;
    let first = symbols.find(|name| {
        let is_entry = ENTRIES.iter().any(|entry| name.starts_with(entry));
        entered |= is_entry;
        call_of(name).is_some() || (entered && !is_entry)
    });
    match first.map(|name| (name, call_of(name))) {
        Some((_, Some(call))) => call.into(),
        // On the way back, and in a call whose own functions are gone from the stack.
        Some((name, None)) if name.contains("exit_to_user") || name.contains("exit_work") => {
            RETURNING.into()
        }
        Some((name, None)) => format!("[{name}]").into(),
        None => NO_CALL.into(),
    }
}

/// Where a lookup came from no call: a fault, an interrupt, a thread of the kernel's.
const NO_CALL: &str = "[no call]";
/// Where it was done on the way back to the program, whatever the call.
const RETURNING: &str = "[returning]";

/// The system call that a function of the kernel's begins.
fn call_of(symbol: &str) -> Option<&str> {
    ["__x64_sys_", "__arm64_sys_", "__ia32_sys_", "__se_sys_", "__do_sys_", "__sys_", "ksys_"]
        .iter()
        .find_map(|prefix| symbol.strip_prefix(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::{Classes, DESCRIPTORS};
    use crate::profile::{Part, Stack, Thread};

    fn symbol(name: &str) -> Symbol {
        Symbol { name: name.to_owned(), is_kernel: true, file: None }
    }

    #[test]
    fn descriptor_lookups_are_told_by_the_call_that_made_them() {
        assert!(Classes::built_in().named(DESCRIPTORS).is_some());
        let symbols = ["__x64_sys_recvfrom", "__x64_sys_sendto", "fdget"].map(symbol).to_vec();
        let mut profile = Profile { symbols, ..Profile::default() };
        let thread = Thread { pid: 1, tid: 1, name: "service".to_owned(), part: Part::Work };
        profile.threads.push(thread);
        profile.stacks = [[0, 2], [1, 2]].map(|at| Stack { thread: 0, frames: at.to_vec() }).into();
        profile.counts = vec![3, 1];
        let calls = by_call(&profile, &[DESCRIPTORS; 2], DESCRIPTORS);
        let told: Vec<_> = calls.iter().map(|call| (call.symbol.as_str(), call.share)).collect();
        assert_eq!(told, [("recvfrom", 0.75), ("sendto", 0.25)]);
    }

    #[test]
    fn a_call_is_known_also_where_compilers_jumped_out_of_its_first_function() {
        let from = |names: &[&str]| {
            let symbols: Vec<Symbol> = names.iter().map(|name| symbol(name)).collect();
            call_from(symbols.iter()).into_owned()
        };
        let entry = ["entry_SYSCALL_64_after_hwframe", "do_syscall_64"];
        assert_eq!(from(&[&entry[..], &["ksys_write", "fdget_pos"]].concat()), "write");
        assert_eq!(
            from(&[&entry[..], &["x64_sys_call", "do_epoll_ctl"]].concat()),
            "[do_epoll_ctl]"
        );
        assert_eq!(
            from(&[&entry[..], &["exit_to_user_mode_loop", "____fput"]].concat()),
            RETURNING
        );
        assert_eq!(from(&["asm_exc_page_fault", "fput"]), NO_CALL);
    }
}
