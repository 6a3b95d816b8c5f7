//! `--metrics`: the page of every command, while it runs, at its end, and where it cannot be written.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::program::{Bounded, bytepath, catches, installed, root, run, shell, signal_of, spawned};
use crate::terminal::drawing;

/// Nothing that a test waits for takes longer.
const HANGS_AFTER: Duration = Duration::from_secs(60);

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// The value of the one sample that has this name and holds these words in its labels.
fn sample(page: &str, name: &str, labels: &str) -> Option<f64> {
    let head = format!("bytepath_{name}{{");
    let mut lines = page.lines().filter(|line| line.starts_with(&head) && line.contains(labels));
    let value = lines.next()?.rsplit(' ').next()?.parse().ok();
    assert!(lines.next().is_none(), "more than one {name} {labels}: {page}");
    value
}

/// The sum over all routes.
fn moved(page: &str) -> f64 {
    let lines = page.lines().filter(|line| line.starts_with("bytepath_moved_bytes_total{"));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Reads it until it is as it should be.
#[track_caller]
fn until(path: &Path, what: impl Fn(&str) -> bool) -> String {
    let end = Instant::now() + HANGS_AFTER;
    loop {
        let page = std::fs::read_to_string(path).unwrap_or_default();
        if what(&page) {
            return page;
        }
        assert!(Instant::now() < end, "{path:?} stays {page:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The families that docs/seeing.md says this command tells of.
fn documented(command: &str) -> BTreeSet<&'static str> {
    let page = include_str!("../../../../docs/seeing.md");
    let rows = page.lines().filter(|line| line.starts_with("| `bytepath_"));
    let tells = |who: &str| {
        // Those that tell are named with the option that it takes.
        let named = who.split('`').skip(1).step_by(2).map(|name| name.split(" -").next());
        who.starts_with("all") || named.flatten().any(|name| name == command)
    };
    rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>())
        .filter(|cells| tells(cells[5]))
        .map(|cells| cells[1].trim_matches('`'))
        .collect()
}

/// The command whose page it is, and the families that are there.
fn families(page: &str) -> (&str, BTreeSet<&str>) {
    let command = page.split("command=\"").nth(1).and_then(|rest| rest.split('"').next());
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    (command.expect("a label"), types.filter_map(|line| line.split(' ').next()).collect())
}

/// Every series once, every family with help and type and as documented, and what promtool says.
#[track_caller]
fn well_formed(page: &str) {
    let series = page.lines().filter(|line| !line.starts_with('#'));
    let mut series: Vec<_> = series.filter_map(|line| line.rsplit_once(' ')).collect();
    for (name, value) in &series {
        value.parse::<f64>().unwrap_or_else(|error| panic!("{error}: {value:?} in {page}"));
        let family = name.split('{').next().expect("it has a name");
        assert!(page.contains(&format!("# TYPE {family} ")), "{family}: {page}");
        assert!(page.contains(&format!("# HELP {family} ")), "{family}: {page}");
    }
    let all = series.len();
    series.dedup_by_key(|(name, _)| *name);
    series.sort_unstable();
    series.dedup_by_key(|(name, _)| *name);
    assert!(all > 0 && series.len() == all, "a series is there twice: {page}");
    let (command, families) = families(page);
    let undocumented: Vec<_> = families.difference(&documented(command)).copied().collect();
    assert!(undocumented.is_empty(), "docs/seeing.md: {command} tells {undocumented:?}: {page}");
    if !installed("promtool") {
        return;
    }
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped());
    let mut promtool =
        promtool.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    promtool.stdin.take().expect("piped").write_all(page.as_bytes()).expect("it reads");
    let said = promtool.wait_with_output().expect("it ends");
    let words = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.success() && words.is_empty(), "{words}: {page}");
}

const BYTES: u64 = 3 << 20;

