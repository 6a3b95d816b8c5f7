"""The parts of fleets that need no fleet: the journal, what is said of outliers, the page, the line of progress."""

import ast
import asyncio
import contextlib
import errno
import json
import os
import pickle
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("distributed", reason="fleets need the package distributed")

from fleet_hosts import wait_until  # noqa: E402

import distributed  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402
from distributed.comm import CommClosedError  # noqa: E402

from bytepath.fleet import analysis, cluster, each, files, findings, machines, metrics, report  # noqa: E402
from bytepath.fleet import signals, storage, words, worker  # noqa: E402
from bytepath.fleet import __main__ as command_line  # noqa: E402
from bytepath.fleet.__main__ import main, parser  # noqa: E402
from bytepath.fleet.cluster import local_workers  # noqa: E402
from bytepath.fleet.copy import ground, pieces, run  # noqa: E402
from bytepath.fleet.copy import journal as journals  # noqa: E402
from bytepath.fleet.copy.journal import Journal  # noqa: E402
from bytepath.fleet.copy.members import Members  # noqa: E402
from bytepath.fleet.copy.options import Options  # noqa: E402
from bytepath.fleet.copy.pieces import BUDGET_MS, SHARES, Flight, Pieces, Yardstick, piece  # noqa: E402
from bytepath.fleet.copy.progress import text  # noqa: E402
from bytepath.fleet.errors import FleetError, Lost, WrongUsage  # noqa: E402
from bytepath.fleet.text import as_text  # noqa: E402
from bytepath.fleet.within import ended, within  # noqa: E402

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
NOBODY = 65534

EMPTY = {"files": 0, "bytes": 0, "directories": 0, "w": 0.0, "rest": [], "large": [], "links": [], "failed": [],
         "told": [], "closed": [], "begun": [], "moved": [], "apart": [], "again": []}  # fmt: skip


@pytest.fixture
def journal(tmp_path):
    journal = Journal(tmp_path / "a.journal", ["from", "to"])
    yield journal
    journal.close()


def answer(**found):
    return {**EMPTY, **found}


def tree(path):
    return {"do": "tree", "d": path, "w": 0.5}


def test_figures_have_about_three_digits_as_in_the_tables_of_a_record():
    for value, text in [
        (0, "0"), (0.00123, "0.00123"), (0.0975, "0.0975"), (0.09994, "0.0999"), (0.09996, "0.100"), (0.1042, "0.104"),
        (0.9994, "0.999"), (0.9996, "1.00"), (1.0, "1.00"), (9.994, "9.99"), (9.996, "10.0"), (12.0, "12.0"),
        (99.96, "100"), (312.4, "312"), (1023.0, "1023"), (9870.0, "9870"), (9999.4, "9999"), (9999.6, "10.0k"),
        (999_600.0, "1.00M"), (1.23e6, "1.23M"), (3.5e9, "3.50G"), (27e12, "27.0T"), (1e18, "1.00e18"),
        (1.234e-5, "1.23e-5"), (-8.512, "-8.51"), (float("nan"), "–"), (float("inf"), "–"),
    ]:  # fmt: skip
        assert words.figure(value) == text, value
    assert words.measured(1.23e6, "op/s") == "1.23M op/s"
    assert words.measured(None, "s") == "–"
    assert words.about(10 << 40) == "10 TiB"


def test_work_that_was_taken_comes_back_when_the_journal_is_opened_again(tmp_path):
    journal = Journal(tmp_path / "a.journal", ["from", "to"])
    journal.put([tree("a"), tree("b")])
    taken = journal.take(1)
    assert [item["d"] for _, item in taken] == ["b"]
    assert journal.settle(taken, answer(files=3, rest=[tree("b/c")]))
    journal.take(1)
    journal.commit()
    journal.close()
    again = Journal(tmp_path / "a.journal", ["from", "to"])
    assert [item["d"] for _, item in again.take(9)] == ["b/c", "a"]
    assert again.get("files") == "3"
    again.close()


def test_what_weighs_most_is_taken_first_and_what_was_begun_before_that(journal):
    weights = {"light": 0.1, "heavy": 0.4, "middle": 0.2}
    journal.put([{"do": "tree", "d": path, "w": w} for path, w in weights.items()])
    assert [item["d"] for _, item in journal.take(9, 0.5)] == ["heavy", "middle"]
    journal.give_back()
    # One thing is taken, however little is asked for.
    assert [item["d"] for _, item in journal.take(9, 0.0)] == ["heavy"]
    journal.give_back()
    journal.put([{"do": "begin", "f": "large", "k": 1, "w": 0.01}, {"do": "range", "f": "large", "k": 2, "a": 0, "z": 9, "w": 0.01},
                 {"do": "end", "f": "large", "k": 3, "w": 0.0}])  # fmt: skip
    assert [item["do"] for _, item in journal.take(4)] == ["end", "range", "begin", "tree"]


def test_what_weighs_nothing_goes_together(journal):
    journal.put([{"do": "attributes", "l": name, "a": 0} for name in "abc"])
    assert len(journal.take(9, 0.0)) == 3


def test_a_copying_that_goes_on_measures_only_what_it_does_itself():
    measured = Yardstick(0.97)
    measured.began -= 10
    # A hundredth took 10 s: two hundredths are left for longer than any piece may take.
    assert measured.budget_ms(1000, 2, 0.98) == BUDGET_MS
    assert measured.weight(2, 0.98) == pytest.approx(0.02 / (SHARES * 2))


def test_what_was_not_committed_is_as_if_it_had_not_been_answered(tmp_path):
    journal = Journal(tmp_path / "a.journal", ["from", "to"])
    journal.put([tree("a")])
    journal.commit()
    journal.settle(journal.take(1), answer(files=7))
    journal.close()
    again = Journal(tmp_path / "a.journal", ["from", "to"])
    assert [item["d"] for _, item in again.take(9)] == ["a"]
    assert again.get("files") is None
    again.close()


def test_work_that_was_answered_twice_counts_once(journal):
    journal.put([tree("a")])
    taken = journal.take(1)
    assert journal.settle(taken, answer(files=5))
    # A number is not given out again, so that a late answer is not taken for another's.
    journal.put([tree("b")])
    assert not journal.settle(taken, answer(files=5))
    assert journal.get("files") == "5" and len(journal.take(9)) == 1


def test_a_large_file_is_named_once_all_its_ranges_are_there(journal):
    journal.put([tree("")])
    journal.settle(journal.take(1), answer(large=[{"f": "big", "size": 200 << 20, "w": 0.5}]))
    [(id, begin)] = journal.take(9)
    assert begin["do"] == "begin"
    journal.settle([(id, begin)], answer(begun=[{"k": begin["k"], "s": "name", "cloned": False, "ino": 1, "size": 200 << 20, "mtime": 1 << 61}]))
    ranges = journal.take(9)
    assert [(item["a"], item["z"]) for _, item in ranges] == list(journals.cut(200 << 20))
    assert ranges[0][1]["a"] == 0 and ranges[-1][1]["z"] == 200 << 20
    first, *others = ranges
    rest = {**first[1], "a": 5}
    journal.settle([first], answer(rest=[rest]))
    for other in others:
        journal.settle([other], EMPTY)
    left = journal.take(9)
    assert [item for _, item in left] == [rest]
    journal.settle(left, EMPTY)
    [(_, end)] = journal.take(9)
    assert (end["do"], end["f"], end["s"], end["size"], end["ino"], end["mtime"]) == ("end", "big", "name", 200 << 20, 1, 1 << 61)


def test_what_an_earlier_run_has_begun_is_told_so(tmp_path):
    journal = Journal(tmp_path / "a.journal", ["from", "to"])
    journal.put([tree("")])
    journal.settle(journal.take(1), answer(large=[{"f": name, "size": 200 << 20, "w": 0.2} for name in ("one", "two")]))
    begun = {"s": "name", "cloned": False, "ino": 1, "size": 200 << 20, "mtime": 1}
    [begin] = journal.take(1)
    journal.settle([begin], answer(begun=[{"k": begin[1]["k"], **begun}]))
    assert not any("earlier" in item for _, item in journal.take(9))
    journal.commit()
    journal.close()
    again = Journal(tmp_path / "a.journal", ["from", "to"])
    taken = [item for _, item in again.take(9)]
    assert {item["do"] for item in taken} == {"begin", "range"}
    assert all(("earlier" in item) == (item["do"] == "range") for item in taken)
    again.close()


def test_how_far_it_is_goes_by_the_bytes_of_large_files_that_are_left(journal):
    journal.put([{"do": "tree", "d": "", "w": 1.0}])
    large = [{"f": name, "size": 128 << 20, "w": 0.25} for name in ("one", "two")]
    several = [{"f": name, "ino": 1, "size": 1, "mtime": 1, "w": 0.125} for name in ("first", "second")]
    # A directory of small files, of two large ones, and of two names.
    journal.settle(journal.take(1), answer(w=1.0, files=4, bytes=64 << 20, large=large, links=several))
    assert journal.share() == (64 << 20) / (320 << 20)
    last = 0.0
    while taken := journal.take(1):
        assert last <= journal.share() < 1
        last = journal.share()
        [(_, item)] = taken
        if item["do"] == "begin":
            found = answer(begun=[{"k": item["k"], "s": "s", "cloned": False, "ino": 1, "size": 128 << 20, "mtime": 1 << 61}])
        elif item["do"] == "range" and item["z"] - item["a"] > 32 << 20:
            # What is left of it comes back.
            half = item["a"] + (32 << 20)
            found = answer(w=item["w"] / 2, bytes=32 << 20, rest=[{**item, "a": half, "w": item["w"] / 2}])
        else:
            found = answer(w=item["w"], bytes=item.get("z", 0) - item.get("a", 0))
        journal.settle(taken, found)
    assert journal.share() == 1


def test_a_range_that_failed_keeps_its_file_from_being_named_and_begins_it_anew(journal):
    journal.put([tree("")])
    journal.settle(journal.take(1), answer(large=[{"f": "big", "size": 100 << 20, "w": 0.5}]))
    [(id, begin)] = journal.take(9)
    journal.settle([(id, begin)], answer(begun=[{"k": begin["k"], "s": "name", "cloned": False, "ino": 1, "size": 100 << 20, "mtime": 1 << 61}]))
    first, second = journal.take(9)
    journal.settle([first], answer(failed=[{"item": first[1], "why": ["error reading"], "errno": 5}]))
    journal.settle([second], EMPTY)
    assert journal.take(9) == []
    assert journal.failures(9) == (1, ["error reading"])
    assert journal.try_failed_again() == 1
    assert [item for _, item in journal.take(9)] == [{"do": "tree", "d": "", "n": ["big"]}]
    assert journal.unfinished() == []


def test_nothing_is_left_to_be_done_of_a_large_file_that_is_begun_anew_but_its_name(journal):
    journal.put([tree("")])
    journal.settle(journal.take(1), answer(large=[{"f": "big", "size": 192 << 20, "w": 0.75}]))
    [(id, begin)] = journal.take(9)
    begun = {"k": begin["k"], "s": "name", "cloned": False, "ino": 1, "size": 192 << 20, "mtime": 1 << 61}
    journal.settle([(id, begin)], answer(begun=[begun]))
    [first, *_] = journal.take(9)
    # The run ends before the others are done.
    journal.settle([first], answer(failed=[{"item": first[1], "why": ["error reading"]}]))
    journal.give_back()
    assert journal.try_failed_again() == 1 and journal.number("large_left") == 0
    assert [item for _, item in journal.take(9)] == [{"do": "tree", "d": "", "n": ["big"], "w": 0.5}]


