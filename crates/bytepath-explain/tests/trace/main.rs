//! Tracing of real programs by a real kernel: what is told equals what they did.
//!
//! Tests that the kernel or the user's rights do not allow print why and are skipped.

mod ways;
mod work;

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bytepath_explain::trace::{Mode, Tracing};
use bytepath_report::{TraceFound, TraceOffCpu, Traced};
use syscalls::Sysno;
use work::{is_by, of_command, shell, soft_interrupts};

fn files(traced: &Traced) -> &[bytepath_report::TraceFile] {
    match &traced.found {
        TraceFound::FileLife(files) => files,
        other => panic!("not of files: {other:?}"),
    }
}

#[test]
fn a_sleeper_is_off_cpu_for_as_long_as_it_sleeps_and_a_timer_wakes_it() {
    let Some(traced) = of_command(Mode::OffCpu, Command::new("sleep").arg("0.2")) else { return };
    let TraceFound::OffCpu(rows) = &traced.found else { panic!("{traced:?}") };
    // Preempted on its way, it loses to others a little of what it would sleep, and they are told too.
    let of_sleep = || rows.iter().filter(|row| row.thread.name == "sleep");
    let seconds: f64 = of_sleep().map(|row| row.seconds).sum();
    assert!(seconds >= 0.19, "{rows:#?}");
    let longest = of_sleep().find(|row| row.state == "sleeping").expect("it sleeps");
    let nanosleep = |stack: &[String]| stack.iter().any(|name| name.contains("nanosleep"));
    if longest.kernel_stack.iter().all(|name| name.starts_with("0x")) {
        println!("not looked at: names of the kernel's functions are hidden");
        return;
    }
    assert!(nanosleep(&longest.kernel_stack), "{longest:#?}");
    assert_eq!(longest.interrupt.as_deref(), Some("timer"), "{longest:#?}");
    let ours = |name: &String| name.contains("bpf");
    assert!(!longest.kernel_stack.iter().chain(&longest.waker_stack).any(ours), "{longest:#?}");
    assert!(traced.lost.is_empty(), "{:?}", traced.lost);
}

#[test]
fn who_was_woken_and_waits_for_a_cpu_does_not_sleep() {
    const SLEEPS: u64 = 100;
    keep_to_one_cpu();
    let lines = format!(
        "import os, signal, time\n\
         busy = os.fork()\n\
         if busy == 0: signal.alarm(60)\n\
         while busy == 0: pass\n\
         for _ in range({SLEEPS}): time.sleep(0.001)\n\
         os.kill(busy, 9)"
    );
    let Some(mut python) = python(&lines) else { return };
    let Some(traced) = of_command(Mode::OffCpu, &mut python) else { return };
    let TraceFound::OffCpu(rows) = &traced.found else { panic!("{traced:?}") };
    if traced.missing.iter().any(|why| why.contains("no names of the kernel's functions")) {
        println!("not looked at: names of the kernel's functions are hidden");
        return;
    }
    // Before Python 3.11 it sleeps by select(2).
    let sleeps = |at: &String| at.contains("nanosleep") || at.contains("sys_select");
    let in_sleep = |row: &&TraceOffCpu| row.kernel_stack.iter().any(sleeps);
    let times = |state: &str| -> u64 {
        let rows = rows.iter().filter(in_sleep).filter(|row| row.state == state);
        rows.map(|row| row.times).sum()
    };
    // Where the time is over before it has left its CPU, it does not sleep.
    assert!(times("sleeping") >= SLEEPS / 2, "{rows:#?}");
    // Whoever is woken waits for the CPU on which the other computes, be it for a moment.
    assert!(times("runnable") >= times("sleeping"), "{rows:#?}");
    assert!(rows.iter().all(|row| row.state != "runnable" || row.waker.is_none()), "{rows:#?}");
}

#[test]
fn who_writes_to_a_pipe_is_told_as_the_waker_of_who_reads_it() {
    let Some(traced) = of_command(Mode::OffCpu, &mut shell("(sleep 0.1; echo) | cat")) else {
        return;
    };
    let TraceFound::OffCpu(rows) = &traced.found else { panic!("{traced:?}") };
    let woken = rows.iter().find(|row| {
        row.thread.name == "cat" && row.waker.as_ref().is_some_and(|waker| waker.name == "sh")
    });
    assert!(woken.is_some_and(|row| row.state == "sleeping"), "{rows:#?}");

    let wakeups = of_command(Mode::Wakeups, &mut shell("(sleep 0.1; echo) | cat"));
    let TraceFound::Wakeups(rows) = wakeups.expect("it worked before").found else { panic!() };
    let woken = rows.iter().find(|row| is_by(row, "sh") && row.wakee.name == "cat");
    let woken = woken.unwrap_or_else(|| panic!("{rows:#?}"));
    assert_eq!(woken.log2_ns.iter().sum::<u64>(), woken.times);
    assert!(woken.seconds > 0.0 && woken.longest_seconds <= woken.seconds);
}

#[test]
fn who_is_woken_on_its_way_to_sleep_has_its_waker() {
    const TURNS: u64 = 3_000;
    // Each on a CPU of its own, if there are two.
    let lines = format!(
        "import os\n\
         cpus = sorted(os.sched_getaffinity(0))\n\
         mine, to_other = os.pipe()\n\
         other, to_mine = os.pipe()\n\
         child = os.fork() == 0\n\
         os.sched_setaffinity(0, [cpus[-1 if child else 0]])\n\
         for _ in range({TURNS}):\n\
         \x20   if child: os.read(mine, 1); os.write(to_mine, b'a')\n\
         \x20   else: os.write(to_other, b'a'); os.read(other, 1)\n\
         if not child: os.wait()"
    );
    let Some(mut python) = python(&lines) else { return };
    let Some(traced) = of_command(Mode::OffCpu, &mut python) else { return };
    let TraceFound::OffCpu(rows) = &traced.found else { panic!("{traced:?}") };
    if traced.missing.iter().any(|why| why.contains("no names of the kernel's functions")) {
        println!("not looked at: names of the kernel's functions are hidden");
        return;
    }
    let reads = |row: &&TraceOffCpu| row.kernel_stack.iter().any(|name| name.contains("pipe_read"));
    let times = |of: fn(&TraceOffCpu) -> bool| -> u64 {
        rows.iter().filter(reads).filter(|row| of(row)).map(|row| row.times).sum()
    };
    let slept = times(|row| row.state == "sleeping");
    let by_nobody =
        times(|row| row.state == "sleeping" && row.waker.is_none() && row.interrupt.is_none());
    assert!(slept >= TURNS / 2, "{rows:#?}");
    // Of a thousand and more, the kernel may not tell of one.
    assert!(by_nobody <= 1, "{by_nobody} of {slept} were ended by nobody: {rows:#?}");
}

