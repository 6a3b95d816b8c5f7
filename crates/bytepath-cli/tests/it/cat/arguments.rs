//! Options as getopt_long takes them, and names as messages show them.

use super::{few, gnu};

#[test]
fn options_are_taken_and_refused_as_by_the_classic() {
    let Some(cat) = gnu() else { return };
    let lines = [
        "cat -x",
        "cat -nx a",
        "cat -h",
        "cat -é a",
        "cat --é",
        "cat --foo=3 a",
        "cat --n a",
        "cat --=3",
        "cat --show",
        "cat --show=3",
        "cat --show-ends=3 a",
        "cat --number= a",
        "cat --help=3",
        "cat --bad --help",
        "cat --num a; cat --number a; cat --number- a; cat --squ a; cat --show-e a; cat --show-a a",
        "cat a -n",
        "cat a -n -- -n --number a",
        "cat a - -n -E -- - <b",
        "cat -nnEE a",
        "cat -u a; cat -ube a",
        "cat -",
        "cat --",
        "cat -- - </dev/null",
        "POSIXLY_CORRECT=1 cat a -n",
        "POSIXLY_CORRECT=1 cat -n a -- b",
        "cat '' a",
    ];
    for line in lines {
        cat.both(&format!("{line}; echo $?"), few).same();
    }
}

#[test]
fn a_program_called_by_a_path_says_that_path() {
    let Some(cat) = gnu() else { return };
    cat.both("../bin/cat nowhere; ../bin/cat --bad", few).same();
}

#[test]
fn names_in_messages_are_quoted_as_by_the_classic() {
    let Some(cat) = gnu() else { return };
    let mut random = fastrand::Rng::with_seed(11);
    let plain = ["a", "z", "0", "\"", "$", "`", "!", "*", "?", "[", "]", "{", "}", "~", "#", " "];
    let others = ["\\", "=", "^", "&", "|", ";", "<", ">", "(", ")", ":", "%", "@", ",", "-", "é"];
    let escaped = ["\n", "\t", "\u{1}", "\u{7f}", "\u{1b}", "\r", "😀"];
    // GNU at times puts an empty '' in front of a name with both a quote and an escape, which means
    // the same and is not worth following.
    let (with_quote, with_escapes) =
        ([&plain[..], &others, &["'", "'"]].concat(), [&plain[..], &others, &escaped].concat());
    let ascii = "export LC_ALL=C; ";
    let cases = [("", &with_quote), ("", &with_escapes), (ascii, &with_escapes)];
    for (locale, characters) in cases.into_iter().cycle().take(12) {
        let mut line = String::from("cat --");
        for _ in 0..60 {
            let length = random.usize(1..5);
            let name: String =
                (0..length).map(|_| *random.choice(characters).expect("some")).collect();
            line += &format!(" '{}'", name.replace('\'', "'\\''"));
        }
        cat.both(&format!("{locale}{line}"), few).same();
    }
}

#[test]
fn the_help_and_the_version_are_printed_or_their_failure_told() {
    let Some(cat) = gnu() else { return };
    for line in ["cat --help", "cat --version", "cat nowhere -n --vers", "cat -n --he --bad"] {
        let both = cat.both(line, few);
        both.same_words();
        assert!(both.ours.stdout.len() > 10, "{line}");
    }
    for line in ["cat --help >/dev/full", "cat --version >/dev/full", "cat --help >&-"] {
        cat.both(line, few).same();
    }
}
