"""The sdist holds all that the product is built from, and only that."""

import tarfile
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT
from tools.source import PACKAGES

PRODUCT = tuple(folder for folder in PACKAGES if (ROOT / folder).is_dir())
SOURCES = (".py", ".pyx", ".pxd", ".pyi", ".h")


@pytest.fixture(scope="module")
def members(sdist: Path) -> set[str]:
    """The paths of the sdist's files, below its one folder."""
    with tarfile.open(sdist) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def test_every_source_of_the_product_is_in(members: set[str]) -> None:
    expected = {
        path.relative_to(ROOT).as_posix()
        for folder in PRODUCT
        for path in (ROOT / folder).rglob("*")
        if path.suffix in SOURCES or path.name == "py.typed"
    }
    assert len(expected) > 200
    assert expected <= members, sorted(expected - members)


def test_what_supports_the_product_and_what_was_compiled_is_out(members: set[str]) -> None:
    strangers = {"tests", "tools", "benchmarks", "examples", "build", "docs"}
    assert not {name for name in members if name.split("/")[0] in strangers}
    assert not {name for name in members if name.endswith((".c", ".so", ".pyc"))}


def test_every_package_is_typed() -> None:
    assert [folder for folder in PRODUCT if not (ROOT / folder / "py.typed").exists()] == []
