//! Trees and options drawn at random: whatever comes, the classic's outcome.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::{date, directory, gnu, mode};

/// Runs of the two programs. Each seed stands for one tree and one line.
const SEEDS: u64 = 150;

/// Of files; those of a buffer or more are no whole number of blocks.
const SIZES: [usize; 8] = [0, 1, 70, 5000, 66_000, (128 << 10) - 1, (128 << 10) + 1, (1 << 20) + 1];

const FLAGS: &[&str] = &[
    "-v",
    "-r",
    "-r",
    "-a",
    "-p",
    "-d",
    "-f",
    "-u",
    "-n",
    "-b",
    "-l",
    "-s",
    "-L",
    "-P",
    "-H",
    "-T",
    "-x",
    "--parents",
    "--remove-destination",
    "--strip-trailing-slashes",
    "--attributes-only",
    "--backup=numbered",
    "--sparse=always",
    "--sparse=never",
    "--reflink=auto",
    "--preserve=links",
    "--no-preserve=mode",
    "--preserve=timestamps",
    "--copy-contents",
    "-S .b",
];

fn tree(random: &mut fastrand::Rng, root: &Path) -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from("."), "t".into(), "u".into()];
    let mut made = Vec::new();
    for path in &folders {
        directory(&root.join(path));
    }
    for number in 0..random.usize(6..20) {
        let folder = folders[random.usize(..folders.len())].clone();
        let name = *random.choice(&["a", "b", "c", "x y", "é", "~", "a~", "d", "l"]).expect("some");
        let path = folder.join(name);
        let whole = root.join(&path);
        if whole.symlink_metadata().is_ok() {
            continue;
        }
        match random.usize(..8) {
            0 | 1 => {
                directory(&whole);
                folders.push(path.clone());
            }
            2 => {
                let target =
                    *random.choice(&["a", "..", "../a", "nowhere", "t", "."]).expect("some");
                std::os::unix::fs::symlink(target, &whole).expect("a link");
            }
            3 if !made.is_empty() => {
                let other: &PathBuf = &made[random.usize(..made.len())];
                let other = root.join(other);
                if other.symlink_metadata().is_ok_and(|data| data.is_file()) {
                    std::fs::hard_link(other, &whole).expect("a link");
                }
            }
            _ => {
                let seed = random.u8(..).into();
                some_file(&whole, *random.choice(&SIZES).expect("some"), seed);
                date(&whole, random.u64(..50));
                mode(&whole, *random.choice(&[0o644, 0o600, 0o755, 0o444, 0o6711]).expect("some"));
            }
        }
        let _ = number;
        made.push(path);
    }
    for (age, folder) in folders.iter().enumerate().rev() {
        date(&root.join(folder), 100 + age as u64);
    }
    made.extend(folders);
    made
}

/// A file that looks the same from no two places. Some have runs of zeros, others a hole before what is
/// written, or behind it: in a file that has a hole, the classic looks for zeros too.
fn some_file(path: &Path, bytes: usize, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut written = vec![0; bytes];
    random.fill(&mut written);
    let hole = *random.choice(&[0, 0, 8192, 200_000]).expect("some");
    for _ in 0..if hole == 0 { random.usize(..3) } else { 0 } {
        let from = random.usize(..=bytes);
        let run = *random.choice(&[1, 600, 4096, 40_000, 300_000]).expect("some");
        written.iter_mut().skip(from).take(run).for_each(|byte| *byte = 0);
    }
    let file = File::create(path).expect("a file");
    file.set_len(hole + bytes as u64).expect("it is ours");
    file.write_all_at(&written, *random.choice(&[0, hole]).expect("some")).expect("written");
}

#[test]
fn random_trees_and_options_come_out_as_the_classics() {
    let Some(cp) = gnu() else { return };
    for seed in 0..SEEDS {
        let random = fastrand::Rng::with_seed(seed);
        let scratch = tempfile::tempdir().expect("a folder");
        let paths = tree(&mut random.clone(), scratch.path());
        let mut draw = fastrand::Rng::with_seed(seed + 10_000);
        let mut line = "cp".to_owned();
        for _ in 0..draw.usize(0..5) {
            line.push_str(&format!(" {}", draw.choice(FLAGS).expect("some")));
        }
        for _ in 0..draw.usize(1..4) {
            let path = &paths[draw.usize(..paths.len())];
            line.push_str(&format!(" '{}'", path.display()));
        }
        let into = [" t", " u", " new", " u/new", " a"];
        line.push_str(draw.choice(into).expect("some"));
        println!("seed {seed}: {line}");
        cp.both(&line, |work| {
            tree(&mut random.clone(), work);
        })
        .same();
    }
}
