//! The machine's pool of 2 MiB pages, which tests look at, and root fills for them and empties again: also what
//! a test left there that was killed.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

use bytepath::machine::Machine;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Signal, geteuid, getpid, kill_process};

const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// What the pool had before a test filled it, and since when the machine runs: for the next one, should that test be
/// killed. Whatever was built where, the machine has one pool.
const NOTE: &str = "/run/bytepath-test-pool";

/// Pages that a test adds.
const PAGES: usize = 8;

/// The pool, while no other test adds to it or looks at it.
pub(crate) struct Pool {
    _lock: File,
}

impl Pool {
    /// Waits for its turn; none where this kernel has no pool.
    pub(crate) fn turn() -> Option<Pool> {
        let lock = File::open(number("nr_hugepages")).ok()?;
        flock(&lock, FlockOperation::LockExclusive).expect("any file can be locked");
        let pool = Pool { _lock: lock };
        pool.restore();
        Some(pool)
    }

    pub(crate) fn free_pages(&self) -> usize {
        self.read("free_hugepages")
    }

    fn pages(&self) -> usize {
        self.read("nr_hugepages")
    }

    fn read(&self, name: &str) -> usize {
        let told = fs::read_to_string(number(name)).expect("it is there");
        told.trim().parse().expect("a number")
    }

    /// Takes out what a test has added, if one has.
    fn restore(&self) {
        // Nobody else can, and the pages are there then, as other people's may be.
        if !geteuid().is_root() {
            return;
        }
        let note = match fs::read_to_string(NOTE) {
            Ok(note) => note,
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            Err(error) => panic!("{NOTE}: {error}"),
        };
        // After a restart of the machine the pool has nothing of a test's.
        if let Some((boot, before)) = note.trim().split_once(' ')
            && boot == Machine::this().boot_id()
        {
            let before: usize = before.parse().expect("a number of pages");
            let now = self.pages();
            // Others may have added to it too.
            let added = now.saturating_sub(before).min(PAGES);
            if added > 0 {
                let rest = (now - added).to_string();
                fs::write(number("nr_hugepages"), rest).expect("it was filled");
            }
        }
        fs::remove_file(NOTE).expect("it is ours");
    }

    fn fill(&self) -> std::io::Result<()> {
        let before = self.pages();
        // Moved there whole, as half a note says nothing.
        let whole = format!("{NOTE}.new");
        fs::write(&whole, format!("{} {before}", Machine::this().boot_id()))?;
        fs::rename(&whole, NOTE)?;
        fs::write(number("nr_hugepages"), (before + PAGES).to_string())
    }
}

fn number(name: &str) -> std::path::PathBuf {
    Path::new(POOL).join(name)
}

/// The pool with more pages, while this lives.
pub(crate) struct Filled {
    pool: Pool,
}

impl Filled {
    /// Waits for its turn, maybe as long as another test of the machine takes: before a test is bounded in time.
    pub(crate) fn new() -> Option<Filled> {
        Filled::made().inspect_err(|why| eprintln!("skipped: {why}")).ok()
    }

    fn made() -> Result<Filled, String> {
        let pool = Pool::turn().ok_or("this kernel has no pool of 2 MiB pages")?;
        let before = pool.pages();
        let filled = Filled { pool };
        filled.pool.fill().map_err(|error| format!("the pool cannot be filled: {error}"))?;
        if filled.pool.pages() < before + PAGES {
            return Err(format!("memory is too fragmented for {PAGES} pages of 2 MiB"));
        }
        Ok(filled)
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        self.pool.restore();
    }
}

#[test]
fn what_a_killed_test_left_in_the_pool_is_taken_out_by_the_next() {
    const KILLED: &str = "pool::what_a_killed_test_left_in_the_pool_is_taken_out_by_the_next";
    const CHILD: &str = "BYTEPATH_TEST_POOL";
    if std::env::var_os(CHILD).is_some() {
        let _filled = Filled::new();
        kill_process(getpid(), Signal::KILL).expect("it is us");
    }
    let Some(filled) = Filled::new() else { return };
    drop(filled);
    let before = Pool::turn().expect("it is there").pages();
    let killed = crate::this_test(KILLED).env(CHILD, "1").output().expect("it runs");
    assert!(!killed.status.success());
    // Where an ordinary user is the next, whose tests are skipped, it is left to root.
    let refused = std::thread::spawn(|| {
        let nobody = rustix::process::Uid::from_raw(65_534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("root may");
        Filled::made().map(drop)
    });
    let why = refused.join().expect("no panic").expect_err("only root may");
    assert!(why.contains("cannot be filled"), "{why}");
    assert_eq!(Pool::turn().expect("it is there").pages(), before);
    assert!(!Path::new(NOTE).exists());
}
