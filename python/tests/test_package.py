"""The package as it is installed."""

import importlib.metadata
import importlib.resources

import bytepath


def test_the_compiled_half_and_the_package_have_one_version():
    assert importlib.metadata.version("bytepath") == bytepath.__version__


def test_the_package_says_that_it_is_typed():
    files = importlib.resources.files(bytepath)
    assert files.joinpath("py.typed").is_file()
    assert files.joinpath("_bytepath.pyi").is_file()