#[test]
fn who_computes_wakes_nobody_and_a_timer_wakes_who_sleeps() {
    keep_to_one_cpu();
    let line = "sleep 0.05 & i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; wait";
    let Some(traced) = of_command(Mode::Wakeups, &mut shell(line)) else { return };
    let TraceFound::Wakeups(rows) = &traced.found else { panic!("{traced:?}") };
    if traced.missing.iter().any(|why| why.contains("no names of the kernel's functions")) {
        println!("not looked at: names of the kernel's functions are hidden");
        return;
    }
    let of_sleep: Vec<_> = rows.iter().filter(|row| row.wakee.name == "sleep").collect();
    let by_timer = of_sleep.iter().any(|row| row.interrupt.as_deref() == Some("timer"));
    assert!(by_timer, "{rows:#?}");
    assert!(rows.iter().all(|row| row.waker.is_none() == row.interrupt.is_some()), "{rows:#?}");
    // On one CPU the timer came to the shell while it computed.
    assert!(of_sleep.iter().all(|row| !is_by(row, "sh")), "{of_sleep:#?}");
}

#[test]
fn who_computes_wakes_none_of_whom_interrupts_wake_meanwhile() {
    let lines = "import time\n\
         until = time.perf_counter() + 0.5\n\
         while time.perf_counter() < until: pass";
    let Some(mut python) = python(lines) else { return };
    let Some(traced) = of_command(Mode::Wakeups, &mut python) else { return };
    let TraceFound::Wakeups(rows) = &traced.found else { panic!("{traced:?}") };
    if traced.missing.iter().any(|why| why.contains("no names of the kernel's functions")) {
        println!("not looked at: names of the kernel's functions are hidden");
        return;
    }
    // All that was traced has ended.
    let lives = |pid: u32| pid > 0 && fs::exists(format!("/proc/{pid}")).unwrap_or(true);
    let strangers = rows.iter().filter(|row| row.interrupt.is_some() && lives(row.wakee.pid));
    assert_eq!(strangers.count(), 0, "{rows:#?}");
}

#[test]
fn waits_that_a_timer_ends_are_one_whatever_it_came_to() {
    const WAITS: u64 = 50;
    keep_to_one_cpu();
    // The timer comes to dd, in another place each time.
    let folder = tempfile::tempdir().expect("a folder");
    let waits = format!(
        "mkfifo fifo; exec 5<>fifo; dd if=/dev/zero of=/dev/null bs=1 status=none & \
         for i in $(seq {WAITS}); do read -t 0.003 -u 5; done; kill $!; wait $!; true"
    );
    let mut bash = Command::new("bash");
    bash.args(["-c", &waits]).current_dir(&folder).stderr(Stdio::null());
    let Some(traced) = of_command(Mode::OffCpu, &mut bash) else { return };
    let TraceFound::OffCpu(rows) = &traced.found else { panic!("{traced:?}") };
    if traced.missing.iter().any(|why| why.contains("no names of the kernel's functions")) {
        println!("not looked at: names of the kernel's functions are hidden");
        return;
    }
    let by_timer = |row: &&TraceOffCpu| row.interrupt.as_deref() == Some("timer");
    let rows: Vec<_> =
        rows.iter().filter(|row| row.thread.name == "bash").filter(by_timer).collect();
    assert!(rows.iter().all(|row| row.waker.is_none()), "{rows:#?}");
    // The first may come by another way, and some may find that the time is over.
    assert!(rows.iter().map(|row| row.times).sum::<u64>() >= WAITS / 2, "{rows:#?}");
    assert!(rows.len() <= 5, "{} rows: {rows:#?}", rows.len());
}

#[test]
fn what_is_started_behind_one_that_woke_its_starter_is_traced_too() {
    use std::collections::HashSet;
    let _lock = work::lock();
    let Some(mut tracing) = work::start(Mode::Wakeups) else { return };
    tracing.arm().expect("this process is known");
    // The shell is traced when it wakes this thread.
    let said = shell("sleep 0.1; echo said").output().expect("it is started");
    work::run(Command::new("sleep").arg("0.05"));
    tracing.disarm();
    let traced = tracing.finish("a shell and a sleep").expect("it is told");
    assert_eq!(said.stdout, b"said\n");
    let TraceFound::Wakeups(rows) = &traced.found else { panic!("{traced:?}") };
    let sleeps = rows.iter().filter(|row| row.wakee.name == "sleep" && row.interrupt.is_some());
    let sleeps: HashSet<u32> = sleeps.map(|row| row.wakee.tid).collect();
    assert_eq!(sleeps.len(), 2, "{rows:#?}");
}

#[test]
fn system_calls_are_counted_as_strace_counts_them() {
    let dd = ["if=/dev/zero", "of=/dev/null", "bs=512", "count=1000", "status=none"];
    let Some(traced) = of_command(Mode::Syscalls, Command::new("dd").args(dd)) else { return };
    let TraceFound::Syscalls(calls) = &traced.found else { panic!("{traced:?}") };
    let lock = work::lock();
    let strace =
        Command::new("strace").args(["-f", "-c", "-U", "calls,name", "dd"]).args(dd).output();
    drop(lock);
    let Ok(strace) = strace else {
        println!("skipped: no strace to compare with");
        return;
    };
    let told = String::from_utf8_lossy(&strace.stderr);
    let counts = told.lines().filter_map(|line| {
        let (count, name) = line.trim().split_once(' ')?;
        Some((name.trim().to_owned(), count.parse::<u64>().ok()?))
    });
    let counts: Vec<(String, u64)> = counts.filter(|(name, _)| name != "total").collect();
    assert!(counts.len() > 5, "{told}");
    for (name, count) in counts {
        // It begins with its end here, and there it is strace's own; the last never returns.
        if ["execve", "exit_group"].contains(&name.as_str()) {
            continue;
        }
        let row = calls.iter().find(|row| row.name == name);
        let row = row.unwrap_or_else(|| panic!("{name} is not in {calls:#?}"));
        assert_eq!(row.calls, count, "{name}");
        assert_eq!(row.log2_ns.iter().sum::<u64>(), row.calls, "{name}");
    }
    let reads = calls.iter().find(|row| row.name == "read").expect("it reads");
    assert!(reads.calls >= 1000 && reads.errors == 0 && reads.seconds > 0.0);
}

