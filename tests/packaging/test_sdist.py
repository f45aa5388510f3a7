"""The sdist holds all that the product is built from, and only that."""

import tarfile
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT
from tools.source import FACE, PACKAGES

pytestmark = pytest.mark.wheel  # the whole release is made for it, once, as for the tests of the wheel
SOURCES = (".py", ".pyx", ".pxd", ".pyi", ".h")


def sources(*suffixes: str) -> list[Path]:
    """Return the files of the product with these suffixes."""
    return [
        path
        for folder in PACKAGES
        for path in (ROOT / folder).rglob("*")
        if path.suffix in suffixes and "__pycache__" not in path.parts
    ]


def installed(path: Path) -> str:
    """Return where a file of the product stands in a distribution: below the one package, whatever its folder."""
    name = path.relative_to(ROOT).as_posix()
    return name if name.startswith(f"{FACE}/") else f"{FACE}/{name}"


@pytest.fixture(scope="module")
def members(sdist: Path) -> set[str]:
    """The paths of the sdist's files, below its one folder."""
    with tarfile.open(sdist) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def test_every_source_of_the_product_is_in(members: set[str]) -> None:
    expected = {installed(path) for path in sources(*SOURCES)} | {f"{FACE}/py.typed"}
    assert len(expected) > 200
    assert expected <= members, sorted(expected - members)


def test_it_has_the_one_package(members: set[str]) -> None:
    folders = {name.partition("/")[0] for name in members if "/" in name}
    assert {name for name in folders if not name.endswith(".egg-info")} == {FACE}


def test_what_supports_the_product_and_what_was_compiled_is_out(members: set[str]) -> None:
    strangers = {"tests", "tools", "benchmarks", "examples", "build", "docs"}
    assert not {name for name in members if name.split("/")[0] in strangers}
    assert not {name for name in members if name.endswith((".c", ".so", ".pyc"))}