#[test]
fn every_mover_tells_its_last_state() {
    let folder = folder();
    let path = folder.path();
    std::fs::create_dir(path.join("tree")).expect("a folder");
    std::fs::write(path.join("tree/large"), vec![b'x'; BYTES as usize - 5]).expect("a file");
    std::fs::write(path.join("tree/small"), b"12345").expect("a file");
    let lines = [
        ("gen", "$bytepath gen zeros --bytes 3M --metrics m.prom >/dev/null"),
        ("gen", "$bytepath gen fizzbuzz --bytes 3M --metrics m.prom | cat >/dev/null"),
        ("cat", "$bytepath cat --metrics m.prom tree/large tree/small | wc -c >/dev/null"),
        ("cat", "$bytepath cat -n --metrics m.prom tree/large tree/small >/dev/null"),
        ("cp", "$bytepath cp -r --metrics m.prom tree copy"),
        ("cp", "$bytepath cp --sparse=always --metrics m.prom tree/* copy"),
        ("cp", "$bytepath cp --progress=durable --metrics m.prom tree/* copy 2>/dev/null"),
        ("pv", "$bytepath pv -q --metrics m.prom tree/large tree/small >/dev/null"),
        ("pv", "$bytepath pv -q -C --metrics m.prom tree/large tree/small >/dev/null"),
        ("pv", "$bytepath pv -q -l --metrics m.prom tree/large tree/small >/dev/null"),
        ("pv", "$bytepath pv -q --durable --metrics m.prom tree/large tree/small >copy/whole"),
        ("tee", "cat tree/* | $bytepath tee --metrics m.prom out >/dev/null"),
        ("tee", "cat tree/* | $bytepath tee --queue 1M --metrics m.prom out out2 >/dev/null"),
    ];
    let mut told = BTreeMap::<_, BTreeSet<String>>::new();
    for (command, line) in lines {
        shell(&format!("cd '{}' && {line}", path.display())).well();
        let page = std::fs::read_to_string(path.join("m.prom")).expect("it was written");
        well_formed(&page);
        told.entry(command).or_default().extend(families(&page).1.into_iter().map(str::to_owned));
        assert_eq!(moved(&page), BYTES as f64, "{line}: {page}");
        let labels = format!("job=\"m\",command=\"{command}\"");
        assert_eq!(sample(&page, "job_running", &labels), Some(0.0), "{line}: {page}");
        assert_eq!(sample(&page, "job_exit_code", &labels), Some(0.0), "{line}: {page}");
        // Who moves what the meter does not see tells no number of calls, rather than a wrong one.
        let calls = sample(&page, "calls_total", &labels);
        assert_ne!(calls, Some(0.0), "{line}: {page}");
        if command == "tee" || line.contains("cat -n") {
            assert_eq!(calls, None, "{line}: {page}");
        }
        std::fs::remove_file(path.join("m.prom")).expect("it is there");
    }
    for (command, told) in told {
        let documented = documented(command).into_iter();
        let untold: Vec<_> = documented.filter(|family| !told.contains(*family)).collect();
        assert!(untold.is_empty(), "docs/seeing.md: {command} never tells {untold:?}");
    }
    // Nothing is left beside what was asked for.
    let names = std::fs::read_dir(path).expect("a folder").flatten();
    let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
}

#[test]
fn a_pipeline_tells_of_its_programs_and_pipes() {
    let folder = folder();
    let line = format!(
        "cd '{}' && $bytepath run --no-summary --metrics m.prom -- \
         $bytepath gen zeros --bytes 50M ::: cat ::: wc -c",
        folder.path().display()
    );
    assert_eq!(shell(&line).well().stdout, "52428800\n");
    let page = std::fs::read_to_string(folder.path().join("m.prom")).expect("it was written");
    well_formed(&page);
    let first = sample(&page, "pipe_moved_bytes_total", "from=\"1\",to=\"2\"");
    // What no program tells of, the kernel does not either; it is left out then.
    if let Some(bytes) = first {
        assert!((1.0..=60e6).contains(&bytes), "{page}");
    }
    assert!(sample(&page, "stage_cpu_seconds_total", "program=\"cat\"").is_some(), "{page}");
    assert_eq!(sample(&page, "job_exit_code", "command=\"run\""), Some(0.0), "{page}");
}

/// The last page of a run with these words, of which `wc` counts a file of 3,000,000 bytes.
#[track_caller]
fn page_of_run(words: &str) -> String {
    let folder = folder();
    std::fs::write(folder.path().join("file"), vec![b'x'; 3_000_000]).expect("written");
    let line = format!(
        "cd '{}' && $bytepath run --no-summary --metrics m.prom {words}",
        folder.path().display()
    );
    assert_eq!(shell(&line).well().stdout, "3000000\n");
    let page = std::fs::read_to_string(folder.path().join("m.prom")).expect("it was written");
    well_formed(&page);
    page
}

#[test]
fn a_pipeline_that_nobody_came_to_look_at_tells_what_it_moved_all_the_same() {
    let page = page_of_run("'cat file | cat | wc -c'");
    for (from, to) in [(1, 2), (2, 3)] {
        let of = |name, stage| sample(&page, name, &format!("stage=\"{stage}\""));
        assert_eq!(of("stage_written_bytes_total", from), Some(3e6), "{page}");
        assert!(of("stage_read_bytes_total", to).is_some_and(|read| read >= 3e6), "{page}");
        // Nor is it known who had a pipe that nobody saw.
        let ends = &format!("from=\"{from}\",to=\"{to}\"");
        let moved = sample(&page, "pipe_moved_bytes_total", ends);
        assert!(moved.is_none_or(|moved| moved >= 3e6), "{page}");
        assert!(sample(&page, "pipe_capacity_bytes", ends) != Some(0.0), "{page}");
    }
    let spent = sample(&page, "stage_cpu_seconds_total", "stage=\"1\"");
    assert!(spent.is_some_and(|spent| spent > 0.0), "{page}");
}