def test_what_was_copied_of_a_large_file_that_is_begun_anew_does_not_count(tmp_path):
    path, words, size = tmp_path / "a.journal", ["from", "to"], 192 << 20

    def begins(journal):
        """Its ranges."""
        [begin] = journal.take(9)
        begun = {"k": begin[1]["k"], "s": "name", "cloned": False, "ino": 1, "size": size, "mtime": 1 << 61}
        journal.settle([begin], answer(begun=[begun]))
        return journal.take(9)

    def copied(part):
        moved = part[1]["z"] - part[1]["a"]
        return answer(bytes=moved, moved=[{"k": part[1]["k"], "bytes": moved}])

    journal = Journal(path, words)
    journal.put([tree("")])
    journal.settle(journal.take(1), answer(bytes=5, large=[{"f": "big", "size": size, "w": 0.5}]))
    first, second, third = begins(journal)
    journal.settle([first], copied(first))
    # Another of them says that it is another file by now.
    journal.settle([second], answer(again=[{"k": second[1]["k"], "w": 0.1}]))
    assert journal.number("bytes") == 5 and journal.number("undone_bytes") == 0
    assert not journal.settle([third], copied(third))
    journal.settle(journal.take(1), answer(large=[{"f": "big", "size": size, "w": 0.5}]))
    first, second, third = begins(journal)
    journal.settle([first, second], answer(**{**copied(first), "failed": [{"item": second[1], "why": ["error reading"]}]}))
    journal.settle([third], copied(third))
    assert journal.number("bytes") == 5 + (128 << 20)
    journal.commit()
    journal.close()
    journal = Journal(path, words)
    # What this run adds was not there before it.
    journal.db.execute("UPDATE large SET moved = moved + 7")
    journal.add_to("bytes", 7)
    journal.commit()
    for _ in range(2):
        # What is not kept is not counted, and done again.
        journal.try_failed_again()
        assert journal.number("bytes") == 5 and journal.number("undone_bytes") == 128 << 20
        journal.rollback()
    journal.try_failed_again()
    journal.commit()
    journal.close()
    journal = Journal(path, words)
    assert journal.number("undone_bytes") == 0
    journal.close()


def test_a_large_file_that_is_another_meanwhile_is_forgotten_with_all_its_parts_and_looked_at_by_its_names(journal):
    journal.put([tree("")])
    several = [{"f": f, "ino": 7, "size": 192 << 20, "mtime": 1, "w": 0.5} for f in ("d/big", "other")]
    journal.settle(journal.take(1), answer(w=1.0, links=several))
    large = [{"f": "d/big", "size": 192 << 20, "w": 0.5}, {"f": "d/good", "size": 64 << 20, "w": 0.25}]
    journal.settle(journal.take(1), answer(large=large))
    for id, begin in journal.take(9):
        size = 192 << 20 if begin["f"] == "d/big" else 64 << 20
        begun = {"k": begin["k"], "s": begin["f"], "cloned": False, "ino": 1 << 63, "size": size, "mtime": 1 << 61}
        journal.settle([(id, begin)], answer(begun=[begun]))
    taken = journal.take(9)
    k, = {item["k"] for _, item in taken if item["f"] == "d/big"}
    good, = (part for part in taken if part[1]["f"] == "d/good")
    first, second, third = (part for part in taken if part[1]["k"] == k)
    assert first[1]["ino"] == 1 << 63
    failed = answer(failed=[{"item": first[1], "why": ["why"]}])
    assert journal.settle([first], failed) and journal.failures(1)[0] == 1
    assert journal.settle([second], answer(again=[{"k": k, "w": second[1]["w"]}])) and journal.failures(1)[0] == 0
    assert journal.get("large_left") == str(64 << 20)
    assert not journal.settle([third], failed), "nobody waits for it any more"
    # What is done of others in the same piece counts.
    rest = [{**third[1], "a": 1}, {**good[1], "a": 1}]
    assert journal.settle([third, good], answer(rest=rest, failed=[{"item": third[1], "why": ["why"]}]))
    left = [item for _, item in journal.take(9)]
    assert sorted(item.get("f") or f"{item['d']}/{item['n'][0]}" for item in left) == ["/other", "d/big", "d/good"]
    assert journal.failures(1)[0] == 0 and not journal.put_links(9, 9) and journal.unfinished() == ["d/good"]
    assert journal.get("large_left") == str((64 << 20) - 1)


def test_the_first_name_of_a_file_is_copied_and_the_others_become_names_of_it(journal):
    journal.put([tree("")])
    links = [{"f": name, "ino": (1 << 64) - 2, "size": 1, "mtime": 1, "w": 0.1} for name in ("d/a", "d/b", "c", "d/b", "d/a")]
    journal.settle(journal.take(1), answer(links=links))
    [(_, first)] = journal.take(9)
    assert (first["d"], first["n"], first["alone"]) == ("d", ["a"], True)
    assert journal.put_links(9, 9)
    [(_, item)] = journal.take(9)
    assert item["links"] == [["d/a", "d/b"], ["d/a", "c"]]


def test_directories_that_close_come_deepest_first(journal):
    journal.put([tree("")])
    journal.settle(journal.take(1), answer(closed=["a", "a/b/c", "", "x/y"]))
    found = []
    while journal.put_closed(9):
        found += [item["dirs"] for _, item in journal.take(9)]
    assert found == [["a/b/c"], ["x/y"], ["a"]], "the root comes after all"


def test_directories_in_which_something_failed_stay_open_until_it_is_tried_again(journal):
    journal.put([tree("")])
    failed = {"do": "tree", "d": "a/b", "n": ["file"]}
    journal.settle(
        journal.take(1),
        answer(closed=["", "a", "a/b", "a/c"], failed=[{"item": failed, "why": ["no room"], "errno": 28}]),
    )
    journal.leave_open()
    assert [journal.is_left_open(folder) for folder in ("", "a", "a/b", "a/c")] == [True, True, True, False]
    assert journal.put_closed(9) and [item["dirs"] for _, item in journal.take(9)] == [["a/c"]]
    assert not journal.put_closed(9)
    assert journal.try_failed_again() == 1
    assert not journal.is_left_open("a")
    journal.settle(journal.take(9), EMPTY)
    journal.leave_open()
    closed = []
    while journal.put_closed(9):
        closed += [item["dirs"] for _, item in journal.take(9)]
    assert closed == [["a/b"], ["a"]]


def test_what_failed_is_tried_again_in_its_turn(journal):
    journal.put([tree("")])
    items = [
        {"do": "tree", "d": "", "n": ["first"], "alone": True},
        {"do": "links", "links": [["other", "second"]]},
        {"do": "attributes", "l": "list", "a": 7},
        {"do": "closed", "dirs": ["a/b"]},
        {"do": "end", "f": "c/big", "k": 1, "size": 1},
        {"do": "tree", "d": "d"},
    ]
    journal.settle(journal.take(1), answer(failed=[{"item": item, "why": ["why"]} for item in items]))
    assert journal.try_failed_again() == 6
    # By their names: whatever they are now.
    assert sorted(map(str, (item for _, item in journal.take(9)))) == sorted(
        map(str, [items[5], {"do": "tree", "d": "", "n": ["first"]}, {"do": "tree", "d": "c", "n": ["big"]}])
    )
    assert journal.put_links(9, 9) and [item for _, item in journal.take(9)] == items[1:2]
    assert journal.put_attributes(9) and [item for _, item in journal.take(9)] == [{**items[2], "a": 0}]
    closed = []
    while journal.put_closed(9):
        closed += [item["dirs"] for _, item in journal.take(9)]
    assert closed == [["a/b"], ["c"]]


def of_one_file(*names):
    return [{"f": name, "ino": 7, "size": 1, "mtime": 1, "w": 0.0} for name in names]


def fails(journal, taken, names, **more):
    """Answers that these names failed, and that the others are of one file."""
    failed, several = [], []
    for _, item in taken:
        path = f"{item['d']}/{item['n'][0]}"
        if item.get("alone"):
            failed += [{"item": {**item, **more}, "why": [f"no {path}"]}] if path in names else []
        else:
            several += of_one_file(path)
    journal.settle(taken, answer(links=several, failed=failed))


def test_where_the_first_name_of_a_file_failed_the_next_takes_its_place(journal):
    journal.put([tree("")])
    journal.settle(journal.take(1), answer(links=of_one_file("d/a", "d/b", "d/c", "e/d", "e/e")))
    tried = []
    while journal.free() or journal.put_links(9, 9):
        taken = journal.take(9)
        if taken[0][1]["do"] == "links":
            break
        tried += [(item["n"], item.get("alone", False)) for _, item in taken]
        fails(journal, taken, ["d/a", "d/b"])
    assert tried == [(["a"], True), (["b"], False), (["b"], True), (["c"], False), (["c"], True)], "one after the other"
    assert [item for _, item in taken] == [{"do": "links", "links": [["d/c", "e/d"], ["d/c", "e/e"]]}]
    journal.settle(taken, EMPTY)
    assert journal.failures(9) == (2, ["no d/a", "no d/b"]) and not journal.put_links(9, 9)
    # Once they can be made, they are names of the same file.
    assert journal.try_failed_again() == 2
    taken = journal.take(9)
    assert sorted(item["n"] for _, item in taken) == [["a"], ["b"]]
    fails(journal, taken, [])
    assert journal.put_links(9, 9)
    [(_, item)] = journal.take(9)
    assert sorted(item["links"]) == [["d/c", "d/a"], ["d/c", "d/b"]]


def test_names_of_a_file_that_ends_whoever_copies_it_are_not_made_and_any_may_be_the_first_when_they_are_tried_again(journal):
    journal.put([tree("")])
    first, second, third = ("d/a\xc3\xbc", "d/second", "d/third")
    journal.settle(journal.take(1), answer(links=of_one_file(first, second, third)))
    fails(journal, journal.take(9), [first], deadly=True)
    assert journal.put_links(9, 9) and not journal.put_links(9, 9) and journal.take(9) == []
    # What is in the journal is what the bytes of names are.
    why = "'to/{}' is not made: 'to/d/aü', the same file, was not copied"
    assert journal.failures(9) == (3, [f"no {first}", why.format(second), why.format(third)])
    assert journal.try_failed_again() == 3
    taken = journal.take(9)
    assert sorted(item["n"] for _, item in taken) == [["a\xc3\xbc"], ["second"], ["third"]]
    # The first is gone from the source meanwhile.
    journal.settle(taken, answer(links=of_one_file(second, third)))
    (taken,) = journal.take(9)
    assert taken[1]["n"] == ["second"] and taken[1]["alone"]
    journal.settle([taken], EMPTY)
    assert journal.put_links(9, 9)
    assert [item for _, item in journal.take(9)] == [{"do": "links", "links": [["d/second", "d/third"]]}]
    # Where something was made, the time is set once more.
    assert journal.put_closed(9) and [item["dirs"] for _, item in journal.take(9)] == [["d"]]


def test_the_number_of_an_inode_may_become_another_files(journal):
    journal.put([tree("")])
    found = [{"f": f, "ino": 7, "size": 1, "mtime": mtime, "w": 0.0} for f, mtime in (("a", 1), ("b", 2), ("c", 2))]
    journal.settle(journal.take(1), answer(links=found))
    assert sorted(item["n"] for _, item in journal.take(9)) == [["a"], ["b"]]
    assert journal.put_links(9, 9) and [item["links"] for _, item in journal.take(9)] == [[["b", "c"]]]


def test_files_of_two_devices_that_look_like_one_are_told_apart_by_who_makes_the_names(journal):
    journal.put([tree("")])
    several = {f: {"f": f, "ino": 7, "size": 1, "mtime": 1, "w": 0.0} for f in ("x/a", "x/b", "y/a", "y/b", "z/a", "z/b")}
    journal.settle(journal.take(1), answer(links=several.values()))
    copied, made, rounds = [], [], 0
    while rounds < 9 and (journal.put_links(9, 9) or journal.free()):
        rounds += 1
        taken = journal.take(99)
        found = {"links": [], "apart": []}
        for _, item in taken:
            names = [f"{item['d']}/{name}" for name in item["n"]] if item["do"] == "tree" else []
            copied += names if item.get("alone") else []
            found["links"] += [] if item.get("alone") else [several[name] for name in names]
            for first, name in item.get("links", []):
                # Names in one folder are of one file.
                same = first[0] == name[0]
                made += [[first, name]] if same else []
                found["apart"] += [] if same else [{"f": first, "name": name, "gone": False}]
        journal.settle(taken, answer(**found))
    assert rounds < 9 and sorted(name[0] for name in copied) == ["x", "y", "z"]
    assert sorted(sorted(names) for names in made) == [["x/a", "x/b"], ["y/a", "y/b"], ["z/a", "z/b"]]
    assert all(first in copied for first, _ in made)


