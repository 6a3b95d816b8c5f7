//! `bytepath bench movers`: programs side by side between the same two ends.

use serde_json::Value;

use crate::program::{bytepath, run, shell};

/// Blocks and bytes that take no time.
const SHORT: [&str; 6] = ["--blocks", "2", "--bytes", "300K", "--json", "-"];

fn record(words: &[&str]) -> Value {
    let words = [&["bench", "movers"][..], words, &SHORT].concat();
    run(&mut bytepath(&words)).well().json()
}

/// Each arm's name, whether it ran, and why not.
fn arms(record: &Value) -> Vec<(String, bool, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let arms = record["arms"].as_array().expect("arms");
    arms.iter().map(|arm| (text(&arm["name"]), arm["status"] == "ok", text(&arm["why"]))).collect()
}

#[test]
fn every_mover_runs_between_every_pair_of_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().to_str().expect("a name in UTF-8");
    for source in ["file", "pipe", "socket"] {
        for sink in ["file", "pipe", "socket", "null"] {
            let pair = format!("{source}:{sink}");
            let record =
                record(&["--pair", &pair, "--dir", folder, "--peer", "cat", "--with", "dd bs=64k"]);
            for (name, ran, why) in arms(&record) {
                assert!(ran, "{name} from {source} to {sink}: {why}");
            }
        }
    }
    assert_eq!(std::fs::read_dir(folder).expect("it lists").count(), 0, "nothing is left");
}

#[test]
fn a_program_may_write_a_file_beside_its_sink() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = folder.path().to_str().expect("a name in UTF-8");
    let line = format!("{} tee {{file}}", crate::program::BYTEPATH);
    let all =
        arms(&record(&["--dir", name, "--peer", "tee", "--with", &line, "--with", "tee {file}"]));
    for (arm, ran, why) in &all {
        assert!(ran, "{arm}: {why}");
    }
    assert_eq!(all.iter().filter(|(arm, _, _)| arm.ends_with("{file}")).count(), 2, "{all:?}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("it lists").count(), 0, "nothing is left");
}

#[test]
fn a_program_that_fails_or_loses_bytes_gives_no_figure() {
    let with = ["--with", "false", "--with", "head -c 1000", "--with", "/no/such/program"];
    let arms = arms(&record(&[&["--peer", "cat"][..], &with].concat()));
    let why = |name: &str| {
        let arm = arms.iter().find(|(arm, _, _)| arm == name).expect("the arm is there");
        assert!(!arm.1, "{arm:?}");
        arm.2.clone()
    };
    assert!(why("false").contains("failed"), "{arms:?}");
    assert!(why("head -c 1000").contains("only 1000 of 307200 bytes"), "{arms:?}");
    let file = record(&["--pair", "pipe:file", "--peer", "cat", "--with", "head -c 1000"]);
    let short = self::arms(&file).into_iter().find(|(arm, _, _)| arm.starts_with("head"));
    assert!(short.is_some_and(|(_, ran, why)| !ran && why.contains("only 1000 of")), "{file}");
    let nothing = self::arms(&record(&["--peer", "cat", "--with", "true"]));
    let nothing = nothing.into_iter().find(|(arm, _, _)| arm == "true");
    assert!(nothing.is_some_and(|(_, ran, why)| !ran && why.contains("moved nothing")), "{file}");
    assert!(why("/no/such/program").contains("cannot start"), "{arms:?}");
}

#[test]
fn a_program_that_leaves_bytes_in_the_source_gives_no_figure() {
    for source in ["file", "pipe", "socket"] {
        let pair = format!("{source}:null");
        let with = ["--with", "true", "--with", "head -c 1", "--with", "sh -c cat", "--peer", "dd"];
        for (name, ran, why) in arms(&record(&[&["--pair", &pair][..], &with].concat())) {
            let leaves = ["true", "head -c 1"].contains(&name.as_str());
            assert_eq!(ran, !leaves, "{name} from {source}: {why}");
            assert!(
                !leaves || why.contains("in its input") || why.contains("its input at byte"),
                "{name}: {why}"
            );
        }
    }
}

#[test]
fn an_arm_that_fails_after_it_could_run_is_told_by_the_exit_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = folder.path().join("runs");
    std::fs::write(
        folder.path().join("flaky"),
        "echo >>\"$1\"; [ $(wc -l <\"$1\") -lt 4 ] && cat\n",
    )
    .expect("a script");
    let line = format!("sh {}/flaky {}", folder.path().display(), runs.display());
    let words = ["bench", "movers", "--pair", "file:null", "--peer", "cat", "--with", &line];
    let words = [&words[..], &["--blocks", "5", "--bytes", "300K", "--json", "-"]].concat();
    let mut command = bytepath(&words);
    let done = run(command.current_dir(folder.path()));
    let done = done.refused(1, &["arms failed", "it failed in block"]);
    assert!(arms(&done.json()).iter().any(|(name, ran, _)| name == "cat" && *ran), "{done:?}");
}

#[test]
fn ends_that_are_none_are_refused() {
    let refused = |pair: &str, word: &str| {
        run(&mut bytepath(&["bench", "movers", "--pair", pair])).refused(2, &[word]);
    };
    refused("pipe", "no pair of ends");
    refused("pipe:ship", "there is no end");
    refused("null:pipe", "only be the sink");
    run(&mut bytepath(&["bench", "movers", "--pair", "file:socket", "--inlet", "splice-null"]))
        .refused(2, &["empties pipes, and the sink is a socket"]);
    // Before any file is made, which none can be there.
    let with = ["bench", "movers", "--dir", "/proc", "--peer", "cat", "--with"];
    let with = |line: &str| run(&mut bytepath(&[&with[..], &[line]].concat()));
    with("cat").refused(2, &["cat would run twice"]);
    with(" ").refused(2, &["--with needs"]);
    with(&"x".repeat(20_001)).refused(2, &["20001 characters", "command into a script"]);
    with("sh").refused(1, &["cannot make files"]);
    run(&mut bytepath(&["bench", "movers", "--dir", "/no/such"])).refused(1, &["/no/such"]);
}

#[test]
fn what_is_there_stays_where_a_movement_does_not_begin() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path().display();
    let line =
        format!("cd {here} && echo old >j && $bytepath carry --json j --route none </dev/null");
    shell(&line).refused(1, &["there is no route none"]);
    assert_eq!(std::fs::read_to_string(folder.path().join("j")).expect("read"), "old\n");
    let line = format!("cd {here} && echo some | $bytepath carry --json missing/j");
    assert_eq!(shell(&line).refused(1, &["cannot write missing/j"]).stdout, "", "nothing is moved");
}