/// The total stays; what is left as it is has a metric of its own.
#[test]
fn what_is_skipped_leaves_the_total_as_it_is() {
    let folder = folder();
    let line = format!(
        "cd '{}' && head -c 3M /dev/zero >a && head -c 1M /dev/zero >b && mkdir t && cp -p a t && \
         $bytepath cp -u --metrics m.prom a b t && cat m.prom",
        folder.path().display()
    );
    let page = shell(&line).well().stdout;
    well_formed(&page);
    let told = |name| sample(&page, name, "");
    // Whether the thread that counts was done in time or not.
    assert_eq!(told("expected_bytes"), Some(4194304.0), "{page}");
    assert_eq!(told("skipped_bytes"), Some(3145728.0), "{page}");
}

/// A shell's own count holds all that its children moved.
#[test]
fn what_a_shell_started_is_counted_once_and_by_the_numbers_that_json_has() {
    let folder = folder();
    let line = format!(
        "cd '{}' && head -c 30M /dev/zero >file && $bytepath run --no-summary --json j --metrics m.prom \
         '{{ tr a b <file; }} | md5sum' >said && cat j m.prom",
        folder.path().display()
    );
    let said = shell(&line).well().stdout;
    let (told, page) = said.split_at(said.find("\n# ").expect("both") + 1);
    well_formed(page);
    let told: serde_json::Value = serde_json::from_str(told).expect("JSON");
    let stages = told["stages"].as_array().expect("a list");
    for name in ["cpu_seconds", "read_bytes", "written_bytes"] {
        let name = format!("bytepath_stage_{name}_total{{");
        let lines: Vec<_> = page.lines().filter(|line| line.starts_with(&name)).collect();
        assert!(!lines.is_empty(), "{name}: {page}");
        let sum: f64 =
            lines.iter().filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum();
        assert!(sum < 70e6, "{page}");
        assert!(lines.len() <= stages.len(), "{page}");
    }
    for (stage, number) in stages.iter().zip(1..) {
        let program = stage["command"]
            .as_str()
            .and_then(|it| it.split(' ').next()?.rsplit('/').next())
            .expect("it has a name");
        let labels = format!("stage=\"{number}\",program=\"{program}\"");
        assert!(sample(page, "stage_cpu_seconds_total", &labels).is_some(), "{labels}: {page}");
    }
}

/// Each has what it started counted in, whether that has ended or not.
#[test]
fn stages_of_a_pipeline_that_was_taken_apart_are_told_as_they_were_written() {
    let page = page_of_run("-- sh -c 'cat file; true' ::: sh -c 'wc -c; true'");
    let lines = page.lines().filter(|line| line.starts_with("bytepath_stage_cpu_seconds_total{"));
    assert_eq!(lines.count(), 2, "{page}");
    let read = sample(&page, "stage_read_bytes_total", "stage=\"1\",program=\"sh\"");
    assert!(read.is_some_and(|bytes| bytes >= 3e6), "{page}");
}

/// Its grandchildren have pipes that nobody saw the end of; it has counted them.
#[test]
fn what_went_from_one_shell_to_the_next_is_told_by_what_both_count() {
    let folder = folder();
    let line = format!(
        "cd '{}' && $bytepath run --no-summary --metrics m.prom \
         -- sh -c 'head -c 300M /dev/zero; true' ::: sh -c 'md5sum; true' >said && cat m.prom",
        folder.path().display()
    );
    let page = shell(&line).well().stdout;
    well_formed(&page);
    let moved = sample(&page, "pipe_moved_bytes_total", "from=\"1\",to=\"2\"");
    assert_eq!(moved, Some(314_572_800.0), "{page}");
}

/// What each has counted is then of several pipes.
#[test]
fn what_shells_move_through_pipes_of_their_own_is_told_of_no_pipe_between_them() {
    let folder = folder();
    let line = format!(
        "cd '{}' && $bytepath run --no-summary --metrics m.prom \
         -- sh -c 'head -c 50M /dev/zero | (sleep 1; cat); true' ::: sh -c '(sleep 1; cat) | md5sum; true' \
         >said && cat m.prom",
        folder.path().display()
    );
    let page = shell(&line).well().stdout;
    well_formed(&page);
    let moved = sample(&page, "pipe_moved_bytes_total", "from=\"1\",to=\"2\"");
    assert!(moved.is_none_or(|moved| moved <= 52_428_800.0), "{page}");
}

