//! The help names what there is.

use bytepath::Wait;
use bytepath::inlets::INLETS;
use bytepath::outlets::{Fresh, OUTLETS};
use bytepath_lab::experiments::memory::{QUICK_SIZES, SIZES};
use bytepath_lab::peers::PEERS;

use crate::program::{bytepath, run};

fn help(words: &[&str]) -> String {
    let said = run(&mut bytepath(&[words, &["--help"]].concat())).well().stdout;
    // Wrapped lines are one sentence.
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_help_names_every_outlet_inlet_wait_and_peer() {
    let (write, read, pipes) = (help(&["write"]), help(&["read"]), help(&["bench", "pipes"]));
    for outlet in OUTLETS {
        let wanted = format!("- {}: {}", outlet.name(), outlet.summary());
        assert!(write.contains(&wanted), "{wanted}");
    }
    for inlet in INLETS {
        let wanted = format!("- {}: {}", inlet.name(), inlet.summary());
        assert!(read.contains(&wanted), "{wanted}");
    }
    assert!(write.contains(&Fresh::NAMES.join(", ")));
    for help in [&write, &read, &pipes] {
        assert!(help.contains(&Wait::NAMES.join(", ")));
    }
    let peers: Vec<_> = PEERS.iter().map(|peer| peer.name).collect();
    assert!(pipes.contains(&peers.join(", ")));
}

/// Of each experiment: how many blocks there are unless that is said, and how long a sample takes.
const UNLESS_GIVEN: &[(&str, &str, Option<&str>)] = &[
    ("pipes", "10", Some("300ms unless given, 150ms with --quick")),
    ("overhead", "400", Some("50ms unless given, 30ms with --quick")),
    ("movers", "10", None),
    ("calls", "10", Some("40ms unless given, 30ms with --quick")),
    ("copy", "as --within says", None),
    ("fget", "10", Some("100ms unless given")),
    ("files", "10", Some("300ms unless given")),
    ("gen", "10", Some("100ms unless given, 40ms with --quick")),
    ("ipc", "10", Some("with --latency 100ms unless given")),
    ("run", "10", None),
    ("memory", "10", Some("30ms unless given, 20ms with --quick")),
    ("pages", "10", Some("40ms unless given")),
    ("swap", "5", Some("with --work redis or mariadb 5s unless given, 1s with --quick")),
    ("keepalive", "10", Some("500ms unless given")),
    ("cmd", "10", None),
];

#[test]
fn the_help_of_an_experiment_tells_what_is_measured_unless_told_otherwise() {
    let listed = run(&mut bytepath(&["bench", "--list"])).well().stdout;
    let listed: Vec<_> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(listed, UNLESS_GIVEN.iter().map(|(name, ..)| *name).collect::<Vec<_>>());
    for (name, blocks, time) in UNLESS_GIVEN {
        let help = help(&["bench", name]);
        let blocks = format!("arm runs once; {blocks} unless given, 3 with --quick");
        assert!(help.contains(&blocks), "{name}: {help}");
        match time {
            Some(time) => assert!(help.contains(&format!("Time per sample; {time}")), "{help}"),
            // It would have no effect.
            None => {
                assert!(!help.contains("--time <") && !help.contains("--warm-up <"), "{name}");
                let words = ["bench", name, "x", "--time", "1s"];
                run(&mut bytepath(&words)).refused(2, &["unexpected argument"]);
            }
        }
    }
    assert!(help(&["bench", "copy"]).contains("once there are 3; 150s unless"));
    let memory = help(&["bench", "memory"]);
    let size = |bytes: &usize| {
        format!("{}{}", bytes >> [10, 20, 30][unit(*bytes)], ["K", "M", "G"][unit(*bytes)])
    };
    let listed = |sizes: &[usize]| sizes.iter().map(size).collect::<Vec<_>>();
    let [all, quick] = [SIZES, QUICK_SIZES].map(listed);
    let last = all.last().expect("a size");
    assert_eq!(quick, all[..all.len() - 1]);
    let told = format!("{} and {last} unless given, without {last} with --quick", quick.join(", "));
    assert!(memory.contains(&told), "{told}: {memory}");
}

/// K, M or G.
fn unit(bytes: usize) -> usize {
    bytes.ilog2() as usize / 10 - 1
}

#[test]
fn tips_name_commands_for_people_alone() {
    let done =
        run(&mut bytepath(&["nonesuch"])).refused(2, &["unrecognized subcommand 'nonesuch'"]);
    assert!(!done.stderr.contains("tip"), "{done:?}");
    run(&mut bytepath(&["touhc"])).refused(2, &["similar subcommand exists: 'tour'"]);
    run(&mut bytepath(&["bench", "pipe"])).refused(2, &["tip", "'pipes'"]);
}

#[test]
fn processes_of_an_arm_are_no_commands_for_people() {
    let listed = run(&mut bytepath(&["--help"])).well().stdout;
    let first_words: Vec<_> =
        listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(first_words.contains(&"bench"), "{listed}");
    for process in [
        "call",
        "carry",
        "clock",
        "confine",
        "descriptor",
        "drive",
        "fetch",
        "hand",
        "keepalive",
        "load",
        "paging",
        "pass",
        "piece",
        "serve",
        "stream",
        "sweep",
        "touch",
        "trip",
        "upstream",
    ] {
        assert!(!first_words.contains(&process), "{process}");
    }
    assert!(!help(&["write"]).contains("--starter"));
}

#[test]
fn every_option_of_the_published_pair_is_taken_by_both_ends_in_both_spellings() {
    let options = [
        "verbose",
        "busy_loop",
        "poll",
        "huge_page",
        "check_huge_page",
        "buf_size",
        "write_with_vmsplice",
        "read_with_splice",
        "gift",
        "bytes_to_pipe",
        "pipe_size",
        "lock_memory",
        "dont_touch_pages",
        "same_buffer",
        "csv",
    ];
    for end in ["write", "read"] {
        let help = help(&[end]);
        for option in options {
            assert!(help.contains(&format!("--{} ", option.replace('_', "-"))), "{end} {option}");
        }
    }
}

#[test]
fn help_before_a_command_is_its_help() {
    for words in [&["cp"][..], &["doctor"], &["gen", "yes"], &["fleet", "cp"], &[]] {
        let asked = run(&mut bytepath(&[&["help"], words].concat())).well().stdout;
        let told = run(&mut bytepath(&[words, &["--help"]].concat())).well().stdout;
        assert!(asked == told && told.contains("Usage: "), "{words:?}: {asked}");
    }
    run(&mut bytepath(&["help", "nosuch"])).refused(2, &["nosuch"]);
}