def test_a_large_file_that_is_forgotten_is_missed(journal):
    journal.put([tree("")])
    journal.settle(journal.take(1), answer(large=[{"f": "big", "size": 200 << 20, "w": 0.5}]))
    assert journal.unfinished() == ["big"]
    (begin,) = journal.take(1)
    journal.settle([begin], answer(begun=[{"k": begin[1]["k"], "s": "name", "cloned": True, "ino": 1, "size": 200 << 20, "mtime": 1 << 61}]))
    end = journal.take(1)
    assert end[0][1]["do"] == "end" and journal.unfinished() == ["big"]
    journal.settle(end, EMPTY)
    assert journal.unfinished() == []


def test_a_journal_has_one_user_and_one_copying(tmp_path, journal):
    with pytest.raises(FleetError, match="another process is at this copying"):
        Journal(tmp_path / "a.journal", ["from", "to"])
    other = Journal(tmp_path / "b.journal", ["from", "to"])
    other.close()
    with pytest.raises(FleetError, match="the journal of another copying"):
        Journal(tmp_path / "b.journal", ["from", "elsewhere"])
    (tmp_path / "c.journal").write_bytes(b"SQLite format 3\0, but nothing else of it, long enough to look like something" * 99)
    with pytest.raises(FleetError, match="--anew"):
        Journal(tmp_path / "c.journal", ["from", "to"])


