"""The package as it is installed."""

import importlib.metadata
import importlib.resources
import multiprocessing
import os
import re
import typing

import pytest
from channel_work import put_one

import bytepath
from bytepath import _bytepath
from bytepath._ends import End


def test_the_compiled_half_and_the_package_have_one_version():
    assert importlib.metadata.version("bytepath") == bytepath.__version__


def test_the_package_says_that_it_is_typed():
    files = importlib.resources.files(bytepath)
    assert files.joinpath("py.typed").is_file()
    stub = files.joinpath("_bytepath.pyi").read_text()
    told = set(re.findall(r"^(?:def |class |)([A-Za-z]\w*)[:(]", stub, re.MULTILINE))
    there = {name for name in dir(_bytepath) if not name.startswith("_")}
    assert told == there


def test_all_names_are_there():
    assert sorted(bytepath.__all__) == sorted(set(bytepath.__all__))
    for name in bytepath.__all__:
        assert hasattr(bytepath, name)


def test_names_that_are_loaded_later_are_there_at_once(python):
    done = python(
        "import bytepath, pickle\n"
        "assert set(bytepath.__all__) <= set(dir(bytepath))\n"
        "assert not hasattr(bytepath, 'no_such_name')\n"
        "from bytepath import *\n"
        "assert set(bytepath.__all__) <= set(globals())\n"
        "assert bench is bytepath.bench and isinstance(Profile(), bytepath.Profile)\n"
        "assert pickle.loads(pickle.dumps(TreeCopied)) is TreeCopied\n"
    )
    assert done.returncode == 0, done.stderr


def test_a_program_that_copies_and_has_a_queue_loads_nothing_heavy_that_it_does_not_need(python):
    done = python(
        "import sys\n"
        # By what else is installed.
        "had = set(sys.modules)\n"
        "import bytepath\n"
        "assert bytepath.copy('/etc/passwd', '/dev/null').bytes > 0\n"
        "with bytepath.Queue() as queue:\n"
        "    queue.put(1)\n"
        "    assert queue.get() == 1\n"
        "heavy = {'asyncio', 'bytepath._bench', 'html', 'json', 'multiprocessing.connection', 'numpy', 'pandas', 'pyarrow',\n"
        "         'secrets', 'ssl', 'tqdm'}\n"
        "print(heavy & set(sys.modules) - had)\n"
    )
    assert done.stdout == "set()\n", done.stderr


def test_a_queue_of_a_kind_gives_queues_of_that_kind():
    for gives in (bytepath.Queue.__enter__, bytepath.Queue.listen, bytepath.Queue.connect):
        given = typing.get_type_hints(gives)["return"]
        assert isinstance(given, typing.TypeVar), gives
    assert type(bytepath.JoinableQueue().__enter__()) is bytepath.JoinableQueue


@pytest.mark.parametrize("kind", [bytepath.Queue, bytepath.JoinableQueue])
def test_a_queue_says_what_it_holds_as_multiprocessings_do(kind):
    with kind[int]() as queue:
        child = multiprocessing.get_context("spawn").Process(target=put_one, args=(queue,))
        child.start()
        assert queue.get(timeout=60) == 1 and type(queue) is kind
        child.join()
    with kind[str].listen(f"@bytepath-test-{kind.__name__}-{os.getpid()}") as listening:
        assert type(listening) is kind
    (held,) = kind.__parameters__
    for gets in (kind.get, kind.get_nowait, kind.get_async):
        assert typing.get_type_hints(gets)["return"] is held, gets
    for puts in (kind.put, kind.put_nowait, kind.put_async):
        assert typing.get_type_hints(puts)["obj"] is held, puts


def test_the_output_of_a_process_is_an_end_to_type_checkers():
    assert typing.IO[bytes] in typing.get_args(End)