#[test]
fn errors_of_system_calls_are_counted() {
    let missing = "/no/such/file/anywhere";
    let Some(traced) = of_command(Mode::Syscalls, Command::new("cat").args([missing; 7])) else {
        return;
    };
    let TraceFound::Syscalls(calls) = &traced.found else { panic!("{traced:?}") };
    let opens = calls.iter().find(|row| row.name == "openat").expect("it opens");
    assert!(opens.errors >= 7 && opens.errors < opens.calls, "{opens:?}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_call_of_the_table_for_32_bits_has_no_name_of_the_other() {
    // mov eax, 20 (getpid); int 0x80; ret
    let lines = "import ctypes, mmap, os\n\
         code = mmap.mmap(-1, 4096, prot=7)\n\
         code.write(b'\\xb8\\x14\\0\\0\\0\\xcd\\x80\\xc3')\n\
         call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))\n\
         for _ in range(7): assert call() == os.getpid()";
    let Some(mut command) = python(lines) else { return };
    let lock = work::lock();
    let can = work::run(command.stderr(Stdio::null())).success();
    drop(lock);
    if !can {
        return println!("skipped: this kernel has no such calls");
    }
    let Some(traced) = of_command(Mode::Syscalls, &mut command) else { return };
    let TraceFound::Syscalls(calls) = &traced.found else { panic!("{traced:?}") };
    let of = |name: &str| calls.iter().find(|row| row.name == name).map_or(0, |row| row.calls);
    assert_eq!((of("32-bit call 20"), of("writev")), (7, 0), "{calls:#?}");
    for mode in [Mode::FileLife, Mode::Tcp] {
        let Some(traced) = of_command(mode, &mut command) else { continue };
        let told = |note: &String| note.starts_with("7 calls of the table for 32 bits are not");
        assert!(traced.missing.iter().any(told), "{mode:?}: {:?}", traced.missing);
    }
}

#[test]
fn soft_interrupts_are_as_many_as_the_kernel_counts() {
    let _lock = work::lock();
    let before = soft_interrupts();
    let Some(mut tracing) = work::start(Mode::Softirq) else { return };
    let begun = soft_interrupts();
    tracing.arm().expect("this process is known");
    work::run(Command::new("sleep").arg("0.2"));
    let ended = soft_interrupts();
    let traced = tracing.finish("a sleep").expect("it is told");
    let after = soft_interrupts();
    let TraceFound::Softirq(rows) = &traced.found else { panic!("{traced:?}") };
    assert!(!rows.is_empty());
    for row in rows {
        let of = |counts: &[(String, u64)]| {
            counts.iter().find(|(name, _)| *name == row.vector).expect("the same names").1
        };
        // One may have begun before the programs were there, on each CPU.
        let cpus = std::thread::available_parallelism().expect("CPUs").get() as u64;
        assert!(row.times <= of(&after) - of(&before), "{row:?}");
        assert!(row.times + cpus >= of(&ended) - of(&begun), "{row:?}");
        assert!(row.on_traced_times <= row.times && row.on_traced_seconds <= row.seconds);
    }
}

#[test]
fn the_life_of_a_file_is_told_with_its_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::write(&from, vec![7; 300_000]).expect("a file");
    let line = format!("exec 5<{}; sleep 0.1; cat <&5 >{}", from.display(), to.display());
    let Some(traced) = of_command(Mode::FileLife, &mut shell(&line)) else { return };
    let files = files(&traced);
    let named = |path: &std::path::Path| {
        let found: Vec<_> =
            files.iter().filter(|file| std::path::Path::new(&file.path) == path).collect();
        assert_eq!(found.len(), 1, "{path:?} once in {files:#?}");
        found[0]
    };
    let canonical = fs::canonicalize(&from).expect("a path");
    let source = named(&canonical);
    assert_eq!((source.read_bytes, source.written_bytes), (300_000, 0), "{source:?}");
    assert_eq!((source.kind.as_str(), source.thread.name.as_str()), ("file", "sh"));
    assert!(source.reads >= 2, "the end is read too");
    let lifetime = source.lifetime_seconds.expect("it was closed");
    assert!(lifetime >= 0.1 && lifetime <= traced.seconds, "{source:?}");
    let sink = named(&fs::canonicalize(&to).expect("a path"));
    assert_eq!((sink.read_bytes, sink.written_bytes), (0, 300_000), "{sink:?}");
    assert!(traced.lost.is_empty(), "{:?}", traced.lost);
}

#[test]
fn the_largest_file_is_told_and_all_are_added_up_however_many_came_before() {
    const SMALL: u64 = 10_050;
    const LARGE_BYTES: u64 = 1 << 20;
    // What is told of them has to be taken away in between.
    let lines = format!(
        "import os, time\n\
         for at in range({SMALL} + 1):\n\
         \x20   file = os.open('small' if at < {SMALL} else 'large', os.O_WRONLY | os.O_CREAT)\n\
         \x20   os.write(file, bytes(1 if at < {SMALL} else {LARGE_BYTES}))\n\
         \x20   os.close(file)\n\
         \x20   if at % 1000 == 0: time.sleep(0.05)"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut python) = python(&lines) else { return };
    let Some(traced) = of_command(Mode::FileLife, python.current_dir(&folder)) else { return };
    assert!(traced.lost.is_empty(), "{:?}", traced.lost);
    let large = fs::canonicalize(folder.path().join("large")).expect("a path");
    let told = files(&traced).iter().find(|file| std::path::Path::new(&file.path) == large);
    assert!(told.is_some_and(|file| file.written_bytes == LARGE_BYTES), "{told:?}");
    let [untold] = traced.untold.as_slice() else { panic!("{:?}", traced.untold) };
    let written: u64 = files(&traced).iter().map(|file| file.written_bytes).sum();
    assert!(files(&traced).len() as u64 + untold.rows > SMALL, "{untold:?}");
    assert!(written + untold.written_bytes >= SMALL + LARGE_BYTES, "{written} and {untold:?}");
    let note = format!("not told one by one: {} more files", untold.rows);
    assert!(traced.missing.iter().any(|said| said.starts_with(&note)), "{:?}", traced.missing);
}

