"""Copies of trees."""

from __future__ import annotations

import errno
import filecmp
import json
import os
import pickle
import shutil
import signal
import socket
import stat
import sys
import threading
import time
import traceback

import pytest

import bytepath


@pytest.fixture
def tree(tmp_path, some_bytes):
    top = tmp_path / "tree"
    (top / "deep" / "er").mkdir(parents=True)
    for number in range(50):
        (top / "deep" / f"file {number}").write_bytes(some_bytes(number * 1000))
    (top / "deep" / "er" / "run").write_bytes(b"#!/bin/sh\n")
    (top / "deep" / "er" / "run").chmod(0o750)
    os.utime(top / "deep" / "er" / "run", ns=(10**18, 10**18 + 7))
    (top / "link").symlink_to("deep/file 3")
    return top


def same(one, other):
    compared = filecmp.dircmp(one, other)
    if compared.left_only or compared.right_only or compared.funny_files:
        return False
    _, different, odd = filecmp.cmpfiles(one, other, compared.common_files, shallow=False)
    under = (same(os.path.join(one, d), os.path.join(other, d)) for d in compared.common_dirs)
    return not different and not odd and all(under)


@pytest.mark.parametrize("symlinks", [False, True])
def test_a_tree_is_copied_as_shutil_copies_it(command, tree, tmp_path, symlinks):
    shutil.copytree(tree, tmp_path / "theirs", symlinks=symlinks)
    copied = bytepath.copytree(tree, tmp_path / "new" / "ours", symlinks=symlinks)
    ours = tmp_path / "new" / "ours"
    assert same(tmp_path / "theirs", ours)
    assert copied.files == (51 if symlinks else 52)
    assert copied.directories == 3
    assert sum(copied.routes.values()) == copied.bytes
    assert (ours / "link").is_symlink() == symlinks
    for name in ("", "deep", "deep/er/run", "link"):
        one, other = os.stat(tmp_path / "theirs" / name), os.stat(ours / name)
        assert (one.st_mode, one.st_mtime_ns) == (other.st_mode, other.st_mtime_ns)


def names_under(top):
    """Every name in a tree, with its kind, mode and time."""
    found = {}
    for folder, folders, files in os.walk(top):
        for name in [".", *folders, *files]:
            path = os.path.normpath(os.path.join(folder, name))
            status = os.lstat(path)
            found[os.path.relpath(path, top)] = (status.st_mode, status.st_mtime_ns)
    return found


@pytest.fixture
def spoiled(tree):
    """The tree, with things in it that nobody wants."""
    for folder in ("cache", "deep/cache", "deep/er/cache", "only/cache"):
        (tree / folder).mkdir(parents=True)
        (tree / folder / "leftover").write_bytes(b"unwanted")
    for number in range(3):
        (tree / "deep" / f"draft {number}.tmp").write_bytes(b"unwanted")
    (tree / "-n odd\udcff name").mkdir()
    (tree / "-n odd\udcff name" / "-f").write_bytes(b"wanted")
    (tree / "deep" / "only-tmp").mkdir()
    (tree / "deep" / "only-tmp" / "a.tmp").write_bytes(b"unwanted")
    (tree / "deep" / "only-tmp").chmod(0o711)
    for folder in ("deep/only-tmp", "deep/er", "deep", "only", "."):
        os.utime(tree / folder, ns=(10**18, 10**18 + 11))
    return tree


@pytest.mark.parametrize("symlinks", [False, True])
def test_what_is_to_be_ignored_is_left_out_as_shutil_does_it(command, spoiled, tmp_path, symlinks):
    ignore = shutil.ignore_patterns("cache", "*.tmp")
    shutil.copytree(spoiled, tmp_path / "theirs", symlinks, ignore)
    copied = bytepath.copytree(spoiled, tmp_path / "ours", symlinks, ignore)
    theirs, ours = names_under(tmp_path / "theirs"), names_under(tmp_path / "ours")
    if symlinks:
        # Only links of shutil's keep their times.
        theirs["link"] = ours["link"] = "a link"
    assert theirs == ours
    assert same(tmp_path / "theirs", tmp_path / "ours")
    assert copied.directories == 6 and copied.links == symlinks
    assert copied.files == 53 - symlinks
    assert sum(copied.routes.values()) == copied.bytes


