//! Every option and pair of options over contents that are easy to get wrong.

use std::path::Path;

use super::gnu;

const OPTIONS: [&str; 10] = ["-A", "-b", "-e", "-E", "-n", "-s", "-t", "-T", "-u", "-v"];

/// What both read at a time: lines and line ends are put across it.
const BUFFER_BYTES: usize = 128 << 10;

/// Contents by the files' names, in the order in which a shell lists them.
fn tricky(folder: &Path) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let filler = |bytes: usize| vec![b'x'; bytes];
    let across = |end: &[u8]| [filler(BUFFER_BYTES - 1).as_slice(), end].concat();
    let contents: [(&str, Vec<u8>); 20] = [
        ("01", b"no line end".to_vec()),
        ("02", b"".to_vec()),
        ("03", b"\n".to_vec()),
        ("04", b"\n\n\n\nfour empty ones before, three after\n\n\n\n".to_vec()),
        ("05", b"dos\r\n\r\n\r\n\r\rmac\r\nalone\rinside\r\r\n".to_vec()),
        ("06", b"ends with a return\r".to_vec()),
        ("07", b"\nbegins with a line end\n".to_vec()),
        ("08", b"again a return\r".to_vec()),
        ("09", b"begins with text\n".to_vec()),
        ("10", every_byte.clone()),
        ("11", every_byte.iter().rev().copied().collect()),
        ("12", every_byte.iter().flat_map(|byte| [*byte, b'\n']).collect()),
        ("13", b"\ttab\t\t\ttabs\t\n\t\n \t\n".to_vec()),
        ("14", across(b"\r\nafter\n")),
        ("15", across(b"\rafter\n")),
        ("16", across(b"\n\n\n\nafter\n")),
        ("17", across(b"\r")),
        ("18", [filler(BUFFER_BYTES).as_slice(), b"\tlong\xff\n"].concat()),
        ("19", b"\n".repeat(BUFFER_BYTES + 7)),
        ("20", b"\r\n\xe9\t\x7f\n".repeat(BUFFER_BYTES / 16)),
    ];
    for (name, bytes) in contents {
        std::fs::write(folder.join(name), bytes).expect("a file");
    }
}

#[test]
fn every_option_and_pair_of_options_shows_what_the_classic_shows() {
    let Some(cat) = gnu() else { return };
    for (at, one) in OPTIONS.iter().enumerate() {
        for other in &OPTIONS[at..] {
            // All as one: what is known of a line goes on from file to file.
            let line = format!(
                "cat {one} {other} ?? 01 01 >out; cat {one} {other} 06 03 06 01 05 05; \
                 cat {one} {other} 17 03 17 01"
            );
            cat.both(&line, tricky).same();
        }
    }
}

#[test]
fn every_option_shows_each_file_as_the_classic_shows_it() {
    let Some(cat) = gnu() else { return };
    for option in OPTIONS {
        cat.both(&format!("for file in ??; do cat {option} $file; done >out"), tricky).same();
    }
}

#[test]
fn all_options_together_show_what_the_classic_shows() {
    let Some(cat) = gnu() else { return };
    for options in ["-AbeEnstTuv", "-bsET", "-nsET", "-nsEv", "-bsT", "-nE", "-sET -b -n"] {
        cat.both(&format!("cat {options} ??; cat {options} - 05 - <04"), tricky).same();
    }
}

#[test]
fn random_contents_in_random_pieces_show_what_the_classic_shows() {
    let Some(cat) = gnu() else { return };
    let alphabet = b"\n\n\n\r\r\t a\0\x01\x7f\x80\x9f\xa0\xff\xe9";
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bytes = || {
            let length = random.usize(0..3000);
            let byte = |_| *random.choice(alphabet).expect("some");
            (0..length).map(byte).collect::<Vec<u8>>()
        };
        let (a, b) = (bytes(), bytes());
        let chosen = random.usize(1..1 << OPTIONS.len());
        let of_bit = |bit: &usize| chosen & (1 << bit) != 0;
        let options: Vec<_> = (0..OPTIONS.len()).filter(of_bit).map(|bit| OPTIONS[bit]).collect();
        let (options, piece) = (options.join(" "), random.usize(1..200));
        // dd gives pieces of the size asked for, which end wherever they end.
        let line =
            format!("dd if=a bs={piece} status=none | cat {options} - b a; cat {options} b b");
        let files = |folder: &Path| {
            std::fs::write(folder.join("a"), &a).expect("a file");
            std::fs::write(folder.join("b"), &b).expect("a file");
        };
        cat.both(&line, files).same();
    }
}

#[test]
fn line_numbers_grow_beyond_their_width() {
    let Some(cat) = gnu() else { return };
    let lines =
        |folder: &Path| std::fs::write(folder.join("a"), "\n".repeat(1_100_000)).expect("a file");
    cat.both("cat -n a | tail -c 3000000", lines).same();
}