#[test]
fn a_file_is_open_until_the_last_who_has_it_closes_it_or_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("output");
    // The shell closes what it has made a copy of; it is written to, or not, and closed, or not.
    let to = path.display();
    let lines = [
        format!("(echo one; sleep 0.2; echo two) >{to}; true"),
        format!("sleep 0.2 >{to}; true"),
        format!("exec 5>{to}; echo one >&5; sleep 0.2"),
    ];
    for line in lines {
        let Some(traced) = of_command(Mode::FileLife, &mut shell(&line)) else { return };
        let path = fs::canonicalize(&path).expect("a path");
        let found = files(&traced).iter().find(|file| std::path::Path::new(&file.path) == path);
        let found = found.unwrap_or_else(|| panic!("{line}: {traced:#?}"));
        let lifetime = found.lifetime_seconds.unwrap_or_else(|| panic!("{line}: {found:#?}"));
        assert!(lifetime >= 0.2 && lifetime <= traced.seconds, "{line}: {found:#?}");
    }
}

#[test]
fn a_file_ends_where_another_takes_the_place_of_its_last_descriptor() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines = "import os, time\n\
         same = os.open('same', os.O_WRONLY | os.O_CREAT)\n\
         os.dup2(same, same)\n\
         kept = os.open('kept', os.O_WRONLY | os.O_CREAT)\n\
         try: os.dup2(999, kept, False)\n\
         except OSError: pass\n\
         first = os.open('output', os.O_WRONLY | os.O_CREAT)\n\
         other = os.open('/dev/null', os.O_WRONLY)\n\
         second = os.dup(first)\n\
         os.dup2(other, first)\n\
         time.sleep(0.2)\n\
         os.dup2(other, second)\n\
         time.sleep(0.5)";
    let mut python = Command::new("python3");
    python.args(["-c", lines]).current_dir(&folder);
    let lock = work::lock();
    let is_there = python.output().is_ok_and(|done| done.status.success());
    drop(lock);
    if !is_there {
        return println!("skipped: no python3");
    }
    let Some(traced) = of_command(Mode::FileLife, &mut python) else { return };
    let lifetime = |name: &str| {
        let found = files(&traced).iter().find(|file| file.path.ends_with(name));
        let found = found.unwrap_or_else(|| panic!("{traced:#?}"));
        found.lifetime_seconds.unwrap_or_else(|| panic!("{found:#?}"))
    };
    let replaced = lifetime("/output");
    assert!(
        replaced >= 0.2 && replaced <= traced.seconds - 0.5,
        "{replaced} of {}",
        traced.seconds
    );
    // What was not replaced stays until the process ends.
    for name in ["/same", "/kept"] {
        assert!(lifetime(name) >= 0.7, "{name}: {} of {}", lifetime(name), traced.seconds);
    }
}

#[test]
fn what_was_done_before_an_exec_has_the_name_and_the_functions_of_then() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("greeting");
    let line = format!("echo hello > {}; exec sleep 0.1", path.display());
    let Some(traced) = of_command(Mode::FileLife, &mut shell(&line)) else { return };
    let path = fs::canonicalize(&path).expect("a path");
    let found = files(&traced).iter().find(|file| std::path::Path::new(&file.path) == path);
    let found = found.unwrap_or_else(|| panic!("{traced:#?}"));
    assert_eq!((found.thread.name.as_str(), found.written_bytes), ("sh", 6));

    let line = "sleep 0.1; exec sleep 0.2";
    let traced = of_command(Mode::OffCpu, &mut shell(line)).expect("it worked before");
    let TraceFound::OffCpu(rows) = &traced.found else { panic!("{traced:?}") };
    let waits = rows.iter().filter(|row| row.thread.name == "sh" && row.state == "sleeping");
    let waits: Vec<_> = waits.collect();
    assert!(waits.iter().map(|row| row.seconds).sum::<f64>() > 0.0, "{rows:#?}");
    let is_known = |stack: &[String]| stack.iter().any(|name| name != "[unknown]");
    let by_code = traced.missing.iter().any(|why| why.contains("functions of programs"));
    assert!(by_code || waits.iter().any(|row| is_known(&row.user_stack)), "{waits:#?}");

    // On one CPU, so that nothing but the program tells the wakers apart.
    keep_to_one_cpu();
    let dd = "exec dd if=/dev/zero bs=1 count=9 status=none";
    let line = format!("(sleep 0.05; echo; sleep 0.05; {dd}) | cat >/dev/null");
    let traced = of_command(Mode::Wakeups, &mut shell(&line)).expect("it worked before");
    let TraceFound::Wakeups(rows) = &traced.found else { panic!("{traced:?}") };
    let of_cat: Vec<_> = rows.iter().filter(|row| row.wakee.name == "cat").collect();
    for waker in ["sh", "dd"] {
        assert!(of_cat.iter().any(|row| is_by(row, waker)), "{waker}: {of_cat:#?}");
    }
}

#[test]
fn what_a_program_makes_itself_was_not_open_before() {
    // So many bytes that nobody else moves as many.
    let lines = "import ctypes, os, select\n\
         r, w = os.pipe()\n\
         os.write(w, bytes(12345))\n\
         os.read(r, 12345)\n\
         os.write(os.memfd_create('ours'), bytes(23456))\n\
         select.epoll()\n\
         libc, signals = ctypes.CDLL(None), ctypes.create_string_buffer(128)\n\
         fd = libc.signalfd(-1, signals, 0)\n\
         assert fd > 0 and libc.signalfd(fd, signals, 0) == fd";
    let Some(mut python) = python(lines) else { return };
    let Some(traced) = of_command(Mode::FileLife, &mut python) else { return };
    let mut ours: Vec<_> = files(&traced)
        .iter()
        .filter(|file| file.opened_at.is_some())
        .map(|file| (file.read_bytes, file.written_bytes))
        .filter(|(read, written)| [12345, 23456].contains(&(read + written)))
        .collect();
    ours.sort();
    assert_eq!(ours, [(0, 12345), (0, 23456), (12345, 0)], "{:#?}", files(&traced));
    for path in ["anon_inode:[eventpoll]", "anon_inode:[signalfd]"] {
        let found: Vec<_> = files(&traced).iter().filter(|file| file.path == path).collect();
        let once = found.len() == 1 && found[0].opened_at.is_some();
        assert!(once, "{path}: {:#?}", files(&traced));
    }
}