@pytest.mark.parametrize("kind", [os.fsencode, lambda path: path], ids=["bytes", "path"])
@pytest.mark.parametrize("copy_function", [shutil.copy2, shutil.copyfile])
def test_the_ends_may_be_bytes_and_functions_are_called_with_text(command, tree, tmp_path, kind, copy_function):
    seen = []

    def ignore(folder, names):
        seen.extend([folder, *names])
        return {"file 3"}

    def copies(source, destination):
        seen.extend([source, destination])
        return copy_function(source, destination)

    function = copy_function if copy_function is shutil.copy2 else copies
    copied = bytepath.copytree(kind(tree), kind(tmp_path / "new"), True, ignore, function)
    assert copied.files == 50 and not (tmp_path / "new" / "deep" / "file 3").exists()
    assert (tmp_path / "new" / "deep" / "file 4").read_bytes() == (tree / "deep" / "file 4").read_bytes()
    assert {type(name) for name in seen} == {str}


def test_a_function_that_ignores_is_asked_as_shutil_asks_it(command, spoiled, tmp_path):
    asked = {"theirs": [], "ours": []}

    def asker(side):
        def ignore(folder, names):
            asked[side].append((folder, sorted(names)))
            return [name for name in names if name == "cache"]

        return ignore

    shutil.copytree(spoiled, tmp_path / "theirs", ignore=asker("theirs"))
    bytepath.copytree(str(spoiled), tmp_path / "ours", ignore=asker("ours"))
    assert sorted(asked["theirs"]) == sorted(asked["ours"])

    def broken(folder, names):
        raise LookupError(folder)

    with pytest.raises(LookupError, match=str(spoiled)):
        bytepath.copytree(spoiled, tmp_path / "none", ignore=broken)
    assert not (tmp_path / "none").exists()


def test_what_nothing_is_ignored_of_is_copied_whole_and_into_what_is_there(
    command, spoiled, tmp_path
):
    (tmp_path / "there" / "deep").mkdir(parents=True)
    (tmp_path / "there" / "deep" / "own").write_bytes(b"mine")
    ignore = shutil.ignore_patterns("nothing is called so")
    bytepath.copytree(spoiled, tmp_path / "there", ignore=ignore, dirs_exist_ok=True)
    assert (tmp_path / "there" / "deep" / "cache" / "leftover").exists()
    ignore = shutil.ignore_patterns("cache")
    (spoiled / "deep" / "file 9").write_bytes(b"new")
    bytepath.copytree(spoiled, tmp_path / "there", ignore=ignore, dirs_exist_ok=True)
    assert (tmp_path / "there" / "deep" / "own").read_bytes() == b"mine"
    assert (tmp_path / "there" / "deep" / "file 9").read_bytes() == b"new"


def test_more_names_than_one_command_takes_are_copied_by_several(command, tmp_path, monkeypatch):
    monkeypatch.setattr("bytepath._tree._NAMES_BYTES_MAX", 200)
    (tmp_path / "tree").mkdir()
    for number in range(40):
        (tmp_path / "tree" / f"{number:030}").write_bytes(bytes([number]))
    (tmp_path / "tree" / "unwanted").write_bytes(b"x")
    ignore = shutil.ignore_patterns("unwanted")
    copied = bytepath.copytree(tmp_path / "tree", tmp_path / "copy", ignore=ignore)
    assert (copied.files, copied.directories, copied.bytes) == (40, 1, 40)
    assert sorted(os.listdir(tmp_path / "copy")) == [f"{number:030}" for number in range(40)]
    assert (tmp_path / "copy" / f"{7:030}").read_bytes() == b"\x07"


