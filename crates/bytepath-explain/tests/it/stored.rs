//! The classes against stored stacks of several kernels.
//!
//! Each file holds folded stacks, root first, a line each, under the class that they have to come
//! to. Those of 5.10 to 6.12 are from profiles that the kernel test robot published on the kernel's
//! mailing list; those of 6.18 were sampled by this crate.

use bytepath_explain::classes::{Classes, UNCLAIMED};
use bytepath_explain::profile::Profile;

const STORED: [(&str, &str); 5] = [
    ("5.10", include_str!("stacks/linux-5.10.folded")),
    ("5.17", include_str!("stacks/linux-5.17.folded")),
    ("6.1", include_str!("stacks/linux-6.1.folded")),
    ("6.12", include_str!("stacks/linux-6.12.folded")),
    ("6.18", include_str!("stacks/linux-6.18.folded")),
];

/// Each stack with the class whose heading it stands under.
fn stacks(text: &str) -> Vec<(&str, &str)> {
    let mut class = "";
    let mut stacks = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix("== ") {
            Some(heading) => class = heading,
            None => stacks.push((class, line)),
        }
    }
    stacks
}

fn class_of(stack: &str) -> String {
    let profile = Profile::from_folded([(stack, 1)]);
    Classes::built_in().of_all(&profile)[0].to_owned()
}

#[test]
fn every_stored_stack_has_the_class_that_it_should() {
    let mut wrong = Vec::new();
    for (kernel, text) in STORED {
        let stacks = stacks(text);
        assert!(stacks.len() >= 10, "{kernel}: {} stacks", stacks.len());
        for (class, stack) in stacks {
            let found = class_of(stack);
            if found != class {
                wrong.push(format!("{kernel}: {stack}\n  is {found:?}, not {class:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_class_of_costs_in_the_kernel_is_seen_in_some_stored_stack() {
    let seen: Vec<&str> =
        STORED.iter().flat_map(|(_, text)| stacks(text)).map(|(class, _)| class).collect();
    for class in Classes::built_in().all() {
        assert!(seen.contains(&class.name.as_str()), "no stored stack of {}", class.name);
    }
}

#[test]
fn what_nobody_knows_is_unclaimed() {
    assert_eq!(class_of("a;main;frobnicate_[k];do_the_frob_[k]"), UNCLAIMED);
    assert_eq!(class_of("a;main;deflate_slow;unheard_of_[k]"), UNCLAIMED);
    assert_eq!(class_of("a;main;whatever"), "user code");
}

#[test]
fn where_a_stack_begins_does_not_say_what_it_does() {
    assert_eq!(class_of("a;_start;__libc_start_main;main;calc"), "user code");
    assert_eq!(class_of("a;_start;_dl_start;_dl_relocate_object"), "process start and end");
}

#[test]
fn red_black_trees_are_of_those_that_keep_them_and_ring_buffers_of_the_sampler() {
    for name in ["rb_erase", "rb_insert_color", "rb_first", "rb_last", "rb_next", "rb_prev"] {
        let stack = format!("a;main;schedule_[k];dequeue_entity_[k];{name}_[k]");
        assert_eq!(class_of(&stack), "waking and scheduling", "{stack}");
        assert_eq!(class_of(&format!("a;main;unheard_of_[k];{name}_[k]")), UNCLAIMED);
    }
    for name in ["rb_commit", "rb_advance_reader", "rb_reserve_next_event", "rb_add_timestamp"] {
        assert_eq!(class_of(&format!("a;main;{name}_[k]")), "the sampler itself", "{name}");
    }
}

#[test]
fn what_compilers_append_to_names_does_not_matter() {
    for suffix in ["", ".isra.0", ".constprop.0", ".part.0.cold", ".llvm.1234"] {
        let stack = format!("a;main;write_[k];try_to_wake_up{suffix}_[k]");
        assert_eq!(class_of(&stack), "waking and scheduling", "{stack}");
    }
}

#[test]
fn a_class_that_is_written_wrongly_is_refused_with_what_is_wrong() {
    let refused = Classes::parse(r#"{"class": [{"name": "x", "without": []}]}"#);
    let refused = refused.err().expect("there is no such field");
    assert!(refused.contains("without"), "{refused}");
    let pair = r#"{"class": [{"name": "x", "about": "", "try": "", "pairs": ["alone"]}]}"#;
    let refused = Classes::parse(pair).err().expect("a pair has two");
    assert!(refused.contains("caller;leaf"), "{refused}");
}

#[test]
fn patterns_are_written_once_and_every_class_has_words() {
    for class in Classes::built_in().all() {
        assert!(!class.about.is_empty() && !class.advice.is_empty(), "{}", class.name);
        assert!(!class.advice.ends_with('.'), "{}: a clause, not a sentence", class.name);
    }
}