/// The first that the shell starts works last.
#[test]
fn who_comes_to_take_part_later_is_numbered_behind_the_others() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let gate = |name: &str| {
        let made = Command::new("mkfifo").arg(at(name)).status().expect("mkfifo");
        assert!(made.success());
        File::options().read(true).write(true).open(at(name)).expect("it waits for nobody")
    };
    let [mut work, mut end] = ["work", "end"].map(gate);
    let text = "{ read go <work; exec timeout 100 dd if=/dev/zero of=/dev/null bs=64k; } & \
                { head -c 3M /dev/zero; read go <end; } | md5sum; kill $!; wait; true";
    let words = ["run", "--no-summary", "--json", "j", "--metrics", "m.prom", text];
    let mut run = bytepath(&words);
    run.current_dir(folder.path());
    let run = spawned(run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    let reader = |page: &str| {
        let line = page.lines().find(|line| line.contains("program=\"md5sum\""))?;
        let number = line.split_once("stage=\"")?.1.split_once('"')?.0;
        number.parse::<usize>().ok()
    };
    let before = until(&at("m.prom"), |page| reader(page).is_some());
    work.write_all(b"go\n").expect("it reads");
    until(&at("m.prom"), |page| page.contains("program=\"dd\""));
    end.write_all(b"go\n").expect("it reads");
    run.done().well();
    let page = std::fs::read_to_string(at("m.prom")).expect("it stays");
    assert_eq!(reader(&page), reader(&before), "{before}{page}");
    let told = std::fs::read_to_string(at("j")).expect("it was written");
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let place = reader(&page).expect("it stays") - 1;
    assert_eq!(told["stages"][place]["command"], "md5sum", "{told}");
}

#[test]
fn what_went_through_pipes_is_left_out_where_it_is_not_known() {
    // Of a program whose end nobody saw, what it had moved before is known; of our own movers nothing is.
    for words in ["'(cat file; true) | wc -c'", "--own-movers 'cat file | pv -q | wc -c'"] {
        let page = page_of_run(words);
        for name in ["moved_bytes_total", "pipe_moved_bytes_total"] {
            let told = sample(&page, name, "");
            assert!(told.is_none_or(|bytes| bytes >= 3e6), "{page}");
        }
    }
}

/// A pv that waits for its input.
fn waiting(target: &str) -> Bounded {
    let mut pv = bytepath(&["pv", "-q", "--metrics", target]);
    spawned(pv.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()))
}

#[test]
fn the_file_follows_the_job_and_is_never_seen_in_part() {
    let folder = folder();
    let file = folder.path().join("live.prom");
    let mut pv = waiting(file.to_str().expect("letters"));
    let begun = until(&file, |page| !page.is_empty());
    assert_eq!(sample(&begun, "job_running", ""), Some(1.0), "{begun}");
    let mut input = pv.child().stdin.take().expect("piped");
    for bytes in [1000.0, 2000.0] {
        input.write_all(&[b'x'; 1000]).expect("it reads");
        // Each page is whole: it ends as the others do.
        let page = until(&file, |page| moved(page) == bytes);
        well_formed(&page);
    }
    drop(input);
    assert_eq!(pv.done().well().bytes.len(), 2000);
    let page = std::fs::read_to_string(&file).expect("it stays");
    assert_eq!((sample(&page, "job_running", ""), moved(&page)), (Some(0.0), 2000.0), "{page}");
}

#[test]
fn a_job_that_a_signal_ends_tells_so() {
    let folder = folder();
    let file = folder.path().join("live.prom");
    let mut pv = waiting(file.to_str().expect("letters"));
    let mut input = pv.child().stdin.take().expect("piped");
    input.write_all(b"some").expect("it reads");
    until(&file, |page| moved(page) == 4.0);
    let pid = Pid::from_child(pv.child());
    kill_process(pid, Signal::TERM).expect("it runs");
    told_how_it_ended(pv, &file);
    drop(input);
    // A reader that leaves.
    let line =
        format!("$bytepath gen zeros --metrics '{}' | head -c 1M >/dev/null", file.display());
    shell(&line).well();
    let page = until(&file, |page| page.contains("command=\"gen\"") && page.contains("exit_code"));
    assert_eq!(sample(&page, "job_exit_code", ""), Some(141.0), "{page}");
}

/// The page says how the job ended, as a shell would.
#[track_caller]
fn told_how_it_ended(job: Bounded, file: &Path) {
    let done = job.done();
    let page = std::fs::read_to_string(file).expect("it stays");
    let code = done.status.code().or(signal_of(&done).map(|signal| 128 + signal)).map(f64::from);
    assert!(code.is_some_and(|code| code > 0.0), "{done:?} {page}");
    assert_eq!(sample(&page, "job_exit_code", ""), code, "{done:?} {page}");
    assert_eq!(sample(&page, "job_running", ""), Some(0.0), "{done:?} {page}");
}

/// Also while it waits for somebody to open a FIFO.
#[test]
fn a_signal_that_comes_once_there_is_a_page_is_told_on_it() {
    let folder = folder();
    let file = folder.path().join("live.prom");
    let made = Command::new("mkfifo").arg(folder.path().join("fifo")).status().expect("mkfifo");
    assert!(made.success());
    for words in [
        &["pv", "-q"][..],
        &["pv", "-q", "-o", "fifo"],
        &["tee", "fifo"],
        &["tee"],
        &["cat"],
        &["cat", "fifo"],
        &["cp", "fifo", "file"],
        &["gen", "zeros"],
        &["run"],
    ] {
        for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
            if words[0] == "run" && signal == Signal::INT {
                // It is for the programs, which have it from the terminal.
                continue;
            }
            let mut job = bytepath(&[words, &["--metrics", "live.prom"]].concat());
            if words[0] == "run" {
                job = bytepath(&["run", "--metrics", "live.prom", "sleep 100"]);
            }
            job.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut job = spawned(job.current_dir(folder.path()));
            let input = job.child().stdin.take();
            until(&file, |page| !page.is_empty());
            kill_process(Pid::from_child(job.child()), signal).expect("it runs");
            told_how_it_ended(job, &file);
            drop(input);
            std::fs::remove_file(&file).expect("it is there");
        }
    }
}

