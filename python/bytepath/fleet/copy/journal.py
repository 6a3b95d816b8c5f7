"""The journal of a copying: what is left to be done, on disk, so that neither a crash nor the size of the tree
matters. What has most of the work in it is taken out of it first, so that pieces are few; what is left behind in small parts
is done together at the end."""

from __future__ import annotations

import builtins
import contextlib
import fcntl
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import FleetError
from .progress import size

FORMAT = "7"

RANGE_BYTES_MIN = 64 << 20
LOCKS_MAX = 100
"""How often a lock is taken that somebody removes at the same time."""

RANGES_MAX = 4096
"""Ranges that a file is cut into, at most."""

_START = b"SQLite format 3\0"
_WORDS = "SELECT 1 FROM meta WHERE k = 'words'"

_TABLES = """
CREATE TABLE IF NOT EXISTS meta (k TEXT PRIMARY KEY, v TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS items (id INTEGER PRIMARY KEY AUTOINCREMENT, taken INTEGER NOT NULL DEFAULT 0,
                                  rank REAL NOT NULL, body TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS items_free ON items (taken, rank, id);
CREATE TABLE IF NOT EXISTS firsts (ino INTEGER, size INTEGER, mtime INTEGER, f TEXT NOT NULL,
                                   PRIMARY KEY (ino, size, mtime, f)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS apart (name TEXT, f TEXT, PRIMARY KEY (name, f)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS links (id INTEGER PRIMARY KEY, f TEXT NOT NULL, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS large (k INTEGER PRIMARY KEY AUTOINCREMENT, f TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, ino TEXT, mtime TEXT,
                                  open INTEGER NOT NULL DEFAULT 0, w REAL NOT NULL, s TEXT,
                                  moved INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS attributes (l TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS closed (f TEXT PRIMARY KEY, depth INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS open (f TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failed (id INTEGER PRIMARY KEY, body TEXT NOT NULL, why TEXT NOT NULL);
"""