#[test]
fn bytes_that_tee_writes_are_written_and_not_read() {
    // So many bytes that nobody else moves as many.
    let lines = "import ctypes, os\n\
         libc = ctypes.CDLL(None)\n\
         r, w = os.pipe()\n\
         copies, to = os.pipe()\n\
         os.write(w, bytes(12345))\n\
         assert libc.tee(r, to, 12345, 0) == 12345\n\
         assert len(os.read(copies, 20000)) == 12345";
    let Some(mut python) = python(lines) else { return };
    let Some(traced) = of_command(Mode::FileLife, &mut python) else { return };
    let mut moved: Vec<_> = files(&traced)
        .iter()
        .map(|file| (file.read_bytes, file.written_bytes))
        .filter(|(read, written)| read + written == 12345)
        .collect();
    moved.sort();
    // Nobody has read the first pipe.
    assert_eq!(moved, [(0, 12345), (0, 12345), (12345, 0)], "{:#?}", files(&traced));
}

/// This thread and what it starts run on one of its CPUs from now on.
fn keep_to_one_cpu() {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let ours = sched_getaffinity(None).expect("its own");
    let first = (0..CpuSet::MAX_CPU).find(|cpu| ours.is_set(*cpu)).expect("it runs on one");
    let mut one = CpuSet::new();
    one.set(first);
    sched_setaffinity(None, &one).expect("it is one of its own");
}

#[test]
fn bytes_through_files_that_were_open_before_are_told_too() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(&[1; 5000]).expect("bytes");
    let input = fs::File::open(file.path()).expect("it can be read");
    let mut command = Command::new("cat");
    command.stdin(Stdio::from(input)).stdout(Stdio::null());
    let Some(traced) = of_command(Mode::FileLife, &mut command) else { return };
    let path = fs::canonicalize(file.path()).expect("a path");
    let found = files(&traced).iter().find(|file| std::path::Path::new(&file.path) == path);
    let found = found.unwrap_or_else(|| panic!("{traced:#?}"));
    assert_eq!((found.opened_at, found.read_bytes), (None, 5000));
}

#[test]
fn rings_are_told_whoever_works_on_them() {
    use std::io::BufRead as _;
    let (setup, submit) = (Sysno::io_uring_setup as i32, Sysno::io_submit as i32);
    let lines = format!(
        "import ctypes, signal\n\
         libc = ctypes.CDLL(None)\n\
         ring = libc.syscall({setup}, 1, ctypes.create_string_buffer(120))\n\
         libc.syscall({submit}, 0, 0, 0)\n\
         print(ring, flush=True)\n"
    );
    let Some(mut makes) = python(&lines) else { return };
    let Some(traced) = of_command(Mode::FileLife, makes.stdout(Stdio::null())) else { return };
    let told = |traced: &Traced, what: &str| traced.missing.iter().any(|note| note.contains(what));
    assert!(
        told(&traced, "(2 calls of io_uring_setup, io_uring_enter or io_submit)"),
        "{traced:?}"
    );

    let mut has =
        python(&(lines + "signal.alarm(60); signal.pause()")).expect("it was there before");
    let _lock = work::lock();
    let Some(mut tracing) = work::start(Mode::Tcp) else { return };
    let mut has = has.stdout(Stdio::piped()).spawn().expect("it is started");
    let mut ring = String::new();
    let output = has.stdout.take().expect("piped");
    std::io::BufReader::new(output).read_line(&mut ring).expect("it says so");
    let followed = tracing.follow(has.id());
    let traced = followed.and_then(|()| tracing.finish("a ring"));
    has.kill().expect("it is there");
    has.wait().expect("it ends");
    match traced {
        _ if ring == "-1\n" => println!("skipped: no ring can be had"),
        Err(error) => println!("skipped: {error}"),
        Ok(traced) => assert!(told(&traced, "(a ring that was there before)"), "{traced:?}"),
    }
}

#[test]
fn whoever_gives_a_connection_up_has_no_other() {
    let lines = "import ctypes, socket\n\
         s = socket.create_server(('127.0.0.1', 0))\n\
         a = socket.create_connection(s.getsockname())\n\
         b, _ = s.accept()\n\
         a.sendall(bytes(12))\n\
         assert len(b.recv(12)) == 12\n\
         for _ in range(2): assert ctypes.CDLL(None).connect(a.fileno(), bytes(16), 16) == 0";
    let Some(mut python) = python(lines) else { return };
    let Some(traced) = of_command(Mode::Tcp, &mut python) else { return };
    let TraceFound::Tcp(rows) = &traced.found else { panic!("{traced:?}") };
    let mut moved: Vec<_> = rows.iter().map(|row| (row.sent_bytes, row.received_bytes)).collect();
    moved.sort();
    assert_eq!(moved, [(0, 12), (12, 0)], "{rows:#?}");
}

#[test]
fn bytes_of_a_connection_are_told_to_the_byte() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = server.local_addr().expect("an address").port();
    let serving = std::thread::spawn(move || {
        use std::io::Read as _;
        let (mut stream, _) = server.accept()?;
        let mut asked = [0; 12];
        stream.read_exact(&mut asked)?;
        stream.write_all(&vec![5; 1_234_567])
    });
    let line = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'twelve bytes' >&3; cat <&3");
    let mut command = Command::new("bash");
    command.args(["-c", &line]).stdout(Stdio::null());
    let traced = of_command(Mode::Tcp, &mut command);
    let Some(traced) = traced else {
        // Lets the server go on.
        drop(std::net::TcpStream::connect(("127.0.0.1", port)));
        let _ = serving.join();
        return;
    };
    serving.join().expect("no panic").expect("all was sent");
    let TraceFound::Tcp(rows) = &traced.found else { panic!("{traced:?}") };
    assert_eq!(rows.len(), 1, "{rows:#?}");
    let row = &rows[0];
    assert_eq!((row.sent_bytes, row.received_bytes), (12, 1_234_567), "{row:?}");
    assert_eq!(row.remote, format!("127.0.0.1:{port}"));
    assert_eq!((row.subnet.as_str(), row.thread.name.as_str()), ("127.0.0.0/24", "bash"));
    assert!(row.receives >= 2 && row.sends == 1);
    assert!(row.lifetime_seconds.is_some(), "it ended: {row:?}");
}