/// What it says is not of the run before.
#[test]
fn a_job_that_fails_early_tells_so() {
    let folder = folder();
    let path = folder.path().display();
    for (words, code) in [
        ("cp -r tree file missing --metrics m.prom", 1),
        ("cp --metrics m.prom", 1),
        ("cp --profile missing file copy --metrics m.prom", 1),
        ("pv -q file -o missing/x --metrics m.prom", 2),
        ("pv -q --profile missing file --metrics m.prom", 64),
        ("cat file --metrics m.prom >&-", 1),
        ("cat -n --route read-write file --metrics m.prom", 1),
        ("cat --profile missing file --metrics m.prom", 1),
        ("gen zeros --bytes 1 --profile missing --metrics m.prom", 1),
        ("gen zeros --bytes 1 --metrics m.prom >&-", 1),
        ("gen zeros --bytes 1 --outlet tee --buf-size 64K --metrics m.prom", 2),
        ("tee --profile missing --metrics m.prom <file", 1),
        ("run --json missing/j --metrics m.prom true", 1),
    ] {
        let done = shell(&format!(
            "cd {path} && rm -rf * && mkdir tree && echo some >file && \
             $bytepath cat file --metrics m.prom && {{ $bytepath {words}; echo $? >code; }}; \
             cat code m.prom"
        ));
        let said = done.stdout.trim_start_matches("some\n");
        let (told, page) = said.split_once('\n').expect("a code");
        assert_eq!(told.parse(), Ok(code), "{words}: {done:?}");
        assert_eq!(sample(page, "job_exit_code", ""), Some(f64::from(code)), "{words}: {page}");
        let command = words.split(' ').next().expect("a command");
        assert!(page.contains(&format!("command=\"{command}\"")), "{words}: {page}");
    }
}

#[test]
fn a_mover_without_handlers_of_its_own_tells_by_which_signal_it_ended() {
    let folder = folder();
    let target = folder.path().join("live.prom");
    let (file, socket) = (target.display().to_string(), folder.path().join("socket"));
    for words in [&["cat"][..], &["tee"], &["tee", "-i"], &["gen", "zeros"], &["pv", "-q"]] {
        let all = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];
        // Of pv this is the one that it does not answer itself.
        let (signals, last) = match words[0] {
            "pv" => (&all[3..], Signal::QUIT),
            _ => (&all[..], Signal::TERM),
        };
        for &signal in signals {
            for target in [file.clone(), format!("unix:{}", socket.display())] {
                let mut mover = bytepath(&[words, &["--metrics", &target]].concat());
                mover.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
                let mut mover = spawned(mover.current_dir(folder.path()));
                let pid = Pid::from_child(mover.child());
                let end = Instant::now() + HANGS_AFTER;
                // Its handlers are there at the latest once this one is: they are installed in order.
                while !catches(pid, last) || (!target.ends_with("prom") && !socket.exists()) {
                    assert!(Instant::now() < end, "{words:?} leaves signals to the kernel");
                    std::thread::sleep(Duration::from_millis(5));
                }
                let is_ignored = words.contains(&"-i") && signal == Signal::INT;
                assert_eq!(catches(pid, signal), !is_ignored, "{words:?} {signal:?}");
                let signal = if is_ignored { Signal::TERM } else { signal };
                // What it reads does not end meanwhile.
                let input = mover.child().stdin.take();
                kill_process(pid, signal).expect("it runs");
                assert_eq!(signal_of(&mover.done()), Some(signal.as_raw()), "{words:?}");
                drop(input);
                assert!(!socket.exists(), "{words:?} left its socket");
                if target == file {
                    let page = std::fs::read_to_string(&file).expect("it stays");
                    let code = f64::from(128 + signal.as_raw());
                    assert_eq!(sample(&page, "job_exit_code", ""), Some(code), "{page}");
                }
            }
        }
    }
}

#[test]
fn it_is_none_of_the_files_that_are_read_and_written() {
    for words in [
        "pv --metrics in in",
        "pv --metrics ./out -o out in",
        "pv --metrics new -o new in",
        "pv --metrics in <in",
        "cat --metrics in in",
        "tee --metrics out out <in",
        "tee --metrics in <in",
        "cp --metrics in in out",
        "gen zeros --bytes 1 --profile in --metrics ./in",
        "cat --profile in --metrics in out",
        "tee --profile in --metrics in <out",
        "pv --profile in --metrics in out",
        "cp --profile in --metrics in out new",
    ] {
        let folder = folder();
        let done = shell(&format!(
            "cd '{}' && echo read >in && echo written >out && $bytepath {words}; echo $?; cat in out",
            folder.path().display()
        ));
        let (code, files) = done.stdout.split_once('\n').expect("a code");
        assert!(code != "0" && files == "read\nwritten\n", "{words}: {done:?}");
        assert!(done.stderr.contains("--metrics would"), "{words}: {done:?}");
    }
}