def default_path(source: str, destination: str, options: Iterable[str]) -> Path:
    """Where the journal of this copying lies: the same words find it again."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state")
    words = os.fsencode("\0".join([source, destination, *options]))
    return state / "bytepath" / "fleet" / f"{hashlib.sha256(words).hexdigest()[:16]}.journal"


class Journal:
    """What is left to be done. Every change is on disk once `commit` is back."""

    def __init__(self, path: Path, words: list[str]) -> None:
        self.path = path = _real(path)
        self._has_failed = True
        """Whether something has failed since names were last looked at."""
        self._lock = _locked(path)
        try:
            self.db = sqlite3.connect(path, isolation_level=None)
            self.db.text_factory = _text
            self.db.execute("PRAGMA journal_mode=WAL")
            self.db.execute("PRAGMA synchronous=FULL")
            self.db.execute("PRAGMA cache_size=-8192")
            # At once with whose it is: a journal that says nothing of that is somebody else's file.
            self.db.executescript(f"BEGIN;{_TABLES}")
            self.is_new = self.get("words") is None
            if self.is_new:
                self.set("format", FORMAT)
                self.set("words", json.dumps(words))
                self.set("phase", "files")
            self.db.execute("COMMIT")
            is_ours = self.get("format") == FORMAT and _loaded(self.get("words") or "[]") == words
            if is_ours:
                self.give_back()
                # What is in the source may have changed since.
                self.db.execute("DELETE FROM apart")
                self._earlier = dict(self.db.execute("SELECT k, moved FROM large").fetchall())
                """What earlier runs have copied of large files."""
                self.unset("undone_bytes")
                self.db.execute("BEGIN")
        except sqlite3.DatabaseError as error:
            os.close(self._lock)
            raise unusable(path, error) from error
        if not is_ours:
            self.close()
            raise FleetError(f"{path} is the journal of another copying; name another file with --journal, or use --anew")

    def close(self) -> None:
        self.db.close()
        os.close(self._lock)

    def remove(self) -> None:
        """All is done: nobody needs it any more. Whoever waits for its lock finds another file, not half of this one."""
        self.db.close()
        try:
            remove(self.path)
        finally:
            os.close(self._lock)

    def commit(self) -> None:
        self.db.execute("COMMIT")
        self.db.execute("BEGIN")

    def rollback(self) -> None:
        """Forgets what was said since the last commit."""
        if self.db.in_transaction:
            self.db.execute("ROLLBACK")
        self.db.execute("BEGIN")

    def get(self, key: str, otherwise: str | None = None) -> str | None:
        row = self.db.execute("SELECT v FROM meta WHERE k = ?", (key,)).fetchone()
        return row[0] if row else otherwise

    def set(self, key: str, value: str) -> None:
        self.db.execute("INSERT INTO meta VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = excluded.v", (key, value))

    def unset(self, key: str) -> None:
        self.db.execute("DELETE FROM meta WHERE k = ?", (key,))

    def add_to(self, key: str, count: int | float) -> None:
        if count:
            self.set(key, repr(self.number(key) + count))

    def number(self, key: str) -> Any:
        """A count, or a share; 0 where nothing was ever added to it."""
        return _loaded(self.get(key) or "0")

    def seen(self) -> dict[str, str]:
        """The names of all machines that took part, by their keys."""
        found: dict[str, str] = _loaded(self.get("machines") or "{}")
        return found

    def set_seen(self, machines: dict[str, str]) -> None:
        text = json.dumps(machines, sort_keys=True)
        if text != self.get("machines"):
            self.set("machines", text)

    def is_begun(self) -> bool:
        """Whether anything may have been made in the destination."""
        return self.get("made") is not None

    def so_far(self) -> str:
        """What is said where a copying ends before all is done."""
        files, moved = self.number("files"), self.number("bytes")
        return (
            f"{files} files ({size(moved)}) are copied, and the journal knows which; the same command goes on from there"
        )

    def share(self) -> float:
        """How far it is, as far as that can be told: by the shares of directories, and not further than the bytes of large files
        that are known to be left allow, however small their shares."""
        done, left = self.number("bytes"), self.number("large_left")
        share = float(self.number("w"))
        return min(share, done / (done + left)) if left > 0 else share

    # -- work --

    def put(self, items: Iterable[dict[str, Any]]) -> None:
        """Puts work, of which that which is put last is the next to be taken among its equals."""
        items = list(items)
        rows = [(_rank(item), json.dumps(item, separators=(",", ":"))) for item in items]
        self.db.executemany("INSERT INTO items (rank, body) VALUES (?, ?)", rows)
        self.add_to("large_left", sum(map(self._large_bytes, items)))

    def take(self, most: int, weight: float = float("inf")) -> list[tuple[int, dict[str, Any]]]:
        """Takes work out until it weighs so much together, one thing at least; it comes back whenever the journal is opened,
        until it is done."""
        query = "SELECT id, body FROM items WHERE taken = 0 ORDER BY rank DESC, id DESC LIMIT ?"
        taken: list[tuple[int, dict[str, Any]]] = []
        for id, body in self.db.execute(query, (most,)):
            if taken and weight < 0:
                break
            item = _loaded(body)
            if item["do"] in ("range", "end") and item["k"] in self._earlier:
                item["earlier"] = True
            taken.append((id, item))
            weight -= taken[-1][1].get("w", 0.0)
        self.db.executemany("UPDATE items SET taken = 1 WHERE id = ?", [(id,) for id, _ in taken])
        return taken

    def give_back(self) -> None:
        """Has all that was taken, and is not done, taken again."""
        self.db.execute("UPDATE items SET taken = 0 WHERE taken != 0")

    def free(self) -> int:
        """How much work nobody has taken, as far as it matters: at most 10,000."""
        query = "SELECT count(*) FROM (SELECT 1 FROM items WHERE taken = 0 LIMIT 10000)"
        return int(self.db.execute(query).fetchone()[0])

    def is_open(self, ids: list[int]) -> bool:
        """Whether this work is still to be done: not if somebody else did it meanwhile."""
        return bool(self._open(ids))

    def _open(self, ids: list[int]) -> builtins.set[int]:
        marks = ",".join("?" * len(ids))
        return {row[0] for row in self.db.execute(f"SELECT id FROM items WHERE id IN ({marks})", ids)}

    def settle(self, taken: list[tuple[int, dict[str, Any]]], answer: dict[str, Any]) -> bool:
        """Takes over what was answered about work; false if it had been answered before."""
        found = self._open([id for id, _ in taken])
        if not found:
            return False
        dropped = {item["k"] for id, item in taken if id not in found}
        if dropped:
            # Large files that others found to be other ones meanwhile: nothing is left of that work.
            taken = [(id, item) for id, item in taken if id in found]
            answer["bytes"] -= sum(moved["bytes"] for moved in answer["moved"] if moved["k"] in dropped)
            for key in ("rest", "begun", "moved"):
                answer[key] = [item for item in answer[key] if item.get("k") not in dropped]
            answer["failed"] = [failed for failed in answer["failed"] if failed["item"].get("k") not in dropped]
        self.db.executemany("DELETE FROM items WHERE id = ?", [(id,) for id, _ in taken])
        # Before a file that was begun has another size.
        self.add_to("large_left", -sum(self._large_bytes(item) for _, item in taken))
        self.add_to("pieces", 1)
        for key in ("files", "bytes", "directories"):
            self.add_to(key, int(answer[key]))
        # What is shared out anew has its part of the whole yet before it.
        self.add_to("w", float(answer["w"]) - sum(found["w"] for found in [*answer["large"], *answer["links"]]))
        self.put(answer["rest"])
        for found in answer["large"]:
            self._large(found["f"], found["size"], found["w"])
        for found in answer["links"]:
            self._several(found)
        for failed in answer["failed"]:
            self._failed(failed["item"], failed["why"])
        if answer.get("attributes"):
            self.db.execute("INSERT OR IGNORE INTO attributes VALUES (?, ?)", answer["attributes"])
        self._close(answer["closed"])
        for apart in answer["apart"]:
            self._apart(apart)
        for begun in answer["begun"]:
            self._begun(begun)
        for moved in answer["moved"]:
            self.db.execute("UPDATE large SET moved = moved + ? WHERE k = ?", (moved["bytes"], moved["k"]))
        ended = [item["k"] for _, item in taken if item["do"] == "range"]
        if ended:
            self._ranges_done(ended, answer)
        left = {item["k"] for item in [*answer["rest"], *(failed["item"] for failed in answer["failed"])] if "k" in item}
        whole = [(item["k"],) for _, item in taken if item["do"] == "end" and item["k"] not in left]
        self.db.executemany("UPDATE large SET open = -1 WHERE k = ?", whole)
        for again in answer["again"]:
            self._again(again["k"], again["w"])
        return True

    def _large_bytes(self, item: dict[str, Any]) -> int:
        """The bytes of a large file that this has yet to copy."""
        if item["do"] == "range":
            return int(item["z"] - item["a"])
        if item["do"] != "begin":
            return 0
        row = self.db.execute("SELECT size FROM large WHERE k = ?", (item["k"],)).fetchone()
        return int(row[0]) if row else 0

    def _large(self, path: str, size: int, weight: float) -> None:
        row = self.db.execute("SELECT k FROM large WHERE f = ?", (path,)).fetchone()
        if row:
            # It was met before, by a piece that was done twice.
            self.add_to("w", weight)
            return
        cursor = self.db.execute("INSERT INTO large (f, size, w) VALUES (?, ?, ?)", (path, size, weight))
        self.put([{"do": "begin", "f": path, "k": cursor.lastrowid, "w": weight}])

    def _begun(self, begun: dict[str, Any]) -> None:
        row = self.db.execute("SELECT f, w FROM large WHERE k = ?", (begun["k"],)).fetchone()
        path, weight = row
        file = {"f": path, **{key: begun[key] for key in ("k", "s", "ino", "mtime")}}
        size, end = begun["size"], {"do": "end", **file, "size": begun["size"]}
        ranges = [] if begun["cloned"] else list(cut(size))
        self.db.execute(
            "UPDATE large SET size = ?, ino = ?, mtime = ?, open = ?, s = ? WHERE k = ?",
            (size, str(begun["ino"]), str(begun["mtime"]), len(ranges), begun["s"], begun["k"]),
        )
        if not ranges:
            self.put([{**end, "w": 0.0}])
            return
        each = weight / len(ranges)
        parts = [{"do": "range", **file, "a": a, "z": z, "w": each} for a, z in ranges]
        self.put(reversed(parts))

    def _ranges_done(self, ended: list[int], answer: dict[str, Any]) -> None:
        for k in ended:
            self.db.execute("UPDATE large SET open = open - 1 WHERE k = ?", (k,))
        for item in [*answer["rest"], *(failed["item"] for failed in answer["failed"])]:
            if item["do"] == "range":
                # The rest of a range counts as one again, and one that failed is never over.
                self.db.execute("UPDATE large SET open = open + 1 WHERE k = ?", (item["k"],))
        for k in set(ended):
            query = "SELECT f, size, ino, mtime, s FROM large WHERE k = ? AND open = 0"
            row = self.db.execute(query, (k,)).fetchone()
            if row:
                path, size, ino, mtime, s = row
                file = {"f": path, "k": k, "s": s, "ino": int(ino), "mtime": int(mtime)}
                self.put([{"do": "end", **file, "size": size, "w": 0.0}])

    def _again(self, k: int, weight: float) -> None:
        """Forgets a large file, which is gone or another one by now, with all that was yet to be done of it, and has its names
        looked at anew."""
        row = self.db.execute("SELECT f FROM large WHERE k = ?", (k,)).fetchone()
        if row is None:
            # Another part of it told so before.
            self.add_to("w", weight)
            return
        failed = self.db.execute("SELECT id, body FROM failed").fetchall()
        self.db.executemany("DELETE FROM failed WHERE id = ?", [(id,) for id, body in failed if _loaded(body).get("k") == k])
        weight += self._forget_large({k})
        self._put_names([row[0], *self._forgotten_names([row[0]])], weight)

    def _forget_large(self, forgotten: builtins.set[int]) -> float:
        """Forgets large files, with all that was yet to be done of them, and returns what that weighed. What was copied of them
        is copied anew, or was in vain."""
        query = "SELECT id, body FROM items WHERE rank >= ?"
        rows = self.db.execute(query, (min(_RANKS.values()),)) if forgotten else []
        left = [(id, item) for id, item in ((id, _loaded(body)) for id, body in rows) if item["k"] in forgotten]
        self.add_to("large_left", -sum(self._large_bytes(item) for _, item in left))
        self.db.executemany("DELETE FROM items WHERE id = ?", [(id,) for id, _ in left])
        for k in forgotten:
            for (moved,) in self.db.execute("SELECT moved FROM large WHERE k = ?", (k,)).fetchall():
                self.add_to("bytes", -moved)
                # It was in the count before this run.
                self.add_to("undone_bytes", self._earlier.get(k, 0))
            self.db.execute("DELETE FROM large WHERE k = ?", (k,))
        return float(sum(item["w"] for _, item in left))

    def _put_names(self, names: list[str], weight: float = 0.0) -> None:
        """Has names looked at, whatever they are by now."""
        found, share = (name.rpartition("/") for name in names), {"w": weight / len(names)} if weight else {}
        self.put({"do": "tree", "d": folder, "n": [name], **share} for folder, _, name in found)

    def _close(self, paths: Iterable[str]) -> None:
        rows = [(path, path.count("/") + 1 if path else 0) for path in paths]
        self.db.executemany("INSERT OR IGNORE INTO closed VALUES (?, ?)", rows)

    def unfinished(self) -> list[str]:
        """Large files that are not whole, though nothing of them is left to be done, and nothing failed."""
        failed = {_loaded(row[0]).get("k") for row in self.db.execute("SELECT body FROM failed")}
        return [path for k, path in self.db.execute("SELECT k, f FROM large WHERE open != -1") if k not in failed]

    def _several(self, found: dict[str, Any]) -> None:
        # An inode that is another file meanwhile has another time. The numbers of devices are each machine's own. So two
        # files may look like one, until whoever is to make the name sees that they are not.
        path, key = found["f"], (_signed(found["ino"]), found["size"], found["mtime"])
        query = (
            "SELECT f FROM firsts WHERE ino = ? AND size = ? AND mtime = ? AND f NOT IN (SELECT f FROM apart WHERE name = ?) "
            "ORDER BY f != ? LIMIT 1"
        )
        row = self.db.execute(query, (*key, path, path)).fetchone()
        if row is None:
            self.db.execute("INSERT INTO firsts VALUES (?, ?, ?, ?)", (*key, path))
            folder, _, name = path.rpartition("/")
            self.put([{"do": "tree", "d": folder, "n": [name], "alone": True, "w": found["w"]}])
        else:
            self.add_to("w", found["w"])
            if row[0] != path:
                self.db.execute("INSERT OR IGNORE INTO links (f, name) VALUES (?, ?)", (row[0], path))

    def _apart(self, found: dict[str, Any]) -> None:
        """A name that was one more of a file is looked at anew, and never taken for that file's again: where that is gone,
        or they only looked alike, it may be another's first."""
        if found["gone"]:
            self.db.execute("DELETE FROM firsts WHERE f = ?", (found["f"],))
        else:
            self.db.execute("INSERT OR IGNORE INTO apart VALUES (?, ?)", (found["name"], found["f"]))
        folder, _, name = found["name"].rpartition("/")
        # What is made there changes its time.
        self._close([folder] if folder else [])
        self.put([{"do": "tree", "d": folder, "n": [name]}])

    def _failed(self, item: dict[str, Any], why: list[str]) -> None:
        body = json.dumps(item, separators=(",", ":"))
        self._has_failed = True
        self.db.execute("INSERT INTO failed (body, why) VALUES (?, ?)", (body, "; ".join(why)))

    # -- what comes after the files --

    def has_links(self) -> bool:
        """Whether names are to be made, or are being made."""
        open = "SELECT 1 FROM links UNION ALL SELECT 1 FROM items LIMIT 1"
        return self.db.execute(open).fetchone() is not None

    def put_links(self, together: int, most: int) -> bool:
        """Puts some names that are to be made; whether there were any."""
        if self._put_heirs():
            return True
        rows = self.db.execute("SELECT id, f, name FROM links ORDER BY id LIMIT ?", (together * most,)).fetchall()
        self.db.executemany("DELETE FROM links WHERE id = ?", [(row[0],) for row in rows])
        failed = self._failed_files(of_any_name=True) if rows else set()
        for _, f, name in (row for row in rows if row[1] in failed):
            # What its first name has in the destination is older.
            why = f"{self._made_as(name)} is not made: {self._made_as(f)}, the same file, was not copied"
            self._failed({"do": "links", "links": [[f, name]]}, [why])
        found = bool(rows)
        rows = [row for row in rows if row[1] not in failed]
        for at in range(0, len(rows), together):
            self.put([{"do": "links", "links": [[f, name] for _, f, name in rows[at : at + together]]}])
        return found

    def _put_heirs(self) -> bool:
        """Where a file was not copied by its first name, as what stands in the way of that may not be in that of others, has
        the next looked at, which the others become names of; whether there were any."""
        failed = self._failed_files(of_any_name=False) if self._has_failed else set()
        self._has_failed = False
        if not failed:
            return False
        table = "CREATE TEMP TABLE IF NOT EXISTS heirs (f TEXT PRIMARY KEY, id INTEGER, name TEXT) WITHOUT ROWID"
        self.db.execute(table)
        self.db.executemany("INSERT INTO heirs (f) VALUES (?)", [(f,) for f in failed])
        # Of those with no other name that is left nothing is found, and they stay as they are.
        ours = "WHERE f IN (SELECT f FROM heirs)"
        self.db.execute(f"REPLACE INTO heirs SELECT f, min(id), name FROM links {ours} GROUP BY f")
        self.db.execute(f"UPDATE links SET f = (SELECT name FROM heirs WHERE heirs.f = links.f) {ours}")
        self.db.execute("DELETE FROM links WHERE id IN (SELECT id FROM heirs)")
        self.db.execute(f"DELETE FROM firsts {ours}")
        names = [row[0] for row in self.db.execute("SELECT name FROM heirs WHERE id NOTNULL ORDER BY id")]
        self.db.execute("DELETE FROM heirs")
        self._put_names(names)
        return bool(names)

    def _made_as(self, path: str) -> str:
        """What becomes of a path in the destination, as messages show it."""
        destination = _loaded(self.get("words") or "[]")[1]
        return f"'{os.path.join(destination, shown(path))}'"

    def _failed_files(self, of_any_name: bool) -> builtins.set[str]:
        """Files that were not copied, by the names that were tried: those that would fail by any name, as they ended whoever
        copied them or are not whole, or the others."""
        found: builtins.set[str] = set()
        for (body,) in self.db.execute("SELECT body FROM failed"):
            item = _loaded(body)
            if ("deadly" in item or item["do"] == "range") != of_any_name:
                continue
            if item["do"] == "tree":
                found.update(_below(item["d"], name) for name in item.get("n") or [])
            elif "f" in item:
                found.add(item["f"])
        return found

    def put_attributes(self, most: int) -> bool:
        """Puts some lists of directories; whether there were any."""
        rows = self.db.execute("SELECT l FROM attributes LIMIT ?", (most,)).fetchall()
        self.put([{"do": "attributes", "l": row[0], "a": 0} for row in rows])
        self.db.executemany("DELETE FROM attributes WHERE l = ?", rows)
        return bool(rows)

    def put_closed(self, together: int) -> bool:
        """Puts some of the deepest directories that close behind whoever leaves; whether there were any. The root is none: it
        comes after all."""
        query = "SELECT f FROM closed WHERE depth = (SELECT max(depth) FROM closed) AND depth > 0 LIMIT ?"
        rows = self.db.execute(query, (together,)).fetchall()
        if rows:
            self.put([{"do": "closed", "dirs": [row[0] for row in rows]}])
            self.db.executemany("DELETE FROM closed WHERE f = ?", rows)
        return bool(rows)

    def leave_open(self) -> None:
        """Keeps directories open in which, or below which, something failed: it could not be tried again there."""
        held = set()
        for (body,) in self.db.execute("SELECT body FROM failed"):
            for folder in _folders(_loaded(body)):
                while folder not in held:
                    held.add(folder)
                    folder = folder.rpartition("/")[0]
        for folder in held:
            if self.db.execute("DELETE FROM closed WHERE f = ?", (folder,)).rowcount:
                self.db.execute("INSERT OR IGNORE INTO open VALUES (?)", (folder,))

    def is_left_open(self, folder: str) -> bool:
        """Whether this directory is kept open."""
        return self.db.execute("SELECT 1 FROM open WHERE f = ?", (folder,)).fetchone() is not None

    def failures(self, most: int) -> tuple[int, list[str]]:
        """How many entries failed, and why the first did."""
        count = int(self.db.execute("SELECT count(*) FROM failed").fetchone()[0])
        rows = self.db.execute("SELECT why FROM failed ORDER BY id LIMIT ?", (most,)).fetchall()
        return count, [row[0] for row in rows]

    def try_failed_again(self) -> int:
        """Puts what failed as work again; how much. Files are looked for by their names: they may be others now, or gone."""
        rows = self.db.execute("SELECT body FROM failed ORDER BY id").fetchall()
        files: list[str] = []
        large: set[int] = set()
        for (body,) in rows:
            item = _loaded(body)
            # What is made in a directory changes its time, which it may have had already.
            self._close(folder for folder in _folders(item) if folder)
            if item["do"] in ("begin", "range", "end"):
                large.add(item["k"])
                files.append(item["f"])
            elif item["do"] == "tree" and item.get("n"):
                files += (_below(item["d"], name) for name in item["n"])
            elif item["do"] == "links":
                # What comes after the files does so again.
                self.db.executemany("INSERT OR IGNORE INTO links (f, name) VALUES (?, ?)", item["links"])
            elif item["do"] == "attributes":
                self.db.execute("INSERT OR IGNORE INTO attributes VALUES (?, 0)", (item["l"],))
            elif item["do"] == "closed":
                self._close(item["dirs"])
            else:
                self.put([item])
        files += self._forgotten_names(files)
        self._put_names(files, self._forget_large(large))
        self._close([row[0] for row in self.db.execute("SELECT f FROM open")])
        self.db.execute("DELETE FROM open")
        self.db.execute("DELETE FROM failed")
        return len(rows)

    def _forgotten_names(self, files: list[str]) -> list[str]:
        """Forgets that these files are the first of their names; the others, of which any may be the first now."""
        self.db.execute("CREATE TEMP TABLE IF NOT EXISTS again (f TEXT PRIMARY KEY) WITHOUT ROWID")
        self.db.executemany("INSERT OR IGNORE INTO again VALUES (?)", [(file,) for file in files])
        self.db.execute("DELETE FROM firsts WHERE f IN (SELECT f FROM again)")
        names = [row[0] for row in self.db.execute("SELECT name FROM links WHERE f IN (SELECT f FROM again) ORDER BY id")]
        self.db.execute("DELETE FROM links WHERE f IN (SELECT f FROM again)")
        self.db.execute("DELETE FROM again")
        return names