def test_links_to_nothing_are_left_out_where_that_is_asked(command, tree, tmp_path):
    (tree / "deep" / "dangling").symlink_to("nowhere")
    bytepath.copytree(tree, tmp_path / "ours", ignore_dangling_symlinks=True)
    assert not os.path.lexists(tmp_path / "ours" / "deep" / "dangling")
    assert (tmp_path / "ours" / "deep" / "er" / "run").exists()
    bytepath.copytree(tree, tmp_path / "kept", True, ignore_dangling_symlinks=True)
    assert os.readlink(tmp_path / "kept" / "deep" / "dangling") == "nowhere"


def test_what_was_not_copied_beside_what_is_ignored_is_named(command, tree, tmp_path):
    (tree / "deep" / "dangling").symlink_to("nowhere")
    with pytest.raises(bytepath.TreeError) as raised:
        bytepath.copytree(tree, tmp_path / "new", ignore=shutil.ignore_patterns("file 1"))
    assert raised.value.errno == 2
    assert [e["source"] for e in raised.value.errors] == [str(tree / "deep" / "dangling")]
    assert not (tmp_path / "new" / "deep" / "file 1").exists()
    assert (tmp_path / "new" / "deep" / "file 2").exists()


def test_a_function_copies_each_file(tree, tmp_path):
    called = []

    def function(source, destination):
        called.append(source)
        if source.endswith("file 4"):
            raise PermissionError(13, "not this one")
        shutil.copyfile(source, destination)

    with pytest.raises(bytepath.TreeError, match="not this one") as raised:
        ignore = shutil.ignore_patterns("file 5")
        bytepath.copytree(tree, tmp_path / "new", False, ignore, function)
    assert (raised.value.errno, str(raised.value)) == (13, "[Errno 13] not this one")
    assert [e["source"] for e in raised.value.errors] == [str(tree / "deep" / "file 4")]
    assert [e["message"] for e in raised.value.errors] == ["not this one"]
    assert len(called) == 51 and all(type(name) is str for name in called)
    assert not (tmp_path / "new" / "deep" / "file 5").exists()
    assert (tmp_path / "new" / "deep" / "file 6").stat().st_size == 6000


# Python's own for Python's own lists the letters of the message.
@pytest.mark.parametrize(
    ("copytree", "function"),
    [(bytepath.copytree, bytepath.copy), (bytepath.copytree, shutil.copy), (shutil.copytree, bytepath.copy)],
)
def test_a_file_that_is_its_own_copy_is_named_and_all_else_is_copied(tmp_path, copytree, function):
    one, other = tmp_path / "a", tmp_path / "b"
    one.mkdir()
    other.mkdir()
    for name in "xyz":
        (one / name).write_text(name)
    os.link(one / "x", other / "x")
    with pytest.raises(shutil.Error) as raised:
        copytree(one, other, copy_function=function, dirs_exist_ok=True)
    assert sorted(os.listdir(other)) == ["x", "y", "z"]
    [(source, destination, why)] = raised.value.args[0]
    assert (source, destination) == (str(one / "x"), str(other / "x"))
    assert "same file" in why or "the source is the sink" in why


def test_what_a_function_says_with_an_error_of_shutils_is_named_and_all_else_is_copied(tree, tmp_path):
    def refuse(source, destination):
        if source.endswith("file 4"):
            raise shutil.Error("not this one")
        shutil.copyfile(source, destination)

    with pytest.raises(bytepath.TreeError, match="^not this one$") as raised:
        bytepath.copytree(tree, tmp_path / "new", copy_function=refuse)
    [error] = raised.value.errors
    assert (error["source"], error["message"]) == (str(tree / "deep" / "file 4"), "not this one")
    assert (tmp_path / "new" / "deep" / "file 6").stat().st_size == 6000


def test_a_function_need_not_make_a_file_of_that_name(tree, tmp_path):
    def renamed(source, destination):
        shutil.copyfile(source, destination + ".copy")

    copied = bytepath.copytree(tree, tmp_path / "new", copy_function=renamed)
    assert copied.files >= 51 and copied.bytes == 0
    assert (tmp_path / "new" / "deep" / "file 6.copy").stat().st_size == 6000


