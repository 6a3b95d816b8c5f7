//! Each way of being attached tells the same.

use std::fs::read_link;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use bytepath_explain::trace::{Mode, Tracing, Way};
use bytepath_report::TraceFound;

use crate::work::{is_by, lock, of_command_by, shell};

#[test]
fn system_calls_are_counted_alike_in_each_way() {
    let dd = ["if=/dev/zero", "of=/dev/null", "bs=512", "count=500", "status=none"];
    let mut counts = Vec::new();
    for way in Way::ALL {
        let traced = of_command_by(Mode::Syscalls, &[way], Command::new("dd").args(dd));
        let Some(traced) = traced else { continue };
        assert!(traced.attached.iter().all(|to| to.by == way.to_string()), "{traced:?}");
        let TraceFound::Syscalls(calls) = &traced.found else { panic!("{traced:?}") };
        let mut calls: Vec<_> = calls.iter().map(|row| (row.name.clone(), row.calls)).collect();
        calls.sort();
        counts.push((way, calls));
    }
    for (way, calls) in &counts {
        assert_eq!(calls, &counts[0].1, "{way} as {}", counts[0].0);
        let writes = calls.iter().find(|(name, _)| name == "write");
        assert_eq!(writes, Some(&("write".to_owned(), 500)), "{way}");
    }
}

#[test]
fn what_another_thread_than_the_first_executes_is_traced_in_each_way() {
    let lines = "import os, threading\n\
         dd = ['dd', 'if=/dev/zero', 'of=/dev/null', 'bs=512', 'count=1000', 'status=none']\n\
         threading.Thread(target=os.execvp, args=('dd', dd)).start()\n\
         threading.Event().wait(60)";
    for way in Way::ALL {
        let Some(mut python) = crate::python(lines) else { return };
        let traced = of_command_by(Mode::Syscalls, &[way], &mut python);
        let Some(traced) = traced else { continue };
        let TraceFound::Syscalls(calls) = &traced.found else { panic!("{traced:?}") };
        let of = |name: &str| calls.iter().find(|row| row.name == name).expect("it is made");
        assert!(of("read").calls >= 1000 && of("write").calls >= 1000, "{way}: {calls:#?}");
        assert_eq!(of("execve").unfinished, 0, "{way}: {calls:#?}");
    }
}

#[test]
fn a_thread_that_still_lives_is_of_its_process_in_each_way() {
    let lines = "import signal, threading, time\n\
         signal.alarm(60)\n\
         def work():\n\
         \x20   time.sleep(0.05)\n\
         \x20   print('slept', flush=True)\n\
         \x20   while True: time.sleep(0.01)\n\
         threading.Thread(target=work).start()\n\
         threading.Event().wait(60)";
    for way in Way::ALL {
        let Some(mut python) = crate::python(lines) else { return };
        let _lock = lock();
        let mut tracing = match Tracing::start_by(Mode::OffCpu, &[way]) {
            Ok(tracing) => tracing,
            Err(error) => {
                println!("skipped: {error}");
                continue;
            }
        };
        tracing.arm().expect("this process is known");
        let mut python = python.stdout(Stdio::piped()).spawn().expect("it is started");
        tracing.disarm();
        let mut said = String::new();
        let output = python.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut said).expect("it says so");
        let traced = tracing.finish("a thread").expect("it is told");
        let pid = python.id();
        python.kill().expect("it is there");
        python.wait().expect("it ends");
        assert_eq!(said, "slept\n");
        if read_link("/proc/self/ns/pid").expect("told").as_os_str() != "pid:[4026531836]" {
            return println!("not looked at: numbers here are not those that programs see");
        }
        let TraceFound::OffCpu(rows) = &traced.found else { panic!("{traced:?}") };
        let slept: Vec<_> = rows
            .iter()
            // Whatever else python3 starts first, such as a shell, has other names.
            .filter(|row| row.thread.name == "python3" && row.thread.tid != pid)
            .collect();
        assert!(!slept.is_empty(), "{way}: {rows:#?}");
        assert!(slept.iter().all(|row| row.thread.pid == pid), "{way}: {slept:#?}");
        // Where the program's code lies is told by its process.
        let named = slept.iter().any(|row| !row.user_stack.is_empty());
        assert!(
            named || traced.missing.iter().any(|why| why.contains("perf")),
            "{way}: {slept:#?}"
        );
    }
}

#[test]
fn sleeps_and_wakers_are_told_in_each_way() {
    for way in Way::ALL {
        let line = "(sleep 0.05; echo) | cat";
        let Some(traced) = of_command_by(Mode::OffCpu, &[way], &mut shell(line)) else { continue };
        let TraceFound::OffCpu(rows) = &traced.found else { panic!("{traced:?}") };
        let by_shell = |row: &&bytepath_report::TraceOffCpu| {
            row.thread.name == "cat" && row.waker.as_ref().is_some_and(|who| who.name == "sh")
        };
        assert!(rows.iter().any(|row| by_shell(&row)), "{way}: {rows:#?}");
        let slept: f64 =
            rows.iter().filter(|row| row.thread.name == "sleep").map(|row| row.seconds).sum();
        // Kept from its CPU on its way, it loses a little of what it would sleep.
        assert!(slept >= 0.045, "{way}: {rows:#?}");

        let Some(traced) = of_command_by(Mode::Wakeups, &[way], &mut shell(line)) else { continue };
        let TraceFound::Wakeups(rows) = &traced.found else { panic!("{traced:?}") };
        let woken = rows.iter().any(|row| is_by(row, "sh") && row.wakee.name == "cat");
        assert!(woken, "{way}: {rows:#?}");
    }
}

#[test]
fn files_and_connections_and_interrupts_work_in_each_way_or_say_why_not() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = server.local_addr().expect("an address").port();
    // What comes over the loopback comes in a soft interrupt.
    let line =
        format!("cat /dev/null; exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'twelve bytes' >&3");
    for way in Way::ALL {
        for mode in [Mode::FileLife, Mode::Tcp, Mode::Softirq] {
            let traced = of_command_by(mode, &[way], Command::new("bash").args(["-c", &line]));
            let Some(traced) = traced else { continue };
            let is_told = match &traced.found {
                TraceFound::FileLife(files) => files.iter().any(|file| file.path == "/dev/null"),
                TraceFound::Tcp(rows) => rows.iter().any(|row| row.sent_bytes == 12),
                TraceFound::Softirq(rows) => rows.iter().any(|row| row.vector == "net-rx"),
                _ => false,
            };
            assert!(is_told, "{way}: {traced:#?}");
        }
    }
}