#[test]
fn what_is_read_when_a_connection_has_ended_is_its_own_and_not_the_next_ones() {
    use std::io::Read as _;
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = server.local_addr().expect("an address").port();
    let lines = format!(
        "import select, socket\n\
         for sent, comes in [(1000, 50000), (10, 300), (20, 200)]:\n\
         \x20   c = socket.create_connection(('127.0.0.1', {port}))\n\
         \x20   c.sendall(bytes(sent))\n\
         \x20   c.shutdown(socket.SHUT_WR)\n\
         \x20   ended = select.poll()\n\
         \x20   ended.register(c, 0)\n\
         \x20   ended.poll()\n\
         \x20   while c.recv(65536): pass\n\
         \x20   c.close()"
    );
    let Some(mut python) = python(&lines) else { return };
    std::thread::spawn(move || {
        for mut stream in server.incoming().flatten() {
            let asked = stream.read_to_end(&mut Vec::new()).expect("it asks");
            let answer = [(1000, 50_000), (10, 300), (20, 200)].iter().find(|of| of.0 == asked);
            stream.write_all(&vec![5; answer.map_or(0, |of| of.1)]).expect("all is sent");
        }
    });
    let Some(traced) = of_command(Mode::Tcp, &mut python) else { return };
    let TraceFound::Tcp(rows) = &traced.found else { panic!("{traced:?}") };
    let moved: Vec<_> = rows.iter().map(|row| (row.sent_bytes, row.received_bytes)).collect();
    assert_eq!(moved, [(1000, 50_000), (10, 300), (20, 200)], "{rows:#?}");
    for row in rows {
        assert!(!row.local.ends_with(":0") && row.remote.ends_with(&port.to_string()), "{row:?}");
        assert!(row.lifetime_seconds.is_some() && row.round_trip_seconds.is_some(), "{row:?}");
    }
}

#[test]
fn a_connection_that_had_ended_before_it_was_seen_has_ended() {
    let lines = "import socket, struct, time\n\
         s = socket.create_server(('127.0.0.1', 0))\n\
         a = socket.create_connection(s.getsockname())\n\
         a.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))\n\
         a.close()\n\
         b, _ = s.accept()\n\
         taken = socket.socket()\n\
         taken.bind(('127.0.0.1', 0))\n\
         c = socket.socket()\n\
         c.setblocking(False)\n\
         c.connect_ex(taken.getsockname())\n\
         time.sleep(0.2)";
    let Some(mut python) = python(lines) else { return };
    let Some(traced) = of_command(Mode::Tcp, &mut python) else { return };
    let TraceFound::Tcp(rows) = &traced.found else { panic!("{traced:?}") };
    assert_eq!(rows.len(), 3, "reset, accepted and refused: {rows:#?}");
    for row in rows {
        // Their sockets are there for longer.
        assert!(row.lifetime_seconds.is_some_and(|time| time < 0.2), "{row:#?}");
        assert!(row.retransmitted.is_some(), "{row:#?}");
    }
    // Nothing came back from where it was refused but the refusal.
    let measured: Vec<_> = rows.iter().filter_map(|row| row.round_trip_seconds).collect();
    assert!(measured.len() == 2 && measured.iter().all(|time| *time > 0.0), "{rows:#?}");
}

#[test]
fn what_is_only_looked_at_is_not_received_and_each_of_several_messages_is() {
    let lines = "import ctypes as c, socket\n\
         libc = c.CDLL(None, use_errno=True)\n\
         class Vector(c.Structure): _fields_ = [('base', c.c_char_p), ('len', c.c_size_t)]\n\
         class Message(c.Structure): _fields_ = [('name', c.c_void_p), ('name_len', c.c_uint), \
         ('vectors', c.POINTER(Vector)), ('count', c.c_size_t), ('control', c.c_void_p), \
         ('control_len', c.c_size_t), ('flags', c.c_int)]\n\
         class One(c.Structure): _fields_ = [('message', Message), ('len', c.c_uint)]\n\
         def several(*sizes):\n\
         \x20   vectors = [Vector(bytes(size), size) for size in sizes]\n\
         \x20   return (One * len(sizes))(*[One(Message(None, 0, c.pointer(v), 1)) for v in vectors])\n\
         s = socket.create_server(('127.0.0.1', 0))\n\
         a = socket.create_connection(s.getsockname())\n\
         b, _ = s.accept()\n\
         a.sendall(bytes(1000))\n\
         for _ in range(9): assert len(b.recv(1000, socket.MSG_PEEK)) == 1000\n\
         b.recvmsg(1000, 0, socket.MSG_PEEK)\n\
         b.recv(1000)\n\
         assert libc.sendmmsg(a.fileno(), several(100, 20, 3), 3, 0) == 3\n\
         while len(b.recv(1000, socket.MSG_PEEK)) < 123: pass\n\
         assert libc.recvmmsg(b.fileno(), several(60, 63), 2, 0, None) == 2";
    let Some(mut python) = python(lines) else { return };
    let Some(traced) = of_command(Mode::Tcp, &mut python) else { return };
    let TraceFound::Tcp(rows) = &traced.found else { panic!("{traced:?}") };
    let mut moved: Vec<_> = rows
        .iter()
        .map(|row| (row.sent_bytes, row.received_bytes, row.sends, row.receives))
        .collect();
    moved.sort();
    assert_eq!(moved, [(0, 1123, 0, 2), (1123, 0, 2, 0)], "{rows:#?}");
}