def test_a_file_that_is_no_journal_is_neither_changed_nor_removed(tmp_path):
    (tmp_path / "notes.txt").write_text("precious")
    for name, table in (("app.db", "accounts"), ("other.db", "meta")):
        with contextlib.closing(sqlite3.connect(tmp_path / name)) as db:
            db.execute(f"CREATE TABLE {table} (k TEXT, v TEXT)")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for path in before:
        for use in (lambda path: Journal(path, ["from", "to"]), journals.forget):
            with pytest.raises(FleetError, match="is no journal; name another file"):
                use(path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("left", [b"", b"SQLite format 3\0 and what a disk made of the rest" * 99, None])
def test_a_journal_that_was_hardly_begun_or_is_damaged_is_forgotten(tmp_path, left):
    path = tmp_path / "a.journal"
    if left is None:
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA journal_mode=WAL")
    else:
        path.write_bytes(left)
    assert journals.forget(path) is None and not list(tmp_path.iterdir())


def test_a_journal_with_damaged_pages_or_values_is_told_of_with_the_remedy(tmp_path):
    path, words = tmp_path / "a.journal", ["from", "to"]
    for sql in ("UPDATE meta SET v = '[\"from' WHERE k = 'words'", "UPDATE meta SET v = CAST(x'ff' AS TEXT) WHERE k = 'words'"):
        Journal(path, words).close()
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute(sql)
            db.commit()
        with pytest.raises(FleetError, match="cannot be used.*--anew"):
            Journal(path, words)
        journals.forget(path)
    journal = Journal(path, words)
    journal.put(tree(f"a{number}") for number in range(2000))
    journal.commit()
    journal.close()
    # What says whose it is stands before.
    pages = path.read_bytes()
    path.write_bytes(pages[: 16 << 10] + b"\xa5" * (len(pages) - (16 << 10)))
    with pytest.raises(FleetError, match="cannot be used.*--anew"):
        Journal(path, words)
    assert journals.forget(path) is None and not list(tmp_path.iterdir())


def test_a_journal_is_removed_under_its_lock_and_a_lock_that_was_removed_is_none(tmp_path, monkeypatch):
    path = tmp_path / "a.journal"
    first = Journal(path, ["from", "to"])
    flock, met = journals.fcntl.flock, []

    def locked_after_the_first_ended(file, how):
        # Between another's opening of the lock, and its taking.
        monkeypatch.setattr(journals.fcntl, "flock", flock)
        first.remove()
        flock(file, how)

    def removed(path):
        with pytest.raises(FleetError, match="another process is at this copying"):
            journals._locked(path)
        met.append(path)
        remove(path)

    remove = journals.remove
    monkeypatch.setattr(journals, "remove", removed)
    monkeypatch.setattr(journals.fcntl, "flock", locked_after_the_first_ended)
    second = Journal(path, ["from", "to"])
    assert met == [path] and second.is_new
    with pytest.raises(FleetError, match="another process is at this copying"):
        Journal(path, ["from", "to"])
    second.close()


def test_a_journal_that_a_link_leads_to_has_one_user_by_all_its_names(tmp_path):
    path, link = tmp_path / "a.journal", tmp_path / "link"
    link.symlink_to("a.journal")
    first = Journal(link, ["from", "to"])
    for name in (path, link):
        for use in (lambda path: Journal(path, ["from", "to"]), journals.forget):
            with pytest.raises(FleetError, match="another process is at this copying"):
                use(name)
    assert not list(tmp_path.glob("link.*")), "what belongs to it lies beside it"
    first.remove()
    assert list(tmp_path.iterdir()) == [link]
    first = Journal(path, ["from", "to"])
    first.close()
    journals.forget(link)
    assert list(tmp_path.iterdir()) == [link]


def machine(name, medians, **settings):
    arms = [{"name": arm, "unit": "GiB/s", "better": "higher", "status": "ok", "median": value,
             "ci95": [value * 0.98, value * 1.02], "samples": [{"value": value * by} for by in (0.99, 1.0, 1.01)]}
            for arm, value in medians.items()]  # fmt: skip
    record = {"arms": arms, "trusted": True, "machine": {"governor": "performance", "kernel": "6.18", **settings}}
    return {"name": name, "status": "ok", "why": "", "record": record}


def fleet_of(*found):
    return {"words": ["bench", "pipes"], "started": "2026-01-01", "machines": list(found)}


def test_an_outlier_is_named_with_what_is_set_otherwise_there():
    found = fleet_of(*(machine(f"node-{at}", {"wake": 1.0 + at / 100, "copy": 5.0}) for at in range(6)),
                     machine("node-17", {"wake": 1.0 / 6, "copy": 5.0}, governor="powersave"))  # fmt: skip
    shown = report.view(found)
    assert shown["sentences"] == [
        "node-17 is 6.1x slower than the rest at wake: another governor (powersave, elsewhere performance)"
    ]
    told = report.terminal(found, shown)
    assert "0.163!" in told and "governor differs: performance, but powersave on node-17" in told


def reasons(found):
    """What an outlier is said to have otherwise, and what is said to differ."""
    shown = report.view(found)
    told = report.terminal(found, shown)
    lines = [line for line in told.splitlines() if " differs: " in line]
    return [line.partition(": ")[2] for line in shown["sentences"]], lines


def test_what_is_each_machines_own_is_no_reason():
    own = "{}-{:04}-4e5b-8a5c-0123456789ab"
    found = fleet_of(*(machine(
        f"n{at}", {"wake": 6.0 if at == 2 else 1.0}, memory_bytes=16777216000 + 4096 * at, memlock_bytes=8388608,
        command_line=f"BOOT_IMAGE=/linux-{at} root=UUID={own.format('a' * 8, at)} quiet of={own.format('b' * 8, at)}",
        file_system=["ext4", "xfs", "btrfs"][at],
    ) for at in range(3)))  # fmt: skip
    [reason], lines = reasons(found)
    assert reason.startswith("none of the settings that most machines share is another one there")
    assert lines == ["file system differs: ext4 on n0; xfs on n1; btrfs on n2"]
    found = fleet_of(*(machine(f"n{at}", {"wake": 1.0}, file_system=f"fs{at}") for at in range(30)))
    assert reasons(found) == ([], ["file system differs: it is another one on each machine"])


def test_of_settings_with_many_parts_those_are_told_of_that_differ():
    def one(at, spectre="Retpolines", options="", l3=32, memory=64):
        caches = [{"level": 1, "kind": "data", "bytes": 49152, "cpus": str(cpu)} for cpu in range(8)]
        caches.append({"level": 3, "kind": "unified", "bytes": l3 << 20, "cpus": "0-7"})
        mitigations = {"l1tf": "Not affected", "spectre_v1": spectre, "spectre_v2": spectre}
        return machine(f"n{at}", {"wake": 1.0 if at else 9.0}, caches=caches, mitigations=mitigations,
                       memory_bytes=memory << 30, command_line=f"quiet{options} -- init{at}")  # fmt: skip

    odd = one(0, "Vulnerable", " mitigations=off isolcpus=1 isolcpus=2", 96, 512)
    assert reasons(fleet_of(odd, *(one(at) for at in range(1, 5)))) == (
        ["another L3 cache (unified) (1 of 96 MiB, elsewhere 1 of 32 MiB), "
         "another mitigation of spectre_v1 (Vulnerable, elsewhere Retpolines) and 1 more such, "
         "another memory (512 GiB, elsewhere 64 GiB)"],
        ["L3 cache (unified) differs: 1 of 32 MiB, but 1 of 96 MiB on n0",
         "mitigation of spectre_v1 differs: Retpolines, but Vulnerable on n0",
         "mitigation of spectre_v2 differs: Retpolines, but Vulnerable on n0",
         "memory differs: 64 GiB, but 512 GiB on n0",
         "boot option mitigations differs: not given, but off on n0",
         "boot option isolcpus differs: not given, but 1,2 on n0"],
    )  # fmt: skip


def test_another_build_of_the_same_version_is_the_first_reason():
    old = machine("old", {"wake": 0.5}, governor="powersave")
    found = fleet_of(*(machine(f"n{at}", {"wake": 1.0}) for at in range(3)), old)
    for entry in found["machines"]:
        entry["record"]["bytepath"] = {"version": "0.1.0", "build": "debug" if entry["name"] == "old" else "d4b7c01b"}
    [reason], lines = reasons(found)
    assert reason == (
        "another build of bytepath (0.1.0 debug, elsewhere 0.1.0 d4b7c01b), "
        "another governor (powersave, elsewhere performance)"
    )
    assert lines[0] == "build of bytepath differs: 0.1.0 d4b7c01b, but 0.1.0 debug on old"


def test_where_no_value_is_that_of_most_there_is_no_usual_one():
    speeds = [{"wake": 9.0}, *[{"wake": 1.0}] * 11]
    governors = ["performance", "powersave"] * 6
    found = fleet_of(*(machine(f"n{at}", speeds[at], governor=governors[at]) for at in range(12)))
    [reason], [line] = reasons(found)
    assert reason.startswith("none of the settings that most machines share")
    even, uneven = (", ".join(f"n{at}" for at in range(first, 12, 2)) for first in (0, 1))
    assert line == f"governor differs: performance on {even}; powersave on {uneven}"
    kernels = ["6.1", "6.1", "6.2", *["6.3"] * 9]
    found = fleet_of(*(machine(f"n{at}", speeds[at], kernel=kernels[at]) for at in range(12)))
    assert reasons(found)[0] == ["another kernel (6.1, on most 6.3)"]
    # The page frames what is not as on most.
    page = report.page(found, report.view(found))
    assert page.count('<td class="far">6.') == 2 and "<td>6.3</td><td>the other 9</td>" in page
    assert '<td class="far">6.1</td><td>n0, n1</td>' in page and "<th>n0</th><th>n1</th>" not in page


def test_the_reasons_for_an_outlier_are_taken_from_the_machines_that_ran_the_arm():
    def one(name, governor, arms):
        return machine(name, {**arms, "copy": 5.0}, governor=governor)

    others = [one(f"n{at}", "performance", {}) for at in range(9)]
    odd = one("odd", "powersave", {"wake": 0.1})
    # All that ran it have that governor.
    found = fleet_of(odd, *(one(f"r{at}", "powersave", {"wake": 1.0}) for at in range(4)), *others)
    [reason], _ = reasons(found)
    assert reason.startswith("none of the settings that most machines share")
    # And of those that ran it, all others have another one, which is not that of most.
    others = [one(f"n{at}", "powersave", {}) for at in range(9)]
    found = fleet_of(odd, *(one(f"r{at}", "performance", {"wake": 1.0}) for at in range(4)), *others)
    assert reasons(found)[0] == ["another governor (powersave, elsewhere performance)"]
    # What all ran has reasons of its own.
    odd["record"]["arms"][1].update(median=0.5, ci95=[0.49, 0.51])
    wake, copy = report.view(found)["sentences"]
    assert wake.startswith("odd is 10.0x slower than the rest at wake: another governor (powersave, elsewhere")
    assert copy.startswith("odd is 10.0x slower than the rest at copy: none of the settings")


def test_where_less_is_better_the_slow_one_is_slow():
    found = fleet_of(*(machine(f"n{at}", {"wake": 2.0}) for at in range(4)), machine("slow", {"wake": 12.0}))
    for entry in found["machines"]:
        entry["record"]["arms"][0]["better"] = "lower"
    [sentence] = report.view(found)["sentences"]
    assert sentence.startswith("slow is 6.0x slower than the rest at wake: none of the settings")


@pytest.mark.parametrize("value", [0.0, 1e-320, 1e300, float("inf")])
def test_a_machine_that_measures_nothing_or_is_further_off_than_a_number_tells_is_odd(value):
    rest = [machine(f"n{at}", {"wake": 1e-310 if value > 1 else 1e300}) for at in range(4)]
    for better in ("higher", "lower"):
        found = fleet_of(*rest, machine("odd", {"wake": value}))
        for entry in found["machines"]:
            entry["record"]["arms"][0]["better"] = better
        shown = report.view(found)
        word = "faster" if (value > 1) == (better == "higher") else "slower"
        assert [line.partition(":")[0] for line in shown["sentences"]] == [f"odd is far {word} than the rest at wake"]
        assert report.terminal(found, shown).splitlines()[1].endswith("!")
        assert report.page(found, shown).count('class="far"') == 1
    nothing = fleet_of(*(machine(f"n{at}", {"wake": 0.0}) for at in range(5)))
    assert report.view(nothing)["sentences"] == []


def test_two_groups_do_not_hide_who_is_odd_in_one_of_them():
    found = halves(11, 10, governor="powersave")
    found["machines"] += [machine("odd", {"wake": 90.0, "copy": 0.0}, kernel="6.1", governor="powersave")]
    for arm in found["machines"][-1]["record"]["arms"]:
        arm.update(unit="s", better="lower")
    both, *odd = report.view(found)["sentences"]
    assert both.startswith("two groups at wake and 1 more arm: 11 machines at 1.00 s, 10 at 2.00 s (s0, ") and "and 2 more)" in both
    assert odd == [
        "odd is 45x slower than the rest of its group at wake: another kernel (6.1, elsewhere 6.18)",
        "odd is far faster than the rest of its group at copy: another governor (powersave, elsewhere performance), "
        "another kernel (6.1, elsewhere 6.18)",
    ]


def test_machines_that_are_alike_or_too_few_have_no_outlier():
    alike = fleet_of(*(machine(f"n{at}", {"wake": 1.0 + at / 50}) for at in range(8)))
    few = fleet_of(machine("a", {"wake": 1.0}), machine("b", {"wake": 9.0}))
    assert report.view(alike)["sentences"] == report.view(few)["sentences"] == []


def halves(fast, slow, **settings):
    """So many fast and slow machines, the slow ones with these settings."""
    found = [machine(f"f{at}", {"wake": 1.0 + at / 1000, "copy": 3.0}) for at in range(fast)]
    found += [machine(f"s{at}", {"wake": 2.0 + at / 1000, "copy": 6.0}, **settings) for at in range(slow)]
    for entry in found:
        for arm in entry["record"]["arms"]:
            arm.update(unit="s", better="lower")
    return fleet_of(*found)


def test_two_halves_are_two_groups_and_no_outliers():
    found = halves(15, 15, governor="powersave", kernel="6.1")
    # One of them has the kernel of the others.
    found["machines"][-1]["record"]["machine"]["kernel"] = "6.18"
    shown = report.view(found)
    assert shown["sentences"] == [
        "two groups at wake and 1 more arm: 15 machines at 1.01 s, 15 at 2.01 s "
        "(s0, s1, s2, s3, s4, s5, s6, s7 and 7 more): another governor (powersave, on the fast ones performance), "
        "another kernel (6.1, on the fast ones 6.18, but for 1 of them)"
    ]
    assert all(not row["outliers"] for row in shown["arms"]) and "0.67!" not in report.terminal(found, shown)
    [told] = report.view(halves(2, 2))["sentences"]
    assert "2 at 2.00 s (s0, s1): none of the settings that are recorded splits them so; look at" in told


def test_the_smaller_part_are_outliers_where_most_agree():
    told = report.view(halves(6, 4, governor="powersave"))["sentences"]
    assert len(told) == 4 and told[0] == (
        "s0 is 2.0x slower than the rest at copy and 1 more arm: another governor (powersave, on most performance)"
    )
    apart = fleet_of(*(machine(f"n{at}", {"wake": 1.1**at}) for at in range(10)))
    unsure = halves(3, 3)
    for entry in unsure["machines"]:
        for arm in entry["record"]["arms"]:
            arm["ci95"] = [0.1, 10]
    assert report.view(apart)["sentences"] == report.view(unsure)["sentences"] == []


def test_a_machine_that_was_disturbed_is_told_of_and_what_was_measured_again_does_not_count():
    busy = machine("busy", {"wake": 0.5})
    [arm] = busy["record"]["arms"]
    flags = {"flagged": True, "flag_why": "other processes used 90% of the CPU time"}
    arm["samples"] = [{"value": value, "superseded": value > 1, **flags} for value in (0.49, 7.0, 0.5, 7.1, 0.51, 7.2)]
    calm = [machine(f"n{at}", {"wake": 1.0}) for at in range(9)]
    # Of many samples one may be disturbed.
    calm[0]["record"]["arms"][0]["samples"] = [{"value": 1.0}] * 9 + [{"value": 1.0, **flags}]
    found = fleet_of(*calm, busy)
    shown = report.view(found)
    why = "other processes used 90% of the CPU time"
    assert shown["sentences"] == [
        f"busy is 2.0x slower than the rest at wake: it was disturbed there (3 of 3 samples: {why})"
    ]
    line = f"busy was disturbed by others on the machine: 6 of 6 samples: {why}"
    assert line in report.terminal(found, shown).splitlines() and shown["disturbed"].keys() == {"busy"}
    page = report.page(found, shown)
    # 3 samples of the busy one, 3 of each of 8, and 10.
    assert line in page and page.count('class="sample"') == 37
    assert shown["arms"][0]["samples"]["busy"] == [0.49, 0.5, 0.51]
    busy["record"]["machine"]["governor"] = "powersave"
    [sentence] = report.view(found)["sentences"]
    assert sentence.endswith("CPU time), another governor (powersave, elsewhere performance)")


def test_a_machine_that_was_lost_and_an_arm_that_could_not_run_are_in_the_report():
    there = machine("here", {"wake": 1.0})
    there["record"]["arms"].append({"name": "odd", "unit": "s", "better": "lower", "status": "unavailable", "why": "EPERM"})
    found = fleet_of(there, {"name": "gone", "status": "lost", "why": "its worker was lost", "record": None})
    shown = report.view(found)
    assert "gone: lost: its worker was lost" in report.terminal(found, shown)
    page = report.page(found, shown)
    assert "not measured: odd on every machine that answered: EPERM" in page and "its worker was lost" in page


def test_arms_that_were_not_measured_are_told_of_with_the_reason_and_keep_their_machines():
    found = fleet_of(*(machine(f"n{at}", {"wake": 1.0} if at else {}) for at in range(4)))
    for entry, why in zip(found["machines"], ("no io_uring", "no io_uring", "EPERM", None), strict=True):
        ran = {"status": "unavailable", "median": None} if why else {"status": "ok", "median": 0.0}
        arm = {"unit": "s", "better": "lower", "why": why, **ran}
        entry["record"]["arms"] += [{"name": name, **arm} for name in ("odd", "even")]
    shown = report.view(found)
    told = report.terminal(found, shown).splitlines()
    assert told == [
        "arm       median  n0    n1    n2    n3",
        "odd          0 s   –     –     –   0 s",
        "even         0 s   –     –     –   0 s",
        "wake  1.00 GiB/s   –  1.00  1.00  1.00",
        "times as fast as the median of all machines; ! is far from the rest, – was not measured",
        "not measured: odd, even on n0, n1: no io_uring",
        "not measured: odd, even on n2: EPERM",
        "not measured: wake on n0: its run has no such arm",
    ]
    page = report.page(found, shown)
    assert all(line in page for line in told[-3:]) and "<td>0 s</td>" in page
    alone = fleet_of(machine("n0", {}))
    alone["machines"][0]["record"]["arms"] = found["machines"][0]["record"]["arms"]
    assert report.terminal(alone, report.view(alone)).startswith("arm   median  n0\nodd        –   –\n")


def test_many_machines_are_lines_of_tables_that_fit_the_terminal():
    places = ("same-cpu", "smt-sibling", "shared-cache", "same-socket", "across-sockets")
    arms = {f"write-read@{place}": 1.0 for place in places}
    found = fleet_of(*(machine(f"node-{at:02}.of.a.cluster", arms) for at in range(30)))
    shown = report.view(found)
    told = report.terminal(found, shown, 80).splitlines()
    tables = "\n".join(told[:-1]).split("\n\n")
    assert max(map(len, told[:-1])) <= 80 and [table.count("\n") for table in tables] == [31, 31, 31]
    assert tables[0].splitlines()[:3] == [
        "machine               write-read@same-cpu  write-read@smt-sibling",
        "median                         1.00 GiB/s              1.00 GiB/s",
        "node-00.of.a.cluster                 1.00                    1.00",
    ]
    assert [[place in table for table in tables].count(True) for place in places] == [1] * 5
    # A terminal that is too narrow for anything has an arm in each.
    assert report.terminal(found, shown, 1).count("\nmedian ") == 5
    assert report.terminal(found, shown, 1000).splitlines()[0].startswith("arm ")


def test_one_long_name_makes_no_long_lines():
    arms = {f"write-read@{at}": 1.0 for at in range(6)}
    found = fleet_of(*(machine(name, arms) for name in (*"abcdefghijklm", "h" * 60 + ".site")))
    told = report.terminal(found, report.view(found), 80).splitlines()
    assert max(map(len, told[:-1])) <= 80 and any(line.startswith("hhhhhhhhh…hhh.site") for line in told)


def test_a_table_tells_machines_apart_and_commands_no_terminal():
    names = [f"worker-of-a-long-cluster-{at}.example.org" for at in ("a", "b")]
    found = fleet_of(*(machine(name, {"日本語": 1.0, "e\u0301\x1b[31m": 1.0}) for name in names),
                     {"name": "gone", "status": "lost", "why": "\x1b[2J", "record": None})  # fmt: skip
    assert report.terminal(found, report.view(found)).splitlines() == [
        "arm         median  worker-of-a-l…a.example.org  worker-of-a-l…b.example.org",
        "日本語  1.00 GiB/s                         1.00                         1.00",
        "e\u0301\ufffd[31m  1.00 GiB/s                         1.00                         1.00",
        "times as fast as the median of all machines; ! is far from the rest, – was not measured",
        "gone: lost: \ufffd[2J",
    ]


def doctors(name, *by):
    """What is told of findings of this name: found, why and setting of each machine; good, without a setting."""
    keys = ("found", "why", "setting", "verdict")
    every = [{"name": name, **dict(zip(keys, (*one, "poor" if one[2] else "good"), strict=True))} for one in by]
    found = [{"name": f"n{at}", "status": "ok", "record": {"findings": [one]}} for at, one in enumerate(every)]
    return findings.told({"machines": found}).splitlines()


def test_each_remedy_is_told_of_with_its_own_machines():
    def mounted(at, option):
        return f"{at}: rw,{option}", f"{option}: it waits", f"mount -o remount,no{option} {at}"

    of = [mounted(*at) for at in (("/", "discard"), ("/data", "sync"), ("/home", "discard"), ("/", "discard"))]
    assert [line.removeprefix("poor: mount-options on ") for line in doctors("mount-options", *of)] == [
        "n0, n3: /: rw,discard. discard: it waits; to change it: mount -o remount,nodiscard /",
        "n1: /data: rw,sync. sync: it waits; to change it: mount -o remount,nosync /data",
        "n2: /home: rw,discard. discard: it waits; to change it: mount -o remount,nodiscard /home",
    ]


def test_what_is_poor_on_all_who_answered_is_not_told_of_those_who_did_not():
    finding = {"name": "psi", "found": "cpu 9%", "why": "work waits", "setting": None, "verdict": "poor"}
    there = {"name": "n0", "status": "ok", "record": {"findings": [finding]}}
    gone = {"name": "n1", "status": "lost", "why": "its worker is gone"}
    assert findings.told({"machines": [there, gone]}).splitlines() == [
        "n1: lost: its worker is gone",
        "poor: psi on every machine that answered: cpu 9%. work waits",
    ]


def test_findings_that_differ_by_a_figure_are_one():
    busy = [(f"cpu {11 + 4 * at}%, memory 0.5%", f"{at + 1}.5 others want it", "see who: top") for at in range(10)]
    calm = ("cpu 0%, memory 0.5%", "nobody waits", None)
    told = "cpu 11 to 47%, memory 0.5%"
    assert doctors("pressure", *busy) == [
        f"poor: pressure on every machine: {told}. 1.5 to 10.5 others want it; to change it: see who: top"
    ]
    names = ", ".join(f"n{at}" for at in range(10))
    assert doctors("pressure", *busy, calm) == [
        f"poor: pressure on {names}: {told}. 1.5 to 10.5 others want it; to change it: see who: top",
        "differs: pressure: cpu 0 to 47%, memory 0.5% on every machine",
        "nothing poor on n10",
    ]
    assert doctors("pressure", *busy[:2], calm)[:2] == [
        "poor: pressure: cpu 11%, memory 0.5% on n0; cpu 15%, memory 0.5% on n1. 1.5 to 2.5 others want it; "
        "to change it: see who: top",
        "differs: pressure: cpu 11%, memory 0.5% on n0; cpu 15%, memory 0.5% on n1; cpu 0%, memory 0.5% on n2",
    ]
    # What is in a name, a version or a list is no figure.
    kernels = [(f"6.1.{at} on sda{at}, CPUs 0-{at}", "old", None) for at in range(6)]
    assert doctors("kernel", *kernels)[0].startswith("differs: kernel: 6.1.0 on sda0, CPUs 0-0 on n0; 6.1.1 on sda1")


def test_what_a_command_said_first_is_told_with_its_indented_lines():
    said = "bytepath: 2 of 3 commands failed:\n  false: it ended with 1\n  none: it ended with 127\nand more"
    assert each._first(said) == "bytepath: 2 of 3 commands failed: false: it ended with 1; none: it ended with 127"
    assert each._first("one\ntwo") == "one" and each._first("") == "without a word"


def test_a_page_has_nothing_of_a_machine_as_markup():
    found = fleet_of(machine("<script>alert(1)</script>", {"<b>": 1.0}), machine("b", {"<b>": 1.0}, kernel="<i>"))
    page = report.page(found, report.view(found))
    assert "<script>" not in page and "<b>" not in page.replace("<b>&lt;", "") and "&lt;i&gt;" in page


def test_every_arm_of_a_page_has_a_column_on_paper():
    arms = {f"write-read@{at}-sockets": 1.0 for at in range(17)}
    found = fleet_of(machine("a", arms), machine("b", arms))
    page = report.page(found, report.view(found))
    tables = page.split('<table class="heat">')[1:]
    columns = [re.findall(r"<th[^>]*>(write-read@[^<]*)</th>", table.partition("</thead>")[0]) for table in tables]
    assert [len(part) for part in columns] == [5, 6, 6] and sorted(sum(columns, [])) == sorted(arms)
    assert ".scroll { overflow: visible; }" in page.partition("@media print")[2]


def test_a_page_has_the_looks_of_those_of_one_machine_and_no_colour_that_light_and_dark_share():
    arms = {"wake": 1.0, "copy": 2.0}
    found = fleet_of(*(machine(f"n{at}", arms) for at in range(6)), machine("slow", {"wake": 0.1, "copy": 2.0}))
    before, style, after = report.page(found, report.view(found)).partition((Path(report.__file__).parent / "page.css").read_text())
    assert "@media (prefers-color-scheme: dark)" in style and 'content="light dark"' in before
    assert not re.search(r"(#[0-9a-f]{3,8}|(rgb|hsl)a?\([^)]*\))[ ;\"]", before + after)
    assert 'style="background: color-mix(in oklab, var(--slower) 45%, var(--back))"' in after


def test_a_multiple_has_the_digits_that_it_is_worth_and_stands_above_what_was_measured():
    values = {**{f"n{at}": 5.0 for at in range(6)}, "slow": 0.015, "fast": 1637.12, "like": 5.0005}
    found = fleet_of(*(machine(name, {"wake": value}) for name, value in values.items()))
    shown = report.view(found)
    assert report.terminal(found, shown).splitlines()[1].split()[-3:] == ["0.00300!", "327!", "1.00"]
    page = report.page(found, shown)
    for multiple, measured in (("0.00300", "0.0150 GiB/s"), ("327", "1637 GiB/s"), ("1.00", "5.00 GiB/s")):
        assert f">{multiple}<small>{measured}</small></td>" in page
    # What is alike has no colour.
    assert report._colour(0.9999) == report._colour(1.0001).replace("faster", "slower")
    assert report._colour(0.9999) == "color-mix(in oklab, var(--slower) 0%, var(--back))"
    # Those who see no page hear it.
    assert page.count('<th scope="row">slow</th>') == 1 and not re.search(r"<th(?! scope)(?!ead)", page)
    assert '<svg role="img" aria-label="slow at wake: median 0.0150 GiB/s, 3 samples from 0.0148 to 0.0152"' in page
    assert page.count("<svg role=") == page.count("<svg")


def test_workers_of_one_kernel_share_a_machine_unless_they_are_named():
    facts = {"boot_id": "b", "machine_id": "m", "host": "x"}
    assert machines.key_of(facts) == machines.key_of({**facts, "machine_id": "other", "host": "container"})
    assert machines.key_of(facts) != machines.key_of({**facts, "boot_id": "c"})
    assert machines.key_of(facts) != machines.key_of({**facts, "named": True})


@pytest.mark.parametrize(
    ("hosts", "names"),
    [
        ({"0123a": "x", "9123a": "y"}, ["x", "y"]),
        ({"0123a": "x", "9123a": "x"}, ["x-0123", "x-9123"]),
        ({"0123a": "x", "0123b": "x", "9123a": "x"}, ["x-0123a", "x-0123b", "x-9123"]),
        ({"0123a": "x", "9123a": "x", "5678a": "x-0123"}, ["x-0123a", "x-9123", "x-0123-5678a"]),
    ],
)
def test_machines_of_one_name_are_told_apart_whenever_they_come(monkeypatch, hosts, names):
    async def asked(client, name):
        return {"key": name, "host": hosts[name], "uid": 0}

    async def info(client):
        return {key: {"nthreads": 1} for key in hosts}

    async def well(client):
        pass

    monkeypatch.setattr(machines, "_ask", asked)
    monkeypatch.setattr(machines, "workers_of", info)
    monkeypatch.setattr(machines, "_check_scheduler", well)
    monkeypatch.setattr(machines, "check_packages", lambda facts: None)
    monkeypatch.setattr(machines, "unfit", lambda facts: [])
    monkeypatch.setattr(machines, "key_of", lambda facts: facts["key"])
    began = asyncio.run(machines.probe(SimpleNamespace(scheduler=True)))
    assert sorted(machine.name for machine in began) == sorted(names)
    key = next(iter(hosts))
    known = [machines.Machine(hosts[key], key, {"host": hosts[key]}, [key])]
    came, refused = asyncio.run(machines.admit(None, known, asyncio.run(info(None))))
    assert sorted(machine.name for machine in came) == sorted(names) and not refused


def test_machines_share_a_look_at_the_scheduler_and_a_slow_answer_loses_none(monkeypatch):
    class Slow:
        asked = 0

        async def identity(self, n_workers):
            self.asked += 1
            if self.asked > 1:
                raise asyncio.TimeoutError
            return {"workers": {"tcp://a": {"last_seen": 1.0}}}

    client = SimpleNamespace(scheduler=Slow())

    async def looks():
        watch = each._Watch(client)
        first = await asyncio.gather(*(watch.look() for _ in range(9)))
        monkeypatch.setattr(each, "LOOK_S", 0.0)
        return [*first, await watch.look()]

    found = asyncio.run(looks())
    assert client.scheduler.asked == 2 and all(workers is found[0] for workers in found)
    # Silence alone is no loss: it takes a while to be one.
    pulse = each._Pulse(15.0)
    for workers in (*found, None):
        pulse.look(machines.Machine("a", "key", {}, ["tcp://a"]), workers)
    with pytest.raises(each._Gone):
        pulse.look(machines.Machine("b", "key", {}, ["tcp://b"]), found[-1])


def test_a_scheduler_that_is_lost_after_a_machine_was_loses_no_other_machines_result(monkeypatch):
    async def once(watch, machine, *_):
        if machine.name == "lost":
            raise each._Gone("its worker was lost in the middle")
        return {"code": 0, "record": {}, "said": ""}

    async def run(*_, **__):
        raise OSError("in <TCP>: stream is closed")

    async def identity(n_workers):
        return {"workers": {"tcp://a": {"last_seen": 1.0, "nthreads": 1}}}

    async def both():
        watch = each._Watch(SimpleNamespace(scheduler=SimpleNamespace(identity=identity), run=run))
        arguments = SimpleNamespace(patience=60.0)
        there = [machines.Machine(name, name, {}, [name]) for name in ("lost", "well")]
        return await asyncio.gather(*(each._on(watch, machine, ["bench"], True, arguments) for machine in there))

    monkeypatch.setattr(each, "_once", once)
    lost, well = asyncio.run(within(30, both()))
    assert (lost["status"], lost["why"]) == ("lost", "its worker was lost in the middle, and the scheduler is gone")
    assert (well["status"], well["record"]) == ("ok", {})


def test_clocks_that_are_apart_are_told_of():
    apart = machines.Machine("far", "k", {"clock_apart_s": -37.2, "clock_known_to_s": 0.1})
    near = machines.Machine("near", "l", {"clock_apart_s": 0.5})
    [told] = machines.clocks([apart, near])
    assert told.startswith("the clock of far is 37.2 s behind")


def test_progress_says_how_far_it_is():
    seen = deque([(100.0, 0, 0.1), (104.0, 4 << 30, 0.3)])
    assert text(5, 4 << 30, 0.3, 3, seen) == "5 files, 4 GiB, 1 GiB/s, about 30%, about 0:14 left, 3 workers"
    assert "time left unknown" in text(0, 0, 0.0, 1, deque([(1.0, 0, 0.0)]))
    # A large file was begun anew.
    assert text(5, 0, 0.3, 3, deque([(100.0, 4 << 30, 0.3), (104.0, 0, 0.3)])).startswith("5 files, 0 B, 0 B/s, about 30%")


@pytest.mark.parametrize(
    ("words", "told", "is_local"),
    [
        (["--scheduler", "local:2", "doctor"], None, True),
        (["--scheduler=local", "doctor"], "tcp://a", True),
        (["--scheduler", "tcp://a", "doctor"], "local", False),
        (["doctor"], "local:1", True),
        (["cp", "local", "local:1"], None, False),
        (["--scheduler"], None, False),
    ],
)
def test_whether_workers_are_started_here_is_known_early(monkeypatch, words, told, is_local):
    monkeypatch.setattr(command_line, "_scheduler", lambda: told)
    assert command_line._is_local(words) == is_local


def test_words_on_the_command_line_that_mean_nothing_are_refused():
    assert local_workers("local:3") == 3 and local_workers("tcp://host:8786") is None
    with pytest.raises(WrongUsage):
        local_workers("local:0")


@pytest.mark.parametrize("words", [("bench", "pipes"), ("tune",), ("doctor",), ("cp", "a", "b")])
def test_times_that_are_none_are_refused(words, capsys):
    for option in ("--patience", "--late" if words[0] == "cp" else "--timeout"):
        for wrong in ("-3", "nan", "0", "inf", "soon"):
            with pytest.raises(SystemExit) as ended:
                parser().parse_args([words[0], option, wrong, *words[1:]])
            assert ended.value.code == 2 and f"{wrong!r} is no number of seconds" in capsys.readouterr().err


SCHEMA = "bytepath.record/1"
WHOLE = {"schema": "bytepath.fleet/1", "words": ["bench", "pipes"], "machines": []}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot read {path}: No such file or directory"),
        (json.dumps(WHOLE)[:-9], "{path} is no run of a fleet, or not the whole of one"),
        ("[" * 100_000, "{path} is no run of a fleet, or not the whole of one"),
        ("[]", "{path} is no run of a fleet (what belongs in one is missing)"),
        (json.dumps({**WHOLE, "words": ["doctor"], "machines": [5]}), "{path} is a run of fleet doctor, not of fleet bench"),
        (json.dumps({**WHOLE, "machines": [5]}), "{path} is no run of a fleet (a machine in it is damaged)"),
        (json.dumps({**WHOLE, "machines": [{"key": "k"}]}), "{path} is no run of a fleet (a machine in it has no"),
        *(
            (
                json.dumps({**WHOLE, "machines": [{"key": "k", "name": "n", "record": record}]}),
                "{path} is no run of a fleet (the record of a machine in it is damaged)",
            )
            for record in (5, [1], {"arms": []}, *({"schema": SCHEMA, "arms": arms} for arms in (5, {"a": 1}, [5], [{}])))
        ),
    ],
)
def test_a_run_that_is_none_or_damaged_is_told_of_and_how_one_is_made(tmp_path, capsys, content, said):
    path = tmp_path / "run.json"
    if content is not None:
        path.write_text(content)
    assert main(["compare", str(path), str(path)]) == 1
    told = capsys.readouterr().err
    assert f"bytepath fleet: {said.format(path=path)}" in told and "bench --json FILE" in told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP])
