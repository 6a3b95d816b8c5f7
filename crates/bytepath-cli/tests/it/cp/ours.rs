//! What ours does that this version of the classic does not, or not in this way.

use crate::program::shell;

/// Runs the lines in a folder with a file `a` and an older `c`.
fn in_folder(lines: &str) -> crate::program::Done {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().display();
    shell(&format!("cd {path} && echo one >a && echo old >c && touch -d @1 c && {lines}"))
}

#[test]
fn update_takes_the_words_of_later_versions() {
    let done = in_folder("$bytepath cp --update=none a c && cat c").well();
    assert_eq!(done.stdout, "old\n");
    let done = in_folder("$bytepath cp --update=none-fail a c; echo $?; cat c");
    assert_eq!(
        (done.stdout.as_str(), done.stderr.as_str()),
        ("1\nold\n", "cp: not replacing 'c'\n")
    );
    let done = in_folder("$bytepath cp --update=older a c && cat c").well();
    assert_eq!(done.stdout, "one\n");
    let done = in_folder("touch -d @0 a; $bytepath cp -u --update=all a c && cat c").well();
    assert_eq!(done.stdout, "one\n");
}

#[test]
fn debug_tells_the_truth_about_each_file() {
    let done = in_folder("$bytepath cp --debug --reflink=never a d; $bytepath cp --debug -n a c");
    let wanted =
        "'a' -> 'd'\ncopy offload: avoided, reflink: no, sparse detection: no\nskipped 'c'\n";
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), (wanted, ""));
    let done = in_folder(
        "truncate -s 1M h; echo x >>h; $bytepath cp --debug h i | tail -1; \
         $bytepath cp --debug --sparse=always h j | tail -1",
    );
    let lines: Vec<_> = done.stdout.lines().collect();
    assert!(lines[0].ends_with("sparse detection: SEEK_HOLE"), "{lines:?}");
    assert!(lines[1].ends_with("sparse detection: SEEK_HOLE + zeros"), "{lines:?}");
}

#[test]
fn links_to_directories_are_kept_on_request() {
    let prepare = "mkdir -p s/d real && echo x >s/d/x && mkdir t && ln -s ../real t/d &&";
    let done = in_folder(&format!(
        "{prepare} $bytepath cp -r --keep-directory-symlink s/. t && cat real/x"
    ));
    assert_eq!(done.well().stdout, "x\n");
    let done = in_folder(&format!("{prepare} $bytepath cp -r s/. t; ls real"));
    assert_eq!(done.stdout, "");
    assert!(
        done.stderr.contains("cannot overwrite non-directory 't/./d' with directory 's/./d'"),
        "{done:?}"
    );
}

#[test]
fn the_plan_is_explained_and_a_route_can_be_named() {
    let done =
        in_folder("$bytepath cp --explain-plan a d; $bytepath cp --route read-write a f; cat d f");
    assert_eq!(done.stdout, "one\none\n");
    assert!(done.stderr.contains("came: 4 bytes by "), "{}", done.stderr);
}