/// Nor does another option replace them, where a profile or standard input is one.
#[test]
fn results_are_none_of_the_files_that_are_read() {
    for words in [
        "gen zeros --bytes 1 --profile in --json in",
        "cp --profile in --json in out new",
        "cp --profile in --json-files in out new",
        "pv --profile in --pidfile in out",
        "read --json in <in",
        "import --no-store - --json in <in",
        "report - --format json -o in <in",
    ] {
        let folder = folder();
        let done = shell(&format!(
            "cd '{}' && echo read >in && echo written >out && $bytepath {words} >said; echo $?; cat in",
            folder.path().display()
        ));
        let (code, file) = done.stdout.split_once('\n').expect("a code");
        assert!(code != "0" && file == "read\n", "{words}: {done:?}");
        assert!(done.stderr.contains(" would "), "{words}: {done:?}");
    }
}

#[test]
fn what_somebody_else_puts_there_meanwhile_is_left_as_it_is() {
    let folder = folder();
    let (file, other) = (folder.path().join("m.prom"), folder.path().join("other"));
    for into in [&other, &file] {
        let _ = std::fs::remove_file(&file);
        let mut pv = waiting(file.to_str().expect("letters"));
        until(&file, |page| !page.is_empty());
        std::fs::write(into, "mine\n").expect("a file");
        std::fs::rename(into, &file).expect("it is replaced");
        drop(pv.child().stdin.take());
        let done = pv.done();
        assert!(done.status.success() && done.stderr.contains("was made meanwhile"), "{done:?}");
        assert_eq!(std::fs::read_to_string(&file).expect("it stays"), "mine\n");
    }
    // Whichever is there first, the copy or the page.
    let done = shell(&format!(
        "cd '{}' && mkdir d && echo copied >h && for i in 1 2 3 4 5 6 7 8 9; do \
         rm -f d/h; if $bytepath cp h d --metrics d/h; then cat d/h; fi; done | sort -u",
        folder.path().display()
    ));
    assert!(matches!(&*done.stdout, "" | "copied\n"), "{done:?}");
}

/// Root reads everything, and so gives up the rights by which it does.
#[test]
fn a_page_that_its_owner_may_not_read_is_renewed_all_the_same() {
    if !root() || !installed("setpriv") {
        return println!("skipped: it takes root, and setpriv, to give up a right");
    }
    let rights = "-dac_override,-dac_read_search";
    for umask in ["400", "777"] {
        let folder = folder();
        let done = shell(&format!(
            "cd '{}' && (until [ -s m ]; do sleep 0.01; done; echo read) | (umask {umask}; exec setpriv \
             --bounding-set {rights} --inh-caps {rights} $bytepath cat --metrics m)",
            folder.path().display()
        ));
        assert_eq!((&*done.stdout, &*done.stderr), ("read\n", ""), "{umask}");
        let page = std::fs::read_to_string(folder.path().join("m")).expect("root reads it");
        assert_eq!((sample(&page, "job_running", ""), moved(&page)), (Some(0.0), 5.0), "{page}");
    }
}

#[test]
fn what_cannot_be_written_is_said_once_and_disturbs_nothing() {
    let folder = folder();
    let gone = folder.path().join("gone");
    std::fs::create_dir(&gone).expect("a folder");
    let file = gone.join("m.prom");
    let mut pv = waiting(file.to_str().expect("letters"));
    let mut input = pv.child().stdin.take().expect("piped");
    input.write_all(b"before").expect("it reads");
    until(&file, |page| moved(page) == 6.0);
    std::fs::remove_dir_all(&gone).expect("it is ours");
    input.write_all(b" after").expect("it reads");
    drop(input);
    let done = pv.done();
    assert!(done.status.success() && done.stdout == "before after", "{done:?}");
    assert_eq!(done.stderr.matches("--metrics: cannot write").count(), 1, "{done:?}");
    assert!(!done.stderr.contains("at path"), "{done:?}");
    // Devices, folders and links to them are left as they are.
    for target in ["/dev/null", "/dev/full", "/", "/nowhere/m.prom"] {
        let done = run(&mut bytepath(&["gen", "zeros", "--bytes", "9", "--metrics", target]));
        assert!(done.status.success() && done.bytes == [0; 9], "{done:?}");
        assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
    }
    assert!(!Path::new("/dev/null").is_file() && !Path::new("/dev/full").is_file());
    // A full disk: a file may have no bytes at all, those of the job are none.
    let line = format!(
        "cd '{}' && ulimit -f 0; $bytepath gen zeros --bytes 9 --metrics m.prom | cat",
        folder.path().display()
    );
    let done = shell(&line);
    assert!(done.status.success() && done.bytes == [0; 9], "{done:?}");
    assert_eq!(done.stderr.matches("cannot write").count(), 1, "{done:?}");
    for target in ["", "-", "unix:"] {
        run(&mut bytepath(&["gen", "zeros", "--metrics", target])).refused(2, &["--metrics"]);
    }
    run(&mut bytepath(&["pv", "-d", "1", "--metrics", "m"])).refused(64, &["--metrics"]);
}

