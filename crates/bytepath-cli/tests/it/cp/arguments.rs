//! What is wrong with the arguments, in the classic's words.

use super::{gnu, some};

#[test]
fn misuse_is_told_in_the_classics_words() {
    let Some(cp) = gnu() else { return };
    let lines = [
        "cp",
        "cp a",
        "cp -t e",
        "cp a b c",
        "cp -T a b c",
        "cp -t e -T a",
        "cp -t x a",
        "cp -t a b",
        "cp -t e -t d a",
        "cp --parents a x",
        "cp --sparse=x a c",
        "cp --sparse=a a c",
        "cp --sparse a",
        "cp --reflink=x a c",
        "cp --reflink=always --sparse=always a c",
        "cp --backup=x a c",
        "cp --backup=n a c",
        "VERSION_CONTROL=x cp -b a c",
        "cp --preserve= a c",
        "cp --preserve=mode,y a c",
        "cp --no-preserve=y a c",
        "cp --no-preserve",
        "cp --preserve=context a c",
        "cp --context=x a c",
        "cp -Z a c",
        "cp -ls a c",
        "cp -bn a c",
        "cp --ba --no-cl a c",
        "cp -S",
        "cp -k a c",
        "cp --nonsense a c",
        "cp --re a c",
        "cp --verbose=3 a c",
        "cp --sparse=bad --help",
        "cp --preserve=bad --version",
        "cp --reflink=bad --nonsense",
        "cp -va c -- -b; cp -- -b e",
        "POSIXLY_CORRECT=1 cp a c -v",
    ];
    for line in lines {
        cp.both(line, some).same();
    }
}

#[test]
fn operands_are_told_apart_as_the_classic_does() {
    let Some(cp) = gnu() else { return };
    let lines = [
        "cp a a",
        "cp a ./a",
        "cp a l",
        "cp l a",
        "cp -P l a",
        "cp -P a l",
        "cp d c",
        "cp '' c",
        "cp a ''",
        "cp -r '' c",
        "cp a c/",
        "cp a b/",
        "cp a e/",
        "cp -v a e//",
        "cp a/ c",
        "cp -v d/x d/sub/ e",
        "cp -rv d/ e",
        "cp -rv d/. e",
        "cp -rv d/sub/.. e",
        "cp -rv d/sub/../ e",
        "cp -r --strip-trailing-slashes to-d/ e",
        "cp -r --strip-trailing-slashes to-d/ c",
        "cp --strip-trailing-slashes a/ c",
        "cp -T --strip-trailing-slashes a/ c",
        "cp -r to-d/ e",
        "cp -r to-d e",
        "cp nowhere c",
        "cp broken c",
        "cp a broken",
        "POSIXLY_CORRECT=1 cp a broken",
        "cp a nowhere/c",
        "cp a a/c",
        "cp a a e",
        "cp a ./a b l e",
        "cp -v a b nowhere l e; cp a d/x e",
        "cp -b a d/../a e",
        "cp -r d ./d e",
        "cp -r d d e",
        "cp d/x a e d/sub/y; cp -v a e b",
        "mkdir e/a; cp a e",
        "cp -r d a",
        "cp -T a e",
        "cp -rT d e",
        "cp -r e d/x",
        "cp -r d d/sub",
        "cp -rv d d",
        "cp -r d d/new",
        "mkdir c c/d; chmod 700 c/d; chmod 755 d; cp -r --no-preserve=mode d c",
        "umask 077; mkdir c c/d; chmod 755 c/d; cp -rT --no-preserve=mode d c/d",
        "mkdir c c/d; chown 1 c/d; chmod 2755 c/d; chmod 755 d; cp -a d c",
        "mkdir c c/d; chgrp 1 c/d; chmod 3775 c/d; chmod 755 d; cp -rp d c",
        "chown 1 a; cp -as a c; cp -as l m",
        "cp -r . e",
        "cp -rv . ./e/f",
        "cp -r / a",
        "mkdir p q; cp a p; cp b q/a; cp p/a q/a e",
        "mkdir p q; cp a p; cp b q/a; cp --backup=numbered p/a q/a e",
        "mkdir p q; ln -s ../b p/a; cp a q; cp -P p/a q/a e",
        "cp /dev/null c; cp /dev/null a",
        "cp -v /proc/version c; cmp c /proc/version; cp -r /proc/self/limits c; wc -l <c",
        "echo in | cp /dev/stdin c; cp a /dev/stdout; cp a /dev/null",
        "touch \"it's\" 'n\new' \"$(printf '\\303\\251\\377')\"; cp -v *[!a-z]* e",
    ];
    for line in lines {
        cp.both(line, some).same();
    }
}

#[test]
fn output_that_cannot_be_written_is_told_of() {
    let Some(cp) = gnu() else { return };
    for line in ["cp -v a c >/dev/full; echo $?", "cp -v a c >&-; echo $?", "cp a c >&-; echo $?"] {
        cp.both(line, some).same();
    }
}

#[test]
fn a_descriptor_that_was_closed_has_no_name() {
    let Some(cp) = gnu() else { return };
    // Nothing in /dev is a destination by its own name: root would replace it.
    let lines = [
        "cp /dev/stdin b <&-",
        "cp -d /dev/stdin c <&-; cp -R /dev/fd/0 c <&-; readlink c",
        "cp -R --copy-contents /dev/fd/0 c <&-",
        "cp i b <&-; cp a i <&-; cp -f a i <&-; cp -P i j <&-; readlink j",
        "cp a /dev/fd/0 <&-; cp -f a /dev/fd/0 <&-; cp -b a /proc/self/fd/0 <&-",
        "cp a /dev/fd/2 2>&-; echo $?; cp /dev/fd/2 b 2>&-; echo $?; cp a /dev/fd/1 >&-",
        "cp a b i <&-; cp a b /dev/fd/0 <&-",
        "cp /dev/stdin c <a 2>&-; cp a /dev/fd/1 <&-; cp /dev/null b <&-",
    ];
    for line in lines {
        cp.both(&format!("ln -s /dev/stdin i; {line}"), some).same();
    }
}