/// A Python that runs these lines, which it can.
pub(crate) fn python(lines: &str) -> Option<Command> {
    let _lock = work::lock();
    let mut python = Command::new("python3");
    let is_there = python.arg("-V").output().is_ok_and(|done| done.status.success());
    if !is_there {
        println!("skipped: no python3");
        return None;
    }
    let mut python = Command::new("python3");
    python.args(["-c", lines]);
    Some(python)
}

#[test]
fn a_process_that_runs_already_is_followed() {
    let _lock = work::lock();
    let Some(mut tracing) = work::start(Mode::Syscalls) else { return };
    let mut cat = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("cat is started");
    if let Err(error) = tracing.follow(cat.id()) {
        println!("skipped: {error}");
        let _ = cat.kill();
        let _ = cat.wait();
        return;
    }
    let mut input = cat.stdin.take().expect("its input");
    let mut output = cat.stdout.take().expect("its output");
    let mut back = [0; 5];
    use std::io::Read as _;
    for _ in 0..50 {
        input.write_all(b"bytes").expect("it reads");
        output.read_exact(&mut back).expect("it writes");
    }
    let traced = tracing.finish("cat").expect("it is told");
    drop(input);
    cat.wait().expect("it ends");
    let TraceFound::Syscalls(calls) = &traced.found else { panic!("{traced:?}") };
    let writes = calls.iter().find(|row| row.name == "write").expect("it writes");
    assert_eq!(writes.calls, 50, "{calls:#?}");
}

/// Follows a cat that waits for input, and gives it some.
fn of_waiting_cat(mode: Mode, input: &[u8]) -> Option<(Traced, u32, Option<Sysno>)> {
    use std::io::Read as _;
    let _lock = work::lock();
    let mut tracing = work::start(mode)?;
    let mut cat = Command::new("cat");
    let mut cat = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it is started");
    let pid = cat.id();
    let call = waits(pid, "cat");
    let followed = tracing.follow(pid);
    let (mut to, mut from) = (cat.stdin.take().expect("piped"), cat.stdout.take().expect("piped"));
    for byte in input {
        to.write_all(&[*byte]).expect("it reads");
        from.read_exact(&mut [0]).expect("it writes");
    }
    let traced = followed.map(|()| tracing.finish("cat").expect("it is told"));
    drop(to);
    cat.wait().expect("it ends with its input");
    traced.inspect_err(|error| println!("skipped: {error}")).ok().map(|traced| (traced, pid, call))
}

/// Until a process of this name sleeps; the call that it sleeps in, where the kernel names it.
fn waits(pid: u32, name: &str) -> Option<Sysno> {
    const PATIENCE: Duration = Duration::from_secs(60);
    let until = Instant::now() + PATIENCE;
    let told = |what: &str| fs::read_to_string(format!("/proc/{pid}/{what}")).unwrap_or_default();
    while !told("stat").contains(&format!("({name}) S ")) {
        assert!(Instant::now() < until, "{name} does not come to wait: {}", told("stat"));
        std::thread::sleep(Duration::from_millis(1));
    }
    Sysno::new(told("syscall").split_whitespace().next()?.parse().ok()?)
}

#[test]
fn what_a_process_is_stuck_in_when_it_is_followed_is_told() {
    let Some((traced, _, call)) = of_waiting_cat(Mode::Syscalls, &[]) else { return };
    let TraceFound::Syscalls(calls) = &traced.found else { panic!("{traced:?}") };
    let Some(call) = call else {
        println!("not looked at: /proc does not tell this user what others wait in");
        return;
    };
    let waits = calls.iter().find(|row| row.name == call.name());
    let waits = waits.unwrap_or_else(|| panic!("no {call} in {calls:#?}"));
    assert_eq!((waits.calls, waits.unfinished), (0, 1), "{waits:?}");
    assert!(traced.missing.iter().any(|note| note.starts_with("1 call had begun")), "{traced:?}");

    let (traced, _, _) = of_waiting_cat(Mode::OffCpu, &[]).expect("it worked before");
    let TraceFound::OffCpu(rows) = &traced.found else { panic!("{traced:?}") };
    let [row] = rows.as_slice() else { panic!("{rows:#?}") };
    assert_eq!(
        (row.thread.name.as_str(), row.state.as_str(), row.still),
        ("cat", "sleeping", true)
    );
    if !fs::read_to_string("/proc/self/stack").is_ok_and(|stack| !stack.is_empty()) {
        println!("not looked at: stacks of the kernel are for root");
        return;
    }
    assert!(row.kernel_stack.iter().any(|name| name.contains("pipe")), "{row:#?}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn what_a_program_for_32_bits_is_stuck_in_is_of_the_table_for_32_bits() {
    const BASE: u32 = 0x0804_8000;
    const HEAD_BYTES: u32 = 52 + 32;
    // mov eax, 27 (alarm); mov ebx, 60; int 0x80; again: mov eax, 29 (pause); int 0x80; jmp again
    let alarm = [0xb8, 27, 0, 0, 0, 0xbb, 60, 0, 0, 0, 0xcd, 0x80];
    let pause = [0xb8, 29, 0, 0, 0, 0xcd, 0x80, 0xeb, 0xf7];
    let code = [&alarm[..], &pause].concat();
    let all_bytes = HEAD_BYTES + code.len() as u32;
    let mut program = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    // An executable (2) for i386 (3), whose one segment (1) is itself, to be read and run (5).
    let words = [2 | 3 << 16, 1, BASE + HEAD_BYTES, 52, 0, 0, 52 | 32 << 16, 1, 0];
    let segment = [1, 0, BASE, BASE, all_bytes, all_bytes, 5, 4096];
    words.iter().chain(&segment).for_each(|word: &u32| program.extend(word.to_le_bytes()));
    program.extend(code);
    let _lock = work::lock();
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("bytes"), program).expect("a file");
    // By another process: who is started here meanwhile has none of it open for writing.
    let copy = "cat bytes >pauses && chmod +x pauses";
    assert!(work::run(shell(copy).current_dir(&folder)).success());
    let Some(mut tracing) = work::start(Mode::Syscalls) else { return };
    let Ok(mut pauses) = Command::new(folder.path().join("pauses")).spawn() else {
        return println!("skipped: this kernel runs no programs for 32 bits");
    };
    let call = waits(pauses.id(), "pauses");
    let followed = tracing.follow(pauses.id());
    let traced = followed.and_then(|()| tracing.finish("a pause"));
    pauses.kill().expect("it is there");
    pauses.wait().expect("it ends");
    let traced = match traced {
        Ok(traced) => traced,
        Err(error) => return println!("skipped: {error}"),
    };
    let TraceFound::Syscalls(calls) = &traced.found else { panic!("{traced:?}") };
    if call.is_none() {
        return println!("not looked at: /proc does not tell this user what others wait in");
    }
    let calls: Vec<_> = calls.iter().map(|row| (row.name.as_str(), row.unfinished)).collect();
    assert_eq!(calls, [("32-bit call 29", 1)]);
}

