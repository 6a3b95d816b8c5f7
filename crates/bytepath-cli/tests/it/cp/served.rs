//! Files of FUSE, whose server answers reads short.

use crate::fuse::{Served, shell};

#[test]
fn what_is_answered_short_is_copied_whole_and_io_uring_refuses_it() {
    let bytes: Vec<u8> = (0..20_000_u32).flat_map(u32::to_le_bytes).collect();
    let served = Served { bytes: bytes.clone(), size: bytes.len(), answer_bytes: 1000 };
    let here = || tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    for words in ["", "--direct", "--uncached", "--route linux-aio", "--route read-write"] {
        let folder = here();
        std::fs::write(folder.path().join("plain"), &bytes).expect("a file");
        let line = format!(
            "$bytepath cp {words} served/file new; cmp plain new && $bytepath cat new | cmp - plain"
        );
        let Some(done) = shell(&served, folder.path(), &line) else { return };
        // File systems in memory have no direct access.
        let cannot = done.stderr.contains("O_DIRECT") && words != "--direct";
        assert!(done.status.success() || cannot, "{words}: {done:?}");
    }
    for route in ["uring", "uring-registered", "uring-linked", "uring-direct"] {
        let line = format!("$bytepath cp --route {route} served/file new");
        let Some(done) = shell(&served, here().path(), &line) else { return };
        let cannot = done.stderr.contains("O_DIRECT");
        let why = if cannot { "O_DIRECT" } else { "io_uring loses its place in files of FUSE" };
        done.refused(1, &["error copying 'served/file' to 'new'", why]);
    }
    for engine in ["uring", "uring-registered", "uring-sqpoll"] {
        let line = format!("$bytepath drive --engine {engine} served/file");
        let Some(done) = shell(&served, here().path(), &line) else { return };
        done.refused(1, &["io_uring loses its place in files of FUSE"]);
    }
}

#[test]
fn a_file_that_is_shorter_than_its_server_tells_is_copied_as_it_is_read() {
    let bytes = b"of which there are no more".to_vec();
    let served = Served { bytes: bytes.clone(), size: 1_000_000, answer_bytes: 1000 };
    let here = || tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    for words in ["", "--route read-write", "--route sendfile", "--sparse=always", "--verify"] {
        let folder = here();
        let line = format!("$bytepath cp --reflink=never {words} served/file new");
        let Some(done) = shell(&served, folder.path(), &line) else { return };
        done.well();
        assert_eq!(std::fs::read(folder.path().join("new")).expect("a file"), bytes, "{words}");
    }
    let line = "$bytepath cp --route mmap-write served/file new";
    let Some(done) = shell(&served, here().path(), line) else { return };
    done.refused(1, &["a server may tell the size of files of fuse"]);
}
