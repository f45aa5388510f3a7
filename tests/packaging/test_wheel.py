"""The wheel: the product only, installed into an empty environment outside the checkout, runs the demo."""

import sys
import zipfile
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT, run
from tests.packaging.test_sdist import PRODUCT

pytestmark = pytest.mark.wheel


@pytest.fixture(scope="module")
def members(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that holds the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    run(folder / "venv/bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel, cwd=folder)
    return folder


def test_it_carries_the_product_only(members: set[str]) -> None:
    folders = {name.split("/")[0] for name in members}
    assert {name for name in folders if not name.startswith("ordo_sequencer")} == set(PRODUCT)
    assert not {name for name in members if name.endswith((".pyx", ".c", ".pyc"))}


def test_every_native_module_is_in(members: set[str]) -> None:
    sources = [path for folder in PRODUCT for path in (ROOT / folder).rglob("*.pyx")]
    built = {name.split(".")[0] for name in members if name.endswith(".so")}
    assert len(sources) > 40
    assert {path.relative_to(ROOT).with_suffix("").as_posix() for path in sources} == built


def test_it_runs_on_any_linux_of_its_time(wheel: Path) -> None:
    assert "manylinux" in wheel.name


def test_the_command_runs_from_it(environment: Path) -> None:
    assert run(environment / "venv/bin/ordo", "--version", cwd=environment).startswith("ordo ")
    where = run(environment / "venv/bin/python", "-c", "import ordo; print(ordo.__file__)", cwd=environment)
    assert Path(where.strip()).is_relative_to(environment)


def test_the_demo_runs_from_it(environment: Path) -> None:
    shown = run(environment / "venv/bin/ordo", "demo", "--orders", "20000", cwd=environment, timeout_s=300)
    states = {line.split()[3] for line in shown.splitlines() if line.split()[:1] == ["member"] and "state" in line}
    assert len(states) == 1, shown