#[test]
fn records_of_mappings_that_nobody_took_in_time_are_told() {
    // A record tells its file's path, of which a ring holds no more than some two hundred.
    let lines = "import mmap, os, tempfile\n\
         with tempfile.TemporaryDirectory() as folder:\n\
         \x20   os.chdir(folder)\n\
         \x20   for _ in range(14): os.mkdir('d' * 250); os.chdir('d' * 250)\n\
         \x20   file = os.open('f', os.O_RDWR | os.O_CREAT)\n\
         \x20   os.ftruncate(file, 4096)\n\
         \x20   for _ in range(20000): mmap.mmap(file, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)";
    let Some(mut python) = python(lines) else { return };
    let Some(traced) = of_command(Mode::OffCpu, &mut python) else { return };
    if traced.missing.iter().any(|note| note.contains("perf_event_open")) {
        return println!("skipped: {:?}", traced.missing);
    }
    let told = traced.missing.iter().any(|note| note.contains("came faster than anybody took"));
    assert!(told, "{:?}", traced.missing);
}

#[test]
fn who_is_woken_and_never_seen_to_run_has_its_name() {
    let Some((traced, pid, _)) = of_waiting_cat(Mode::Wakeups, &[7; 50]) else { return };
    let TraceFound::Wakeups(rows) = &traced.found else { panic!("{traced:?}") };
    let this = fs::read_to_string("/proc/thread-self/comm").expect("it lives");
    let woken = rows.iter().find(|row| {
        row.wakee.name == this.trim_end() && row.waker.as_ref().is_some_and(|who| who.pid == pid)
    });
    assert!(woken.is_some_and(|row| row.wakee.pid == std::process::id()), "{rows:#?}");
}

#[test]
fn a_thread_that_lives_has_the_name_that_it_gave_itself() {
    use std::io::BufRead as _;
    let lines = "import ctypes, signal, threading, time\n\
         signal.alarm(60)\n\
         def work():\n\
         \x20   ctypes.CDLL(None).prctl(15, b'renamed', 0, 0, 0)\n\
         \x20   print('named', flush=True)\n\
         \x20   while True: time.sleep(0.01)\n\
         threading.Thread(target=work).start()\n\
         threading.Event().wait(60)";
    let Some(mut python) = python(lines) else { return };
    let _lock = work::lock();
    let Some(mut tracing) = work::start(Mode::OffCpu) else { return };
    tracing.arm().expect("this process is known");
    let mut python = python.stdout(Stdio::piped()).spawn().expect("it is started");
    tracing.disarm();
    let mut said = String::new();
    let output = python.stdout.take().expect("piped");
    std::io::BufReader::new(output).read_line(&mut said).expect("it says so");
    let traced = tracing.finish("a thread").expect("it is told");
    python.kill().expect("it is there");
    python.wait().expect("it ends");
    assert_eq!(said, "named\n");
    if fs::read_link("/proc/self/ns/pid").expect("it is told").as_os_str() != "pid:[4026531836]" {
        return println!("not looked at: numbers here are not those that programs see");
    }
    let TraceFound::OffCpu(rows) = &traced.found else { panic!("{traced:?}") };
    let named = rows.iter().find(|row| row.thread.name == "renamed");
    let thread = &named.unwrap_or_else(|| panic!("{rows:#?}")).thread;
    assert!(thread.pid == python.id() && thread.tid != thread.pid, "{thread:?}");
}

#[test]
fn where_nobody_tells_the_cpus_nothing_is_written_beyond_what_there_is_room_for() {
    const WITHOUT: &str = "BYTEPATH_TEST_WITHOUT_SYS";
    if std::env::var_os(WITHOUT).is_some() {
        let error = Tracing::start(Mode::Syscalls).expect_err("it has a value for each CPU");
        assert!(error.to_string().contains("/sys/devices/system/cpu/possible"), "{error}");
        return;
    }
    let _lock = work::lock();
    if work::start(Mode::Syscalls).is_none() {
        return;
    }
    let this = std::env::current_exe().expect("it runs");
    let name = std::thread::current().name().expect("that of the test").to_owned();
    let line = "mount -t tmpfs none /sys || exit 77; exec \"$0\" --exact \"$1\"";
    let mut alone = Command::new("unshare");
    alone.args(["-m", "sh", "-c", line]).arg(this).arg(name).env(WITHOUT, "1");
    let done = alone.output().expect("it is started");
    let said = String::from_utf8_lossy(&done.stdout);
    match done.status.code() {
        Some(77) => println!("skipped: nothing can be mounted: {done:?}"),
        code => assert!(code == Some(0) && said.contains("1 passed"), "{done:?}"),
    }
}

#[test]
fn what_is_dropped_leaves_no_thread() {
    const PATIENCE: Duration = Duration::from_secs(60);
    let names = || {
        let threads = fs::read_dir("/proc/self/task").expect("its own").flatten();
        let names =
            threads.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
        names.filter(|name| name.starts_with("bytepath"))
    };
    let _lock = work::lock();
    for mode in [Mode::FileLife, Mode::Tcp, Mode::OffCpu] {
        let Some(mut tracing) = work::start(mode) else { continue };
        assert!(tracing.follow(1 << 30).is_err(), "no process has this number");
        drop(tracing);
        let until = Instant::now() + PATIENCE;
        while names().next().is_some() {
            assert!(Instant::now() < until, "{mode:?}: {:?}", names().collect::<Vec<_>>());
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_process_that_is_not_there_is_refused() {
    let Some(mut tracing) = work::start(Mode::Syscalls) else { return };
    let error = tracing.follow(1 << 30).expect_err("no process has this number");
    assert!(error.to_string().contains("process 1073741824"), "{error}");
}