#[test]
fn what_cannot_be_written_is_said_below_the_line_that_is_drawn() {
    for words in [["tee", "--progress"], ["pv", "-b"]] {
        let folder = folder();
        let gone = folder.path().join("gone");
        std::fs::create_dir(&gone).expect("a folder");
        let file = gone.join("m.prom");
        let (reader, mut input) = std::io::pipe().expect("a pipe");
        let metrics = ["--metrics", file.to_str().expect("letters")];
        let mut command = bytepath(&[words, metrics].concat());
        let (job, mut screen) = drawing(command.stdin(reader).stdout(Stdio::null()));
        drop(command);
        input.write_all(b"before").expect("it reads");
        until(&file, |page| moved(page) == 6.0);
        screen.shows("6");
        std::fs::remove_dir_all(&gone).expect("it is ours");
        screen.shows("goes on without");
        drop(input);
        let drawn = screen.whole();
        let alone = |line: &str| line.starts_with("bytepath: --metrics");
        assert!(drawn.split('\n').any(alone), "{drawn:?}");
        assert!(job.done().status.success());
    }
}

/// What the socket answers.
#[track_caller]
fn asked(socket: &Path, request: &str) -> String {
    let end = Instant::now() + HANGS_AFTER;
    let mut stream = loop {
        match UnixStream::connect(socket) {
            Ok(stream) => break stream,
            Err(error) => assert!(Instant::now() < end, "nobody listens: {error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn a_socket_serves_the_page_while_the_job_runs() {
    let folder = folder();
    let socket: PathBuf = folder.path().join("job");
    let target = format!("unix:{}", socket.display());
    // A killed job has left its socket.
    drop(UnixListener::bind(&socket).expect("a socket"));
    let mut pv = waiting(&target);
    let mut input = pv.child().stdin.take().expect("piped");
    input.write_all(b"twelve bytes").expect("it reads");
    let end = Instant::now() + HANGS_AFTER;
    let page = loop {
        let answer = asked(&socket, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let (head, page) = answer.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", page.len())), "{head}");
        if moved(page) == 12.0 {
            break page.to_owned();
        }
        assert!(Instant::now() < end, "{page}");
    };
    well_formed(&page);
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
        ("nonsense\r\n\r\n", "400"),
        ("HEAD /metrics HTTP/1.0\r\n\r\n", "200"),
    ] {
        let answer = asked(&socket, request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {answer}");
    }
    let head = asked(&socket, "HEAD /metrics HTTP/1.1\r\n\r\n");
    let told = head.strip_suffix("\r\n\r\n").and_then(|head| head.split_once("Content-Length: "));
    let (_, told) = told.expect("the head alone");
    // The page that it tells of is as long as this one, or nearly: numbers grow.
    let bytes: usize = told.split("\r\n").next().expect("a line").parse().expect("a number");
    assert!(bytes.abs_diff(page.len()) < 100, "{bytes} for {}", page.len());
    let head = asked(&socket, "HEAD / HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 404 ") && head.ends_with("\r\n\r\n"), "{head}");
    // One who asks and says nothing holds up neither the job nor, for long, the next.
    let silent = UnixStream::connect(&socket).expect("it listens");
    assert!(asked(&socket, "GET /metrics HTTP/1.1\r\n\r\n").contains("job_running"));
    // Nor does who is slow to ask.
    let mut slow = UnixStream::connect(&socket).expect("it listens");
    slow.write_all(b"GET /metrics ").expect("it reads");
    assert!(asked(&socket, "GET /metrics HTTP/1.1\r\n\r\n").contains("job_running"));
    slow.write_all(b"HTTP/1.1\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    slow.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    // Whoever is there at the end gets nothing any more.
    let mut last = UnixStream::connect(&socket).expect("it listens");
    drop((silent, input));
    pv.done().well();
    answer.clear();
    let _ = last.read_to_string(&mut answer);
    assert_eq!(answer, "");
    assert!(!socket.exists(), "the socket is left");
    // What is no socket, or another's, stays.
    std::fs::write(&socket, "mine").expect("a file");
    let done = run(&mut bytepath(&["gen", "zeros", "--bytes", "9", "--metrics", &target]));
    assert!(done.status.success() && done.stderr.contains("cannot listen"), "{done:?}");
    assert_eq!(std::fs::read_to_string(&socket).expect("it stays"), "mine");
}

#[test]
fn it_costs_no_call_per_chunk() {
    let may = || Command::new("strace").args(["-o", "/dev/null", "true"]).status();
    if !installed("strace") || !may().is_ok_and(|status| status.success()) {
        println!("skipped: strace cannot be had");
        return;
    }
    let folder = folder();
    let calls = |name: &str, metrics: &str| {
        let told = folder.path().join(name);
        let line = format!(
            "$bytepath gen zeros --bytes 64M | strace -f -qqq -e signal=none -o '{}' \
             $bytepath cat --route read-write --no-enlarge {metrics} | cat >/dev/null",
            told.display()
        );
        shell(&line).well();
        let text = std::fs::read_to_string(told).expect("strace wrote it");
        // How full the pipe was is not ours: only what is not moving is counted. A call during which
        // the other thread makes one takes two lines.
        let calls = [" read(", " write(", "<... read resumed>", "<... write resumed>"];
        let moving = |line: &&str| calls.iter().any(|call| line.contains(call));
        text.lines().filter(|line| !moving(line)).count()
    };
    let file = folder.path().join("m.prom");
    let (without, with) = (calls("a", ""), calls("b", &format!("--metrics '{}'", file.display())));
    // Two threads, one of which hears signals, and a file that is made and renamed, a few times at most;
    // 64 MiB are 256 chunks.
    let seconds = {
        let page = std::fs::read_to_string(&file).expect("written");
        sample(&page, "job_duration_seconds", "").expect("told") as usize
    };
    assert!(with < without + 160 + 20 * seconds, "{with} calls, {without} without");
}

#[test]
fn a_job_that_is_killed_leaves_no_half_page() {
    let folder = folder();
    let file = folder.path().join("live.prom");
    let pv = waiting(file.to_str().expect("letters"));
    until(&file, |page| !page.is_empty());
    let mut pv = pv;
    kill_process(Pid::from_child(pv.child()), Signal::KILL).expect("it runs");
    assert_eq!(signal_of(&pv.done()), Some(9));
    let page = std::fs::read_to_string(&file).expect("it stays");
    well_formed(&page);
    assert_eq!(sample(&page, "job_running", ""), Some(1.0), "{page}");
}

#[test]
fn a_file_that_is_replaced_keeps_its_permissions() {
    let folder = folder();
    let path = folder.path().display();
    let done = shell(&format!(
        "cd {path}; umask 077; echo one >a; for mode in 600 644 666; do \
         echo old >page; chmod $mode page; $bytepath cp --metrics page a b && stat -c %a page; done; \
         rm page; umask 027; $bytepath cp --metrics page a b && stat -c %a page"
    ));
    assert_eq!(done.well().stdout, "600\n644\n666\n640\n");
}

#[test]
fn what_a_link_points_to_is_made_where_it_is_not_there_yet() {
    let folder = folder();
    let path = folder.path().display();
    let prepare = "mkdir a b; ln -s ../b/new a/first; ln -s a/first l; ln -s loop loop";
    for option in ["--json", "--metrics"] {
        let done = shell(&format!(
            "cd {path} && rm -rf * && {prepare}; $bytepath gen zeros --bytes 5 {option} l >/dev/null; \
             echo $?; [ -L l -a -L a/first -a -s b/new ] && echo kept"
        ));
        assert_eq!(done.stdout, "0\nkept\n", "{option}: {done:?}");
        // The trial is made there as well, and two names of one file are one.
        let done = shell(&format!(
            "cd {path} && rm -rf * && {prepare}; rmdir b; \
             $bytepath gen zeros --bytes 5 {option} l >/dev/null; [ -L l -a -L a/first ] && echo kept; \
             $bytepath gen zeros --bytes 5 {option} loop >/dev/null; [ -L loop ] && echo kept; \
             mkdir b; $bytepath gen zeros --bytes 5 --json l --metrics b/new >/dev/null || ls b"
        ));
        assert_eq!(done.stdout, "kept\nkept\n", "{option}: {done:?}");
        assert!(done.stderr.contains("are one file"), "{option}: {done:?}");
    }
}

#[test]
fn a_file_that_is_replaced_keeps_its_owner_its_group_and_its_list() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root gives files away");
        return;
    }
    let folder = folder();
    let path = folder.path().display();
    let lists = installed("setfacl");
    for option in ["--json", "--metrics"] {
        let done = shell(&format!(
            "cd {path}; umask 077; echo old >page; chmod 640 page; chown 12:1000 page; \
             {}$bytepath gen zeros --bytes 5 {option} page >/dev/null && stat -c '%u:%g %a' page && \
             ! grep -q old page{}",
            if lists { "setfacl -m u:99:r page && " } else { "" },
            if lists { " && getfacl -np page" } else { "" },
        ));
        let said = done.well().stdout;
        assert!(said.starts_with("12:1000 640\n"), "{option}: {said}");
        assert!(!lists || said.contains("user:99:r--"), "{option}: {said}");
    }
}