def test_what_a_terminal_sends_to_all_in_it_leaves_no_command_behind(tmp_path, number):
    begun = tmp_path / "begun"
    read = "while read -r name mask; do case $name in SigBlk:|SigIgn:) echo $name $mask;; esac; done </proc/$$/status"
    words = ["sh", "-c", f"{read} >{tmp_path}/signs; echo $$ >{begun}.new; mv {begun}.new {begun}; exec sleep 100"]
    guard = [sys.executable, "-I", str(Path(worker.__file__).with_name("guard.py")), *words]
    with subprocess.Popen(guard, stdin=subprocess.PIPE) as process:
        wait_until(begun.exists)
        process.send_signal(number)
        assert process.stdin
        process.stdin.close()
        assert process.wait(timeout=60) == 128 + signal.SIGTERM
    assert not Path("/proc", begun.read_text().strip()).exists()
    # The command itself heeds them as ever.
    masks = [int(line.split()[1], 16) for line in (tmp_path / "signs").read_text().splitlines()]
    assert len(masks) == 2 and all(mask & 1 << number - 1 == 0 for mask in masks)


@pytest.mark.parametrize("number", signals.ENDING)
def test_a_signal_that_comes_when_others_begin_or_end_to_be_raised_is_not_lost(number):
    """Before each instruction in turn: it is raised, or the loop hears of it, and all is as it was before."""

    def raises_at(instruction):
        """Whether it has come, and was raised."""
        left = instruction

        def trace(frame, event, _):
            nonlocal left
            frame.f_trace_opcodes = True
            if event == "opcode":
                left -= 1
                if left == 0:
                    signal.raise_signal(number)
            return trace

        def work():
            with signals.raised():
                pass

        before = sys.gettrace()
        try:
            sys.settrace(trace)
            work()
        except signals.Interrupted as error:
            assert error.number == number
            return True, True
        finally:
            sys.settrace(before)
        return left <= 0, False

    def by_loop(*_):
        """Heard of by the descriptor, as of asyncio's handlers."""

    loop, wakes = socket.socketpair()
    with loop, wakes:
        loop.setblocking(False)
        wakes.setblocking(False)
        handlers = {each: signal.signal(each, by_loop) for each in signals.ENDING}
        descriptor = signal.set_wakeup_fd(wakes.fileno())
        try:
            instruction, comes, times = 0, True, 0
            while comes:
                instruction += 1
                comes, is_raised = raises_at(instruction)
                heard = b""
                with contextlib.suppress(BlockingIOError):
                    heard = loop.recv(100)
                assert not comes or is_raised or heard == bytes([number]), instruction
                assert all(signal.getsignal(each) is by_loop for each in signals.ENDING), instruction
                assert signal.set_wakeup_fd(wakes.fileno()) == wakes.fileno(), instruction
                times += is_raised
            assert times
        finally:
            signal.set_wakeup_fd(descriptor)
            for each, handler in handlers.items():
                signal.signal(each, handler)