def test_a_function_of_our_own_tells_its_routes(tree, tmp_path):
    copied = bytepath.copytree(tree, tmp_path / "new", True, copy_function=bytepath.copy)
    assert (copied.files, copied.directories, copied.links) == (51, 3, 1)
    assert sum(copied.routes.values()) == copied.bytes == sum(n * 1000 for n in range(50)) + 10
    with pytest.raises(ValueError, match="route"):
        bytepath.copytree(tree, tmp_path / "x", copy_function=bytepath.copy, route="read-write")


def test_a_destination_that_is_there_is_left_alone_unless_asked(command, tree, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "own").write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        bytepath.copytree(tree, tmp_path / "there")
    assert os.listdir(tmp_path / "there") == ["own"]
    bytepath.copytree(tree, tmp_path / "there", dirs_exist_ok=True)
    assert (tmp_path / "there" / "own").read_bytes() == b"mine"
    assert (tmp_path / "there" / "deep" / "file 7").stat().st_size == 7000


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("asked", [{}, {"ignore": shutil.ignore_patterns("er")}, {"copy_function": shutil.copy}])
@pytest.mark.parametrize("name", ["", "file", "link to file", "link to nothing", "loop", "file/new", "loop/new"])
def test_a_destination_that_cannot_be_made_is_told_as_shutil_tells_it(
    command, tree, tmp_path, monkeypatch, name, asked, exists
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_bytes(b"stays")
    for link, to in {"link to file": "file", "link to nothing": "nothing", "loop": "loop"}.items():
        (tmp_path / link).symlink_to(to)
    told = []
    for copytree in (shutil.copytree, bytepath.copytree):
        with pytest.raises(OSError) as error:
            copytree("tree", name, dirs_exist_ok=exists, **asked)
        told.append((error.type, error.value.args, error.value.filename))
    assert told[0] == told[1]
    assert (tmp_path / "file").read_bytes() == b"stays"
    assert not (tmp_path / "nothing").exists()


def test_a_source_that_is_no_tree_is_told(command, tree, tmp_path):
    with pytest.raises(FileNotFoundError):
        bytepath.copytree(tmp_path / "not-there", tmp_path / "new")
    with pytest.raises(NotADirectoryError):
        bytepath.copytree(tree / "link", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_what_was_not_copied_is_named_and_the_rest_is_there(command, tree, tmp_path):
    (tree / "dangling").symlink_to("nowhere")
    with pytest.raises(bytepath.TreeError) as raised:
        bytepath.copytree(tree, tmp_path / "new")
    error = pickle.loads(pickle.dumps(raised.value))
    assert isinstance(error, OSError) and error.errno == 2 and str(error).startswith("[Errno 2] ")
    with pytest.raises(shutil.Error) as theirs:
        shutil.copytree(tree, tmp_path / "theirs")
    for of, copy in ((error, "new"), (theirs.value, "theirs")):
        assert isinstance(of, shutil.Error)
        [(source, destination, why)] = of.args[0]
        assert (source, destination) == (str(tree / "dangling"), str(tmp_path / copy / "dangling"))
        assert "No such file or directory" in why
    assert [e["source"] for e in error.errors] == [str(tree / "dangling")]
    assert (tmp_path / "new" / "deep" / "er" / "run").exists()


def test_an_interrupt_ends_the_command_that_copies(command, tmp_path, monkeypatch):
    # One that does nothing but wait, in its place.
    stand_in = tmp_path / "bytepath"
    stand_in.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\nexec sleep 1000\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("BYTEPATH_PROGRAM", str(stand_in))
    (tmp_path / "tree").mkdir()

    main = threading.main_thread().ident

    def waits() -> bool:
        """Whether the command runs, and the copy waits for it."""
        stack = traceback.extract_stack(sys._current_frames()[main])
        started = (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()
        return bool(started) and "communicate" in [frame.name for frame in stack]

    def interrupt() -> None:
        while not waits():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        bytepath.copytree(tmp_path / "tree", tmp_path / "new")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_an_interrupt_at_whatever_moment_leaves_no_command_behind(python):
    # One that ends at once; whoever is lost is never waited for.
    script = """if True:
        import itertools, os, sys
        sys.path.insert(0, sys.argv[1])
        from interrupts import interrupted_at
        from bytepath import _program

        left = []
        for number in itertools.count():
            goes_on = interrupted_at(number, lambda: _program.run([])) is not None
            try:
                os.waitpid(-1, 0)
                left.append(number)
            except ChildProcessError:
                pass
            if not goes_on:
                break
        print(number > 100, left)
    """
    done = python(script, os.path.dirname(__file__), prefix=("env", f"BYTEPATH_PROGRAM={shutil.which('true')}"))
    assert done.stdout == "True []\n", done.stderr


def test_a_tree_is_copied_while_python_ends(command, tree, python, tmp_path):
    script = "import atexit, sys, bytepath; atexit.register(bytepath.copytree, sys.argv[1], sys.argv[2])"
    done = python(script, str(tree), str(tmp_path / "new"))
    assert (done.returncode, done.stderr) == (0, "")
    assert same(tree, tmp_path / "new")


def test_files_that_links_lead_to_twice_are_copied_twice(command, tmp_path):
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub/kept").write_bytes(b"kept")
    (source / "sub/left.tmp").write_bytes(b"left")
    for name in ("one", "other"):
        (source / name).symlink_to("sub")
    ignore = shutil.ignore_patterns("*.tmp")
    bytepath.copytree(source, tmp_path / "copy", ignore=ignore)
    shutil.copytree(source, tmp_path / "by-shutil", ignore=ignore)
    found = [sorted(str(p.relative_to(top)) for p in top.rglob("*")) for top in (tmp_path / "copy", tmp_path / "by-shutil")]
    assert found[0] == found[1] and "other/kept" in found[0]


def test_links_that_are_the_ends_are_followed_even_where_links_are_kept(command, tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source/file").write_bytes(b"bytes")
    (tmp_path / "source/link").symlink_to("file")
    (tmp_path / "to-it").symlink_to("source")
    bytepath.copytree(tmp_path / "to-it", tmp_path / "copy", symlinks=True)
    assert not (tmp_path / "copy").is_symlink()
    (tmp_path / "there").mkdir()
    (tmp_path / "to-there").symlink_to("there")
    bytepath.copytree(tmp_path / "to-it", tmp_path / "to-there", dirs_exist_ok=True)
    assert (tmp_path / "to-there").is_symlink() and (tmp_path / "there/file").read_bytes() == b"bytes"
    assert (tmp_path / "copy/link").is_symlink() and (tmp_path / "copy/file").read_bytes() == b"bytes"


def test_a_tree_is_not_copied_into_itself_and_nothing_is_left_there(command, tree):
    before = names_under(tree)
    for destination in ("copy", "new/copy", "deep/er/copy"):
        with pytest.raises(bytepath.TreeError, match="into itself") as raised:
            bytepath.copytree(tree, tree / destination)
        (error,) = raised.value.errors
        assert (error["source"], error["destination"]) == (str(tree), str(tree / destination))
    assert names_under(tree) == before
    # As shutil does it.
    copied = bytepath.copytree(tree, tree / "copy", ignore=shutil.ignore_patterns("deep"))
    assert (copied.files, (tree / "copy" / "link").read_bytes()) == (1, (tree / "link").read_bytes())


def test_a_tree_is_copied_as_it_was_into_what_is_left_out_of_it(command, tree):
    before = set(names_under(tree))
    for destination in ("backup/1", "backup/2", "deep/er/backup/1"):
        bytepath.copytree(tree, tree / destination, ignore=shutil.ignore_patterns("backup"))
        assert set(names_under(tree / destination)) == before
    assert (tree / "backup/2/link").read_bytes() == (tree / "link").read_bytes()


def test_what_is_made_in_a_tree_is_no_part_of_its_copy_where_nothing_is_left_out_either(command, tree):
    (tree / "there").mkdir()
    for destination in ("deep/new/copy", "there/copy"):
        before = set(names_under(tree))
        bytepath.copytree(tree, tree / destination, ignore=lambda folder, names: ())
        assert set(names_under(tree / destination)) == before


def test_a_tree_is_copied_as_it_was_into_a_directory_of_it_that_is_there(command, tree):
    for _ in range(3):
        before = set(names_under(tree))
        (tree / "new").write_bytes(b"new")
        (tree / "deep" / f"new {len(before)}").write_bytes(b"new, too")
        before |= {"new", f"deep/new {len(before)}"}
        bytepath.copytree(tree, tree / "copy", ignore=lambda folder, names: (), dirs_exist_ok=True)
        assert set(names_under(tree / "copy")) == before


def test_a_tree_is_copied_into_itself_where_links_to_nothing_are_left_out(command, tree):
    before = set(names_under(tree))
    (tree / "dangling").symlink_to("nowhere")
    bytepath.copytree(tree, tree / "copy", ignore_dangling_symlinks=True)
    assert set(names_under(tree / "copy")) == before


def test_special_files_are_made_in_the_copy(command, tmp_path):
    (tmp_path / "tree").mkdir()
    os.mkfifo(tmp_path / "tree" / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(tmp_path / "tree" / "socket"))
        bytepath.copytree(tmp_path / "tree", tmp_path / "copy")
    modes = [os.stat(tmp_path / "copy" / name).st_mode for name in ("fifo", "socket")]
    assert stat.S_ISFIFO(modes[0]) and stat.S_ISSOCK(modes[1])


def test_a_file_system_without_extended_attributes_is_copied_to(command, tree, tmp_path, python):
    try:
        os.setxattr(tree / "deep" / "er" / "run", "user.of", b"value")
    except OSError as error:
        pytest.skip(f"no extended attributes here: {error}")
    script = (
        "import bytepath, subprocess, sys\n"
        "source, there, without = sys.argv[1:]\n"
        "subprocess.run(['mount', '-t', 'ramfs', 'none', without], check=True)\n"
        "copied = bytepath.copytree(source, without + '/copy')\n"
        "bytepath.copytree(source, there)\n"
        "print(copied.files, open(without + '/copy/deep/er/run').read())\n"
    )
    (tmp_path / "without").mkdir()
    ends = (str(tree), str(tmp_path / "there"), str(tmp_path / "without"))
    done = python(script, *ends, prefix=("unshare", "--mount", "--map-root-user"))
    if done.returncode != 0 and ("unshare" in done.stderr or "mount" in done.stderr):
        pytest.skip(f"no mount of a ramfs: {done.stderr.strip()}")
    assert done.stdout == "52 #!/bin/sh\n\n", done.stderr
    assert os.getxattr(tmp_path / "there" / "deep" / "er" / "run", "user.of") == b"value"


@pytest.fixture
def in_the_way(tmp_path):
    """A tree of which something is ignored, and a destination that has something else in a directory's place."""
    (tmp_path / "s" / "d" / "deep").mkdir(parents=True)
    for name in ("d/skip.tmp", "d/f", "d/deep/skip.tmp", "d/deep/f", "g"):
        (tmp_path / "s" / name).write_bytes(b"new")
    (tmp_path / "b").mkdir()
    (tmp_path / "outside").mkdir()
    return tmp_path


@pytest.mark.parametrize("kind", ["file", "link to nothing", "link to a directory"])
@pytest.mark.parametrize("ignore", [shutil.ignore_patterns("*.tmp"), None])
def test_what_is_in_a_directorys_place_is_left_and_named_and_all_else_is_copied(command, in_the_way, kind, ignore):
    source, there = in_the_way / "s", in_the_way / "b"
    if kind == "file":
        (there / "d").write_bytes(b"old")
    else:
        (there / "d").symlink_to("nowhere" if kind == "link to nothing" else in_the_way / "outside")
    before = names_under(there)["d"]
    with pytest.raises(bytepath.TreeError) as raised:
        bytepath.copytree(source, there, ignore=ignore, dirs_exist_ok=True)
    [error] = raised.value.errors
    assert (error["source"], error["destination"]) == (str(source / "d"), str(there / "d"))
    assert error["message"] == f"cannot overwrite non-directory '{there / 'd'}' with directory '{source / 'd'}'"
    assert (there / "g").read_bytes() == b"new"
    assert names_under(there)["d"] == before and os.listdir(in_the_way / "outside") == []


def test_errors_of_a_tree_that_was_sifted_name_what_was_given(command, in_the_way, monkeypatch):
    monkeypatch.chdir(in_the_way)
    (in_the_way / "s" / "d" / "it's").symlink_to("nowhere")
    for ignore in (None, shutil.ignore_patterns("*.tmp")):
        with pytest.raises(bytepath.TreeError) as raised:
            bytepath.copytree("s", "b", ignore=ignore, dirs_exist_ok=True)
        [error] = raised.value.errors
        assert (error["source"], error["destination"]) == ("s/d/it's", "b/d/it's")
        assert '"s/d/it\'s"' in error["message"]


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
@pytest.mark.parametrize("name", ["it's \"q\"", "a\nb", "\n'é\\", "\udcffx", "'''", "é’s"])
def test_messages_of_a_tree_that_was_sifted_have_whole_names_however_they_are_quoted(
    command, in_the_way, monkeypatch, locale, name
):
    monkeypatch.chdir(in_the_way)
    monkeypatch.setenv("LC_ALL", locale)
    (in_the_way / "s" / "d" / name).symlink_to("nowhere")
    (in_the_way / "s" / "d" / "deep" / name).write_text("not over a directory")
    (in_the_way / "b" / "d" / "deep" / name).mkdir(parents=True)
    with pytest.raises(bytepath.TreeError) as raised:
        bytepath.copytree("s", "b", ignore=shutil.ignore_patterns("*.tmp"), dirs_exist_ok=True)
    first, second = sorted((error["message"] for error in raised.value.errors), key=len)
    assert first.startswith(f"cannot stat {f's/d/{name}'!r}: No such file")
    assert second == f"cannot overwrite directory {f'b/d/deep/{name}'!r} with non-directory"


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_messages_about_permissions_have_whole_names_as_well(in_the_way, monkeypatch, locale):
    # The command quotes these as the locale does.
    name, there = "d/it's\\", str(in_the_way / "b" / "d" / "it's\\")
    quoted = there.replace("\\", "\\\\")
    quoted = f"‘{quoted}’" if locale == "C.UTF-8" else "'" + quoted.replace("'", "\\'") + "'"
    why = "No space left on device"
    error = {"message": f"preserving permissions for {quoted}: {why}", "errno": errno.ENOSPC, "offset": None}
    error |= {"source": {"name": name}, "destination": {"name": there}, "warning": False}
    told = dict.fromkeys(("files", "directories", "links", "bytes", "seconds"), 0) | {"routes": {}, "errors": [error]}
    program = in_the_way / "program"
    program.write_text(f"#!{sys.executable}\nprint({json.dumps(told)!r})\n")
    program.chmod(0o755)
    monkeypatch.setenv("BYTEPATH_PROGRAM", str(program))
    monkeypatch.chdir(in_the_way)
    with pytest.raises(bytepath.TreeError) as raised:
        bytepath.copytree("s", "b", ignore=shutil.ignore_patterns("*.tmp"), dirs_exist_ok=True)
    whole = "b/d/it's\\"
    assert raised.value.errors[0]["message"] == f"preserving permissions for {whole!r}: {why}"


def test_a_link_to_a_directory_may_be_the_destination_of_what_is_sifted(command, in_the_way):
    (in_the_way / "to-b").symlink_to("b")
    bytepath.copytree(in_the_way / "s", in_the_way / "to-b", ignore=shutil.ignore_patterns("*.tmp"), dirs_exist_ok=True)
    assert (in_the_way / "to-b").is_symlink()
    assert sorted(names_under(in_the_way / "b")) == [".", "d", "d/deep", "d/deep/f", "d/f", "g"]


def test_nothing_is_made_where_the_command_is_missing(tree, tmp_path, monkeypatch):
    monkeypatch.setenv("BYTEPATH_PROGRAM", str(tmp_path / "missing"))
    for ignore in (None, shutil.ignore_patterns("file 1")):
        with pytest.raises(bytepath.ProgramError):
            bytepath.copytree(tree, tmp_path / "new" / "copy", ignore=ignore)
    assert not (tmp_path / "new").exists()


def test_attributes_that_an_ordinary_user_may_not_set_are_left_as_shutil_leaves_them(command, tree, tmp_path, python):
    try:
        os.setxattr(tree / "deep" / "er" / "run", "security.of", b"value")
    except OSError as error:
        pytest.skip(f"no such attribute may be set here: {error}")
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    (tree / "dangling").symlink_to("nowhere")
    script = (
        "import bytepath, sys\n"
        "source, copy = sys.argv[1:]\n"
        "print(bytepath.copytree(source + '/deep', copy + '/1').files)\n"
        "try:\n    bytepath.copytree(source, copy + '/2')\n"
        "except bytepath.TreeError as error:\n    print([e['source'] for e in error.errors])\n"
    )
    rights = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-all")
    done = python(script, str(tree), str(tmp_path), prefix=rights)
    assert done.stdout == f"51\n{[str(tree / 'dangling')]}\n", done.stderr


def test_every_entry_that_was_not_copied_is_named_however_many(command, tmp_path):
    (tmp_path / "tree").mkdir()
    for number in range(1500):
        (tmp_path / "tree" / f"{number}").symlink_to("nowhere")
    with pytest.raises(bytepath.TreeError, match="and 1499 more") as raised:
        bytepath.copytree(tmp_path / "tree", tmp_path / "copy")
    assert {e["source"] for e in raised.value.errors} == {str(tmp_path / "tree" / f"{n}") for n in range(1500)}


def test_a_file_that_may_not_be_so_large_is_named(command, tmp_path, python):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "large").write_bytes(bytes(range(256)) * 4000)
    script = (
        "import bytepath, resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try:\n    bytepath.copytree(sys.argv[1], sys.argv[2])\n"
        "except bytepath.TreeError as error:\n    print(error.errno, [e['source'] for e in error.errors])\n"
    )
    done = python(script, str(tmp_path / "tree"), str(tmp_path / "copy"))
    assert done.stdout == f"{errno.EFBIG} {[str(tmp_path / 'tree' / 'large')]}\n", done.stderr


def test_what_killed_the_command_is_named(tree, tmp_path, monkeypatch):
    stand_in = tmp_path / "bytepath"
    stand_in.write_text("#!/bin/sh\nkill -KILL $$\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("BYTEPATH_PROGRAM", str(stand_in))
    with pytest.raises(bytepath.ProgramError, match="killed by SIGKILL"):
        bytepath.copytree(tree, tmp_path / "new")


@pytest.mark.parametrize("asked", [{"route": "nope"}, {"route": "tee"}, {"profile": "/nonexistent"}])
def test_what_cannot_be_asked_for_makes_nothing(command, tree, tmp_path, asked):
    with pytest.raises(ValueError):
        bytepath.copytree(tree, tmp_path / "new" / "copy", **asked)
    assert not (tmp_path / "new").exists()


def test_an_error_without_a_word_of_the_kernels_has_no_number(command, in_the_way):
    (in_the_way / "b" / "d").write_bytes(b"old")
    with pytest.raises(bytepath.TreeError) as raised:
        bytepath.copytree(in_the_way / "s", in_the_way / "b", dirs_exist_ok=True)
    assert raised.value.errno is None and str(raised.value).startswith("cannot overwrite non-directory")


def test_a_destination_within_the_source_is_not_part_of_what_a_function_copies(tmp_path):
    for name, copytree in (("ours", bytepath.copytree), ("theirs", shutil.copytree)):
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "sub/file").write_bytes(b"x")
        copytree(tmp_path / name, tmp_path / name / "copy", copy_function=shutil.copy)
    found = [sorted(str(path.relative_to(tmp_path / name)) for path in (tmp_path / name).rglob("*")) for name in ("ours", "theirs")]
    assert found[0] == found[1]