_RANKS = {"end": 4.0, "range": 3.0, "begin": 2.0}
"""What has been begun is ended first: few files are half done at a time. Weights are at most 1."""


def shown(path: str) -> str:
    """A path of an item, which has its bytes as Latin-1, as messages show it."""
    return path.encode("latin-1").decode(errors="backslashreplace")


def _rank(item: dict[str, Any]) -> float:
    return _RANKS.get(item["do"]) or float(item.get("w", 0.0))


def _folders(item: dict[str, Any]) -> list[str]:
    """The directories in which an item makes something."""
    if item.get("n") or item.get("l") and item["do"] == "tree":
        return [item["d"]]
    if item["do"] == "links":
        return sorted({name.rpartition("/")[0] for _, name in item["links"]})
    path: str | None = item.get("f") or item.get("d")
    return [path.rpartition("/")[0]] if path else []


def _below(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def cut(size: int) -> Iterable[tuple[int, int]]:
    """The ranges of a file."""
    each = max(RANGE_BYTES_MIN, -(-size // RANGES_MAX))
    return ((at, min(at + each, size)) for at in range(0, size, each))


def unusable(path: Path, error: Exception) -> FleetError:
    """What is said of a journal that cannot be read: no later try finds in it what is gone."""
    return FleetError(f"the journal {path} cannot be used ({error}); --anew begins the copying again without it")


def _text(value: bytes) -> str:
    # SQLite's own answer to what is no text is an OperationalError, as if another try could read it.
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise sqlite3.DatabaseError(f"a text in it is none: {error}") from error


def _loaded(text: str) -> Any:
    """A value that was written down; one that is none is damage to the journal, as a page is that SQLite cannot read."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise sqlite3.DatabaseError(f"an entry in it is none: {error}") from error


def _signed(number: int) -> int:
    # SQLite's integers have 64 bits with a sign.
    return number - (1 << 64) if number >= 1 << 63 else number


def ids_of(path: Path) -> list[str]:
    """The id of the copying that a journal is of, and those of earlier ones that it was to forget; none where there is no
    journal that could be read."""
    if not path.exists():
        return []
    try:
        db = sqlite3.connect(path)
        rows = db.execute("SELECT v FROM meta WHERE k IN ('id', 'forgotten')").fetchall()
        db.close()
    except sqlite3.DatabaseError:
        return []
    return [id for (value,) in rows for id in value.split()]


def _real(path: Path) -> Path:
    """The one name of a journal, however many links lead to it: its lock lies beside it, and it is what is removed."""
    return Path(os.path.realpath(path))


def _locked(path: Path) -> int:
    """The lock of a journal, which is one process's at a time."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise FleetError(f"the journal cannot be kept as {path} (no regular file); name another file with --journal")
    _refuse_what_is_none(path)
    for _ in range(LOCKS_MAX):
        try:
            lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise FleetError(
                f"the journal cannot be kept as {path} ({error.strerror}); name another file with --journal"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            break
        # Who had it may have removed it since it was opened: then it is the lock of nothing.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), os.stat(f"{path}.lock")):
                return lock
        os.close(lock)
    raise FleetError(f"another process is at this copying: it has {path}; wait for it, or end it")


def _refuse_what_is_none(path: Path) -> None:
    """Refuses a file of somebody else's, of which nothing is to be changed or removed. A journal may be damaged, or empty."""
    try:
        with open(path, "rb") as file:
            start = file.read(len(_START))
        is_none = start not in (b"", _START)
        if start == _START:
            with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as db:
                tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master")]
                is_none = bool(tables) and ("meta" not in tables or not db.execute(_WORDS).fetchone())
    except FileNotFoundError:
        return
    except (OSError, sqlite3.OperationalError) as error:
        raise FleetError(f"{path} cannot be read as a journal ({error}); name another file with --journal") from error
    except sqlite3.DatabaseError:
        return
    if is_none:
        raise FleetError(f"{path} is no journal; name another file with --journal")


def forget(path: Path) -> str | None:
    """Removes a journal that nobody is at; the ids of its copying, and of those that it was to forget."""
    path = _real(path)
    lock = _locked(path)
    try:
        ids = ids_of(path)
        remove(path)
    finally:
        os.close(lock)
    return " ".join(ids) or None


def remove(path: Path) -> None:
    """Removes a journal, whatever state it is in."""
    try:
        for end in ("", "-wal", "-shm", ".lock"):
            Path(f"{path}{end}").unlink(missing_ok=True)
    except OSError as error:
        raise FleetError(f"cannot remove the journal {path}: {error.strerror}") from error
