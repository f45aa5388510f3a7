"""The wheel: the product only, installed into an empty environment outside the checkout, runs the demo."""

import json
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT, run
from tests.packaging.test_sdist import installed, sources
from tests.packaging.test_types import check, pyright
from tools.source import FACE, PACKAGES

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
    assert {name for name in folders if not name.startswith("ordo_sequencer")} == {FACE}
    assert not {name for name in members if name.endswith((".pyx", ".c", ".pyc"))}


def test_every_native_module_is_in(members: set[str]) -> None:
    expected = {installed(path.with_suffix("")) for path in sources(".pyx")}
    assert len(expected) > 40
    assert {name.split(".")[0] for name in members if name.endswith(".so")} == expected


def test_it_runs_on_any_linux_of_its_time(wheel: Path) -> None:
    assert "manylinux" in wheel.name


def test_the_command_runs_from_it(environment: Path) -> None:
    assert run(environment / "venv/bin/ordo", "--version", cwd=environment).startswith("ordo ")
    where = run(environment / "venv/bin/python", "-c", "import ordo; print(ordo.__file__)", cwd=environment)
    assert Path(where.strip()).is_relative_to(environment)


def test_a_users_files_may_have_the_names_of_the_folders(environment: Path, tmp_path: Path) -> None:
    """A script beside files named like Ordo's folders finds its own files, and Ordo finds its own."""
    for name in (*PACKAGES, "cluster/node"):
        if name != FACE:
            (tmp_path / name).mkdir(parents=True, exist_ok=True)
            (tmp_path / name / "__init__.py").write_text("MINE = True\n")
    (tmp_path / "script.py").write_text(
        "import cluster, runtime\n"
        "import ordo, ordo.errors, ordo.testing\n"
        "assert cluster.MINE and runtime.MINE\n"
        "for name in ordo.__all__:\n"
        "    getattr(ordo, name)\n"
        "print('all there')\n"
    )
    shown = run(environment / "venv/bin/python", "script.py", cwd=tmp_path)
    assert shown == "all there\n"


def test_the_demo_runs_from_it(environment: Path) -> None:
    shown = run(environment / "venv/bin/ordo", "demo", "--orders", "20000", cwd=environment, timeout_s=300)
    states = {line.split()[3] for line in shown.splitlines() if line.split()[:1] == ["member"] and "state" in line}
    assert len(states) == 1, shown


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """A folder with the examples, but for the caller that needs what protoc makes of the contract, and one mistake."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("gateway_client.py"))
    (tmp_path / "examples" / "mistaken.py").write_text("from ordo import ClusterClinet\n")
    return tmp_path


def test_mypy_checks_the_examples_against_it(environment: Path, examples: Path) -> None:
    """The extras that some examples import are not installed, and say nothing."""
    mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(environment / "venv/bin/python")]
    away = ["--disable-error-code=import-not-found", "--disable-error-code=import-untyped"]
    done = check(
        [*mypy, *away, "--no-warn-unused-ignores", "--no-pretty", "--cache-dir", str(examples / "cache"), "examples"],
        examples,
    )
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert [line.split(":")[0] for line in errors] == ["examples/mistaken.py"], done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("npm") is None, reason="pyright comes from npm")
def test_pyright_checks_the_examples_against_it(environment: Path, examples: Path) -> None:
    settings = {"typeCheckingMode": "standard", "reportMissingImports": False, "reportMissingModuleSource": False}
    (examples / "pyrightconfig.json").write_text(json.dumps(settings))
    done = json.loads(check([*pyright(environment / "venv/bin/python"), "examples"], examples).stdout)
    assert done["summary"]["filesAnalyzed"] > 10
    assert [Path(one["file"]).name for one in done["generalDiagnostics"]] == ["mistaken.py"], done
