//! Trees and options drawn at random: whatever comes, the classic's outcome.

use std::path::{Path, PathBuf};

use super::{date, directory, file, gnu, mode};

/// Runs of the two programs. Each seed stands for one tree and one line.
const SEEDS: u64 = 150;

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
                let bytes =
                    vec![random.u8(..); *random.choice(&[0, 1, 70, 5000, 66_000]).expect("some")];
                file(&whole, &bytes, random.u64(..50));
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