@pytest.mark.parametrize("paths", [("", "copy"), ("source", "")])
def test_nothing_is_no_name_of_the_current_directory(tmp_path, monkeypatch, paths):
    (tmp_path / "source").mkdir()
    monkeypatch.chdir(tmp_path)
    arguments = parser().parse_args(["--scheduler", "tcp://127.0.0.1:1", "cp", *paths])
    with pytest.raises(WrongUsage, match="'' is no directory"):
        asyncio.run(arguments.run(arguments))


def test_locks_of_a_machine_need_no_session_there(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "gone"))
    monkeypatch.setattr(worker.tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("BYTEPATH_MACHINE", raising=False)
    assert worker.machine_folder() == tmp_path / f"bytepath-fleet-{os.getuid()}"


def test_machines_whose_names_differ_share_neither_a_file_nor_locks(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    names = ["a/b", "a_b", "a%2Fb", "a%b"]
    lines, failed = each._copied(tmp_path, [{"name": name, "record": {"of": name}} for name in names])
    assert (lines, failed) == ([f"4 profiles were written into {tmp_path}"], [])
    assert sorted(json.loads(file.read_text())["of"] for file in tmp_path.glob("*.json")) == sorted(names)
    folders = set()
    for name in names:
        monkeypatch.setenv("BYTEPATH_MACHINE", name)
        folders.add(worker.machine_folder())
    assert len(folders) == len(names)


def test_a_folder_for_locks_that_cannot_be_had_is_told_of_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setenv("BYTEPATH_MACHINE", "one")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/proc/self")
    told = rf"^cannot make /proc/self/bytepath-fleet-{os.getuid()}-one, for locks \(No such .*XDG_RUNTIME_DIR"
    with pytest.raises(OSError, match=told):
        worker.machine_folder()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(worker.os, "getuid", lambda: 4321)
    with pytest.raises(PermissionError, match=r"4321-one, for locks, belongs to somebody else: remove it, or .*XDG"):
        worker.machine_folder()


def test_what_goes_on_alone_is_asked_of_each_worker_once_however_long_it_takes():
    at_work, looks, asked = {"one": set(), "two": set()}, [], []

    async def one(client, key, request, among):
        at_work[(among or ["one"])[0]].add(key)
        asked.append(among)
        await asyncio.sleep(60)

    async def busy(client):
        looks.append(1)
        if len(looks) == 5:
            raise Lost("the end of the test")
        return at_work, ["one", "two"]

    count = iter(range(99))
    pieces = SimpleNamespace(
        _key=lambda: ("key", next(count)), _one=one, _busy=busy, _late_s=lambda _: 0.001, journal=None, options=None
    )
    client = SimpleNamespace(status="running")
    with pytest.raises(Lost, match="end of the test"):
        asyncio.run(within(30, Pieces._awaited(pieces, client, {}, None)))
    assert asked == [None, ["two"]]


@pytest.mark.parametrize("refused", [set(), {"other"}])
@pytest.mark.parametrize("waits", ["_awaited", "_look_after"])
def test_workers_that_can_do_the_work_are_waited_for_as_long_as_is_said(monkeypatch, capsys, waits, refused):
    async def one(client, key, request, among):
        await asyncio.sleep(60)

    async def busy(client):
        return {}, []

    async def info(client):
        return dict.fromkeys(refused)

    class Waits(Pieces):
        _one, _busy = staticmethod(one), staticmethod(busy)

        def _late_s(self, budget_ms):
            return -1.0

    monkeypatch.setattr(pieces, "workers_of", info)
    members = Members()
    members._looked = float("inf")
    for name in refused:
        members.refuse(name, f"{name} takes no part")
    options = SimpleNamespace(progress=None, patience_s=0.01)
    journal = SimpleNamespace(so_far=lambda: "so far")
    waiting = Waits(options, journal, ground.Ground("source", "copy", "id"), members, None)
    client = SimpleNamespace(status="running")

    async def wait():
        if waits == "_awaited":
            await waiting._awaited(client, {}, None)
        else:
            task = asyncio.ensure_future(one(None, None, None, None))
            waiting.flights[task] = Flight([])
            await waiting._look_after(client, 0)

    why = "no workers are left but those that take no part (other takes no part)" if refused else "all workers are gone"
    with pytest.raises(FleetError, match=rf"^{re.escape(why)}\nso far$"):
        asyncio.run(within(30, wait()))
    assert capsys.readouterr().err == (f"bytepath fleet: {why}; others are waited for\n" if refused else "")


def test_a_scheduler_is_waited_for_from_when_it_is_lost_and_that_is_said_at_once(tmp_path, monkeypatch, capsys):
    now, lives = [1000.0], [300.0, 30.0, 300.0]

    @contextlib.asynccontextmanager
    async def connected(scheduler):
        now[0] += 10
        if not lives:
            raise Lost("nobody answers")
        yield None

    async def meet(self, client):
        self.members.machines = [machines.Machine("one", "one", {}, ["a"])]

    async def by(self, client):
        now[0] += lives.pop(0)
        raise Lost("the scheduler is gone")

    async def at_once(_):
        said.append(capsys.readouterr().err)

    said: list[str] = []
    monkeypatch.setattr(run, "connected", connected)
    monkeypatch.setattr(run, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(run, "asyncio", SimpleNamespace(sleep=at_once, CancelledError=asyncio.CancelledError))
    monkeypatch.setattr(run.Run, "_meet", meet)
    monkeypatch.setattr(run.Run, "_by", by)
    journal = Journal(tmp_path / "journal", ["a", "b"])
    options = Options("/a", "/b", "tcp://a", [], None, None, None, False, False, 60.0, 60.0)
    with pytest.raises(FleetError, match="nobody answers"):
        asyncio.run(run.Run(options, journal).copy())
    journal.close()
    # Nothing was ever settled, and it was there for long only twice.
    waits = "bytepath fleet: the scheduler is gone; waiting for it to come back\n"
    assert said == [waits, "", waits, *[""] * 6] and now == [1730]


def test_what_prepares_a_copying_does_nothing_once_nobody_waits_for_it(command, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("BYTEPATH_PROGRAM", command)
    (tmp_path / "source").mkdir()
    (tmp_path / "copy").mkdir()
    setup = {
        "id": "id", "session": "one", "source": str(tmp_path / "source"), "destination": str(tmp_path / "copy"),
        "run": str(tmp_path / "copy/run"), "options": [], "per_machine": 1, "late_s": 60.0, "mark": "", "word": None,
        "version": worker.about()["version"], "python": worker.python(), "umask": 0o022, "source_look": None,
        "uid": os.getuid(),
    }  # fmt: skip
    request = json.dumps({"items": [{"do": "prepare", "stages": [0]}], "budget_ms": 1000}).encode()
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        at_work = cluster.workers[0].active_threads
        with Client(cluster) as client:
            with worker._slot("id", 1, 60.0):
                future = client.submit(worker.piece, setup, request, pure=False)
                wait_until(lambda: at_work)
                future.release()
                wait_until(lambda: not any(client.processing().values()))
            wait_until(lambda: not at_work)
            assert os.listdir(tmp_path / "copy") == []
            assert json.loads(client.submit(worker.piece, setup, request, pure=False).result(30))["failed"] == []
            assert os.listdir(tmp_path / "copy") == ["run"]
            client.run(worker.release, "id", "one")


def test_engines_end_also_where_the_locks_cannot_be_removed(monkeypatch):
    ended = []

    def refused():
        raise PermissionError("somebody else's")

    monkeypatch.setattr(worker, "machine_folder", refused)
    monkeypatch.setattr(worker, "_idle", {"run": [SimpleNamespace(close=lambda: ended.append("engine"))]})
    with pytest.raises(PermissionError):
        worker.release("id", "session")
    assert ended == ["engine"]


@pytest.mark.parametrize("error", [OSError("in <TCP>: stream is closed"), asyncio.TimeoutError()])
def test_a_scheduler_that_is_lost_while_it_is_asked_is_waited_for(error):
    async def lost(*_, **__):
        raise error

    async def known(n_workers):
        return {"workers": {"tcp://a": {"nthreads": 1}}}

    client = SimpleNamespace(scheduler=SimpleNamespace(identity=lost), run=lost)
    for ask in (machines.probe, Members().now):
        with pytest.raises(Lost):
            asyncio.run(ask(client))
    # Who looks meanwhile leaves that to who waits for pieces.
    asyncio.run(Members()._look(client))
    with pytest.raises(FleetError) as raised:
        asyncio.run(ground._ask(client, "tcp://a", "a", worker.is_directory, "/"))
    assert isinstance(raised.value, Lost) == (not isinstance(error, asyncio.TimeoutError))
    client = SimpleNamespace(scheduler=SimpleNamespace(identity=known), run=lost, run_on_scheduler=lost)
    with pytest.raises(FleetError) as raised:
        asyncio.run(machines.probe(client))
    assert isinstance(raised.value, Lost) == (not isinstance(error, asyncio.TimeoutError))


@pytest.mark.parametrize("answer", [CommClosedError("in <TCP>: stream is closed"), OSError("Timed out trying to connect")])
def test_a_worker_that_is_gone_when_it_is_asked_is_waited_for_and_a_file_that_is_gone_is_an_answer(answer):
    async def run(*_, **__):
        return {"tcp://a": answer}

    with pytest.raises(Lost, match=r"^the worker on one \(tcp://a\) is gone$"):
        asyncio.run(ground._ask(SimpleNamespace(run=run), "tcp://a", "one", worker.is_directory, "/"))
    answer = FileNotFoundError(errno.ENOENT, "No such file or directory")
    with pytest.raises(FleetError, match="No such file") as raised:
        asyncio.run(ground._ask(SimpleNamespace(run=run), "tcp://a", "one", worker.is_directory, "/"))
    assert not isinstance(raised.value, Lost)


def other_pythons():
    """Pythons of this machine, with none of their packages."""
    found = filter(None, (shutil.which(f"python3.{minor}") for minor in range(10, 20)))
    return [sys.executable, *(path for path in found if subprocess.run([path, "-c", ""], capture_output=True).returncode == 0)]


@pytest.mark.parametrize("python", other_pythons())
def test_any_python_with_or_without_packages_understands_what_it_is_asked_first(python):
    script = "import pickle, sys\nfunction, *given = pickle.load(sys.stdin.buffer)\nprint(repr(function(*given)))\n"
    sent, words = pickle.dumps(as_text(machines.hello)), [python, "-I", "-S", "-c", script]
    done = subprocess.run(words, input=sent, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = ast.literal_eval(done.stdout.decode())
    version = subprocess.run([python, "-I", "-c", "import sys; print(sys.version)"], capture_output=True, text=True).stdout
    assert "missing" in found and version.startswith(found["python"])


def test_functions_that_are_sent_as_text_are_sent_as_nothing_else():
    function, call, given = piece({"id": "id"}, b"request")
    assert function is eval and given["arguments"] == ({"id": "id"}, b"request")
    assert b"co_code" not in pickle.dumps((function, call, given))
    setup = {"id": "id", "word": None, "python": "3.99"}
    assert worker._unfit(setup).startswith(f"it has Python {worker.python()}, and the others have 3.99")


def test_another_python_is_refused_and_another_patch_is_nothing_to_tell(monkeypatch):
    monkeypatch.setattr(worker, "python", lambda: "3.11")
    there = {"host": "one", **worker.about()}
    assert machines.unfit({"a": there | {"python": "3.11.99"}}) == []
    # Whatever else is wrong there.
    [wrong] = machines.unfit({"a": there | {"python": "3.12.1", "missing": "no package"}})
    assert wrong.startswith("a on one has Python 3.12, and here is 3.11: Dask needs one minor version")

    async def run_on_scheduler(*_):
        return {"host": "head", "python": "3.1.4"}

    with pytest.raises(FleetError, match=r"^the scheduler on head has Python 3\.1, and here is 3\.11"):
        asyncio.run(machines._check_scheduler(SimpleNamespace(run_on_scheduler=run_on_scheduler)))


def entries(**facts):
    """Entries of which one fact is known."""
    return {"entries": {name.encode(): (fact,) for name, fact in facts.items()}}


LOOK = {"inode": 2, "born": None, "volume": None, "times": (5, 5)} | entries(a=1, b=1)


@pytest.mark.parametrize(
    ("here", "there", "why"),
    [
        ([{}], [{}], None),
        ([{}], [{"inode": 3}], "not the same"),
        ([{"born": 1}], [{"born": 2}], "not the same"),
        ([{"volume": ("6.1", 1)}], [{"volume": ("6.1", 2)}], "not the same"),
        # Kernels may make that number of something else.
        ([{"volume": ("6.1", 1)}], [{"volume": ("6.2", 2)}], None),
        ([{}], [{"times": (6, 6)}], "not the same"),
        ([{}], [entries(a=1)], "not the same"),
        ([{"born": 1}], [{"born": 1} | entries(a=1)], "not the same"),
        ([{}], [entries(a=1, b=2)], "not the same"),
        # On one of them something else is mounted there.
        ([{}], [entries(a=1, b=None)], None),
        # Somebody changes it, once or all the time.
        ([{}, {"times": (6, 6)}], [{"times": (6, 6)}], None),
        ([{"times": (6, 6)} | entries(b=1)], [entries(b=1, c=1), {"times": (6, 6)} | entries(b=1)], None),
        ([entries(a=1, b=1), entries(a=1, b=2)], [entries(a=1, b=3), entries(a=1, b=4)], None),
        ([{"times": (1, 1)} | entries(a=1), {"times": (2, 2)} | entries(a=2)], [{"times": (3, 3)} | entries(a=3)],
         "not the same"),
        ([{"times": (1, 1)} | entries(a=None), {"times": (2, 2)} | entries(a=None)],
         [{"times": (3, 3)} | entries(a=None)], "not the same"),
        ([{"born": 1, "times": (1, 1)}, {"born": 1, "times": (2, 2), "entries": {}}], [{"born": 1} | entries(c=3)],
         None),
    ],
)  # fmt: skip
def test_a_source_is_the_same_directory_on_all_machines_whoever_changes_it_meanwhile(monkeypatch, here, there, why):
    seen = {name: [LOOK | change for change in changes] for name, changes in (("one", here), ("two", there))}

    async def run(function, *_, workers, on_error):
        [name] = workers
        return {name: seen[name].pop(0) if len(seen[name]) > 1 else seen[name][0]}

    async def at_once(_):
        pass

    monkeypatch.setattr(ground.asyncio, "sleep", at_once)
    both = [machines.Machine(name, name, {}, [name]) for name in seen]
    client = SimpleNamespace(run=run)

    async def looked():
        found = [look for _, look in await ground._looks(client, "source", both)]
        await ground._one_source(client, "source", both, found)

    with pytest.raises(FleetError, match=why) if why else contextlib.nullcontext():
        asyncio.run(looked())


def made_up(inode, time, size=3, modified=1):
    """How a directory with a file and a directory looks where a client made this inode and these times up."""
    directory = storage.Status(0, 0o040755, inode, 4096, time, time, time)
    file = storage.Status(0, 0o100644, inode + 1, size, time, time, modified)
    entries = {b"directory": directory, b"file": file, b"link": storage.Status(0, 0o120777, inode, 1, time, time, time)}
    return storage._told(directory, None, entries, True)


def test_what_clients_of_object_stores_make_up_on_each_machine_is_not_compared():
    one = made_up(inode=1, time=5)
    assert storage.is_same(one, made_up(inode=3, time=7))
    for other in (made_up(1, 5, size=4), made_up(1, 5, modified=2)):
        assert not storage.is_same(one, other) and not storage.may_be_same(one, other)
    del one["entries"][b"directory"]
    assert not storage.is_same(one, made_up(1, 5)) and storage.may_be_same(one, made_up(1, 5))
    del one["entries"][b"file"]
    assert not storage.may_be_same(one, made_up(1, 5)), "nothing is known that is the same"


def test_directories_on_fuse_are_told_apart_by_the_first_file_in_them(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "_is_fuse", lambda _: True)
    for name, size in (("one", 3), ("same", 3), ("other", 4)):
        below = tmp_path / name / "a/c/d"
        for directory in (below, tmp_path / name / "a/b", tmp_path / name / "z"):
            directory.mkdir(parents=True)
        (below / "file").write_bytes(bytes(size))
        os.utime(below / "file", (1, 1))
    one, same, other = (storage.look(str(tmp_path / name)) for name in ("one", "same", "other"))
    assert one["entries"] == {b"a": (None, 3, None, 10**9), b"z": (None,) * 4}
    assert storage.is_same(one, same)
    assert not storage.is_same(one, other) and not storage.may_be_same(one, other)
    monkeypatch.setattr(storage, "DIRECTORIES", 3)
    assert storage.look(str(tmp_path / "one"))["entries"][b"a"] == (None,) * 4


def test_a_worker_whose_source_looks_different_by_now_gets_no_work_until_it_is_known_to_be_the_same(monkeypatch, tmp_path):
    looks = [LOOK | {"inode": 3}, LOOK | {"times": (6, 6)} | entries(c=1), None]
    source = tmp_path / "source"
    setup = {
        "id": "id", "word": None, "version": worker.about()["version"], "python": worker.python(), "uid": os.getuid(),
        "source": str(source), "source_look": LOOK,
    }  # fmt: skip
    monkeypatch.setattr(worker.storage, "look", lambda _: looks.pop(0))
    monkeypatch.setattr(worker, "_fit", {})
    monkeypatch.setattr(worker, "_trusted", set())
    monkeypatch.setattr(distributed, "get_worker", lambda: SimpleNamespace(address="tcp://a"))
    unseen = f"it cannot read {source} ({source} does not exist)"
    refused = {"refused": unseen, "worker": "tcp://a"}
    assert json.loads(worker.piece(setup, b"")) == refused
    with pytest.raises(FileNotFoundError):
        worker.trust("id", str(source))
    source.mkdir()
    assert worker._unfit(setup) == f"its {source} is not the directory that the others see"
    assert worker._unfit(setup) == worker.DOUBT
    worker.trust("id", str(source))
    assert worker._unfit(setup) is None and looks == [None]
    # It is looked at anew where it is another one by now, as where something else is mounted there.
    source.rename(tmp_path / "aside")
    assert json.loads(worker.piece(setup, b"")) == refused
    source.mkdir()
    looks[:] = [LOOK | {"inode": 3}, LOOK | {"times": (6, 6)}, LOOK]
    assert worker._unfit(setup) == f"its {source} is not the directory that the others see"
    assert worker._unfit(setup) == worker.DOUBT
    assert worker._unfit(setup) is None and worker._unfit(setup) is None and looks == []

    members = Members()
    members.machines = [machines.Machine("one", "one", {}, ["a", "b"])]
    assert members.fit() is None
    members.doubted.add("b")
    assert members.fit() == ["a"]
    members.refused.add("a")
    assert members.fit() == ["b"]


@pytest.mark.parametrize(
    ("others", "there", "is_other"),
    [
        # Who does not see it has seen nothing that is the same.
        (["a"], [None], None),
        (["asleep", "a"], [None], None),
        (["a"], [LOOK | {"times": (7, 7)}], False),
        (["a"], [LOOK | {"times": (6, 6)}, LOOK | {"times": (8, 8)}], False),
        (["a"], [LOOK | {"times": (6, 6)}], True),
        (["asleep", "a"], [LOOK | {"times": (6, 6)}], True),
        # Nobody is there whose source was compared, or nobody who answers.
        (["c"], [LOOK | {"times": (6, 6)}], False),
        (["asleep"], [LOOK | {"times": (6, 6)}], False),
    ],
)
def test_a_worker_in_doubt_is_let_in_where_it_sees_what_another_sees_at_that_moment(
    monkeypatch, others, there, is_other
):
    seen, let_in = {"a": [LOOK | {"times": (7, 7)}, LOOK | {"times": (8, 8)}], "b": there}, []
    if is_other:
        seen["a"] = seen["a"][:1]

    async def run(function, *_, workers, on_error):
        [name] = workers
        if name == "asleep":
            raise asyncio.TimeoutError
        if function is worker.trust:
            let_in.append(name)
            return {name: None}
        if seen[name][0] is None:
            return {name: FileNotFoundError(errno.ENOENT, "No such file or directory")}
        return {name: seen[name].pop(0) if len(seen[name]) > 1 else seen[name][0]}

    async def at_once(_):
        pass

    async def judged():
        for _ in range(2):
            pieces._doubted(SimpleNamespace(run=run), {"worker": "b"})
        assert members.doubted == {"b"} and members.fit() == others
        await pieces.judging["b"]
        assert not members.doubted and not pieces.judging

    monkeypatch.setattr(ground.asyncio, "sleep", at_once)
    members = Members()
    members.machines = [machines.Machine(name, name, {}, [name]) for name in [*others, "b"]]
    members._note()
    pieces = Pieces(SimpleNamespace(progress=None), None, ground.Ground("source", "copy", "id"), members, None)
    pieces.ground.trusted = {"a", "asleep"}
    asyncio.run(judged())
    assert (let_in, members.refused) == (["b"] if is_other is False else [], {"b"} if is_other else set())
    assert not is_other or "b takes no part: source is not the same directory on a and on b" in members.told[0]
    assert ("b" in members.seen()) == (not is_other)


def test_a_machine_takes_part_whose_workers_did_something_or_are_not_refused():
    class Landed(asyncio.Future):
        def release(self):
            pass

    def submit(body, *_, **__):
        landed = Landed()
        landed.set_result(body)
        return landed

    def answers(worker, **more):
        body = json.dumps({"worker": worker, **more}).encode()
        pieces.piece = lambda *_: (body,)
        answer = asyncio.run(one())
        if "refused" in answer:
            pieces._refused(answer)

    async def one():
        return await pieces._one(SimpleNamespace(submit=submit), ("", 1), {"budget_ms": 1}, None)

    members = Members()
    members.earlier = {"earlier": "earlier"}
    names = ["earlier", "idle", "worked", "late", "ended", "there"]
    members.machines = [machines.Machine(name, name, {}, [f"{name}-1", f"{name}-2"]) for name in names]
    members._note()
    options = SimpleNamespace(progress=None, words=[], per_machine=None, late_s=1.0)
    pieces = Pieces(options, None, ground.Ground("source", "copy", "id"), members, None)
    answers("worked-1", failed=[])
    answers("ended-1", died="its engine ended")
    for name in names[:5]:
        answers(f"{name}-1", refused="it is unfit")
        assert list(members.seen()) == names
    for name in names[:5]:
        answers(f"{name}-2", refused="it is unfit")
    took_part = ["earlier", "worked", "ended", "there"]
    assert list(members.seen()) == took_part
    # They are there still when the scheduler is back.
    members._note()
    assert list(members.seen()) == took_part
    # What it was at when it was refused more is done.
    answers("late-1", failed=[])
    assert "late" in members.seen()


def test_the_machines_that_take_part_are_those_of_the_last_scheduler_and_of_earlier_runs(tmp_path, monkeypatch):
    @contextlib.asynccontextmanager
    async def connected(_):
        yield None

    async def probe(_):
        return [machines.Machine(name, name, {}, [name]) for name in there.pop(0)]

    async def by(self, _):
        if there:
            raise Lost("the scheduler is gone")

    monkeypatch.setattr(run, "connected", connected)
    monkeypatch.setattr(run, "BACK_S", 0.0)
    monkeypatch.setattr("bytepath.fleet.copy.members.probe", probe)
    monkeypatch.setattr(run.Run, "_by", by)
    there = [["a", "b", "c"], ["a", "d"]]
    journal = Journal(tmp_path / "journal", ["a", "b"])
    journal.set_seen({"earlier": "earlier"})
    options = Options("/a", "/b", "tcp://a", [], None, None, None, False, False, 60.0, 60.0)
    copying = run.Run(options, journal)
    assert asyncio.run(copying.copy()).machines == 3
    assert list(copying.members.seen()) == ["earlier", "a", "d"]
    journal.close()


def test_a_directory_looks_like_no_other_and_like_itself_while_nobody_changes_it(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"bytes")
        os.utime(tmp_path / name / "file", (1, 1))
    one, two = (storage.look(str(tmp_path / name)) for name in ("one", "two"))
    assert storage.is_same(one, storage.look(str(tmp_path / "one")))
    # As on another storage, where it may have the same inode.
    two["inode"] = one["inode"]
    assert not storage.is_same(one, two)
    assert not storage.may_be_same(one, two)
    (tmp_path / "one/new").touch()
    changed = storage.look(str(tmp_path / "one"))
    assert not storage.is_same(one, changed) and storage.may_be_same(one, changed)
    (tmp_path / "one/file").write_bytes(b"other")
    again = storage.look(str(tmp_path / "one"))
    assert again["entries"][b"file"] != changed["entries"][b"file"]
    assert again["entries"][b"new"] == changed["entries"][b"new"]


@needs_root
def test_what_one_machine_has_mounted_below_a_directory_makes_it_no_other(tmp_path):
    (tmp_path / "mounted").mkdir()
    (tmp_path / "file").touch()
    script = "import os\nfrom bytepath.fleet import storage\nprint(repr(storage.look(os.environ['LOOK'])))\n"
    environment = {**os.environ, "LOOK": str(tmp_path)}
    mount = f'mount -t tmpfs tmpfs {tmp_path}/mounted && exec "$@"'
    there = ["unshare", "--mount", "sh", "-c", mount, "sh", sys.executable, "-c", script]
    done = subprocess.run(there, env=environment, capture_output=True, text=True, check=True)
    here, other = storage.look(str(tmp_path)), ast.literal_eval(done.stdout)
    assert other["entries"][b"mounted"] == (None,) * 4 and None not in other["entries"][b"file"]
    assert storage.is_same(here, other)


@needs_root
def test_who_may_not_look_for_the_word_is_no_other_storage(tmp_path, python):
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    assert worker.mark(str(run / "mark"), "word") is None
    tmp_path.chmod(0o711)
    script = (
        "import os, sys\nfrom bytepath.fleet import worker\n"
        f"os.chdir(sys.argv[1])\nos.setuid({NOBODY})\nprint(worker.marked('run/mark'))\n"
    )
    assert python(script, str(tmp_path)).stdout == f"(None, {errno.EACCES})\n"
    found = worker.no_entry("the worker on two", 1000, str(run))
    assert "runs as uid 1000 and may not look into" in found and "start all workers as one user" in found


def test_signs_that_standard_output_does_not_have_end_nothing(tmp_path):
    script = (
        "import sys\nfrom bytepath.fleet import files, report\n"
        "found = {'words': ['bench', '\\udcff'], 'started': '\\u2013', 'machines': []}\n"
        "files.tell('\\u2013 was not measured', (sys.argv[1], '\\u2013' + report.page(found, report.view(found))))\n"
    )
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "page"], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "? was not measured\n"), done
    assert (tmp_path / "page").read_text(encoding="utf-8").startswith("–")




def test_a_word_is_left_in_no_file_that_a_link_leads_to(tmp_path):
    run, theirs = tmp_path / "run", tmp_path / "theirs"
    run.mkdir()
    mark, victim = str(run / "mark"), tmp_path / "victim"
    victim.write_text("kept")
    (run / "mark").symlink_to(victim)
    assert worker.marked(mark) == (None, errno.ELOOP)
    assert worker.mark(mark, "word") is None
    assert (worker.marked(mark)[0], victim.read_text()) == ("word", "kept")
    assert worker.mark(mark, "another") is None and worker.marked(mark) == ("another", None)
    (run / "mark").unlink()
    os.mkfifo(run / "mark")
    assert worker.marked(mark) == ("", None)
    os.unlink(mark)
    os.mkdir(mark)
    opened = set(os.listdir("/proc/self/fd"))
    assert worker.marked(mark)[0] is None and set(os.listdir("/proc/self/fd")) <= opened
    os.rmdir(mark)
    os.mkfifo(mark)
    run.rename(theirs)
    run.symlink_to(theirs)
    assert worker.mark(mark, "word") and worker.marked(mark)[0] is None
    assert (theirs / "mark").is_fifo()


def test_a_folder_or_journal_whose_name_is_too_long_is_refused(tmp_path):
    with pytest.raises(FleetError, match=r"it is no folder, and none can be made \(File name too long\)$"):
        files.check_folder(tmp_path / ("x" * 300))
    with pytest.raises(FleetError, match="File name too long.*name another file with --journal"):
        Journal(tmp_path / ("x" * 300), ["from", "to"])


@needs_root
def test_a_word_is_not_left_in_a_directory_of_somebody_elses(tmp_path):
    os.chown(tmp_path, NOBODY, -1)
    refused = worker.mark(str(tmp_path / "mark"), "word")
    assert refused and "somebody else" in refused[1]
    assert worker.marked(str(tmp_path / "mark"))[0] != "word"


@needs_root
def test_links_that_somebody_else_planted_are_not_followed_for_results(tmp_path):
    folder, victim = tmp_path / "all", tmp_path / "victim"
    folder.mkdir()
    folder.chmod(0o1777)
    victim.write_text("kept")
    for name, owner in (("planted", NOBODY), ("ours", os.getuid())):
        (folder / name).symlink_to(victim)
        os.chown(folder / name, owner, -1, follow_symlinks=False)
    for write in (files.check, lambda path: files.write(path, "new"), lambda path: metrics.replace(path, "new", 0o600)):
        with pytest.raises((FleetError, PermissionError), match="ermission denied"):
            write(folder / "planted")
        assert victim.read_text() == "kept" and (folder / "planted").is_symlink()
    metrics.replace(folder / "ours", "new", 0o600)
    assert victim.read_text() == "new" and (folder / "ours").is_symlink()


@pytest.mark.parametrize("turns", range(6))
def test_who_is_cancelled_stays_so_even_when_what_is_waited_for_is_done_in_that_moment(turns):
    async def cancelled():
        answer = asyncio.get_running_loop().create_future()
        waiting = asyncio.ensure_future(within(60, answer))
        await asyncio.sleep(0.01)
        answer.set_result("here")
        for _ in range(turns):
            await asyncio.sleep(0)
        was_done = waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])
        return was_done or waiting.cancelled()

    assert asyncio.run(cancelled())


def test_what_takes_too_long_is_cancelled_until_it_is_over():
    cancelled = []

    async def stubborn():
        while len(cancelled) < 2:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.append("so")
        return "late"

    async def waits():
        with pytest.raises(asyncio.TimeoutError):
            await within(0.01, stubborn())
        failed = asyncio.ensure_future(within(60, asyncio.sleep(60)))
        await asyncio.sleep(0)
        await ended(failed)
        return failed.cancelled()

    assert asyncio.run(waits())
    assert len(cancelled) == 2
