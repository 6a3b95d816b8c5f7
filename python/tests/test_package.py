"""The package as it is installed."""

import importlib.metadata
import importlib.resources
import re
import typing

import bytepath
from bytepath import _bytepath
from bytepath._ends import End


def test_the_compiled_half_and_the_package_have_one_version():
    assert importlib.metadata.version("bytepath") == bytepath.__version__


def test_the_package_says_that_it_is_typed():
    files = importlib.resources.files(bytepath)
    assert files.joinpath("py.typed").is_file()
    stub = files.joinpath("_bytepath.pyi").read_text()
    told = set(re.findall(r"^(?:def|class) (\w+)", stub, re.MULTILINE))
    there = {name for name in dir(_bytepath) if not name.startswith("_")}
    assert told == there


def test_all_names_are_there():
    assert sorted(bytepath.__all__) == sorted(set(bytepath.__all__))
    for name in bytepath.__all__:
        assert hasattr(bytepath, name)


def test_a_queue_of_a_kind_gives_queues_of_that_kind():
    for gives in (bytepath.Queue.__enter__, bytepath.Queue.listen, bytepath.Queue.connect):
        given = typing.get_type_hints(gives)["return"]
        assert isinstance(given, typing.TypeVar), gives
    assert type(bytepath.JoinableQueue().__enter__()) is bytepath.JoinableQueue


def test_the_output_of_a_process_is_an_end_to_type_checkers():
    assert typing.IO[bytes] in typing.get_args(End)
