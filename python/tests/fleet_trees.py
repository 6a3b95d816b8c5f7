"""Trees for tests of fleets, what two of them have in common, and processes that are at work on them."""

import hashlib
import os
import stat
import subprocess
from pathlib import Path


def make_tree(root: Path) -> None:
    root.mkdir()
    for number in range(12):
        folder = root / f"d{number % 4}" / f"e{number}"
        folder.mkdir(parents=True)
        for file in range(20):
            (folder / f"f{file}").write_bytes(os.urandom(200 + 977 * file))
    odd = os.fsencode(root / "d0") + b"/not \xff utf-8 \n"
    with open(odd, "wb") as file:
        file.write(b"odd")
    (root / "link").symlink_to("d0/nowhere")
    os.mkfifo(root / "fifo")
    for name in ("d1/first", "d2/second", "third"):
        if name == "d1/first":
            (root / name).write_bytes(b"several names")
        else:
            os.link(root / "d1/first", root / name)
    with open(root / "sparse", "wb") as file:
        file.truncate(200 << 20)
        for at in (0, 70 << 20, 140 << 20, (200 << 20) - 4096):
            file.seek(at)
            file.write(os.urandom(4096))
    (root / "empty").mkdir()
    (root / "closed").mkdir()
    (root / "closed/inside").write_bytes(b"x")
    os.chmod(root / "closed", 0o555)
    os.chmod(root / "d3", 0o750)
    os.chmod(root / "empty", 0o1777)
    os.chmod(root, 0o710)
    for path in [*root.rglob("*"), root]:
        os.utime(path, ns=(1_600_000_000_123_456_789, 1_600_000_000_123_456_789), follow_symlinks=False)


def digest(root: Path) -> dict[bytes, tuple]:
    """All that two trees have in common if one is a copy of the other."""
    found, groups = {}, {}
    base = os.fsencode(root)
    for folder, folders, files in os.walk(base):
        for name in [b".", *folders, *files]:
            path = os.path.join(folder, name)
            what = os.lstat(path)
            kind = stat.S_IFMT(what.st_mode)
            content = b""
            if kind == stat.S_IFREG:
                with open(path, "rb") as file:
                    content = hashlib.file_digest(file, "sha256").digest() if hasattr(hashlib, "file_digest") else \
                        hashlib.sha256(file.read()).digest()
                if what.st_nlink > 1:
                    groups.setdefault(what.st_ino, []).append(os.path.relpath(path, base))
            elif kind == stat.S_IFLNK:
                content = os.readlink(path)
            size = what.st_size if kind == stat.S_IFREG else 0
            found[os.path.relpath(path, base)] = (what.st_mode, what.st_mtime_ns, size, content)
    for names in groups.values():
        found[b"names of " + min(names)] = tuple(sorted(names))
    return found


def assert_copied(source: Path, copy: Path) -> None:
    wanted, found = digest(source), digest(copy)
    assert sorted(found) == sorted(wanted)
    assert {name for name in wanted if wanted[name] != found[name]} == set()


def ended_well(done) -> None:
    assert done.returncode == 0, done.stderr


def finish(command: subprocess.Popen, seconds: float = 60.0) -> str:
    """What it said on standard error, once it has ended well."""
    out, err = command.communicate(timeout=seconds)
    assert command.returncode == 0, err
    return err


def some_are_copied(copy: Path):
    """Whether a copying has begun, and is not over."""
    return lambda: copy.is_dir() and sum(1 for _ in copy.rglob("f*")) > 5


def children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return [*found, *(grandchild for child in found for grandchild in children(child))]


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "?"


def running(words: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().replace(b"\0", b" ").strip() == words.encode():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found
