"""The lowest version of each package that pyproject.toml lets in is there, and Ordo works with it."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from ordo.pipeline.generate import LogShape, generate_log
from tests.packaging.conftest import ROOT, run

pytestmark = [pytest.mark.wheel, pytest.mark.slow, pytest.mark.timeout(1800)]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CORE = ("ordo",)
NEEDS = {
    "gateway": ("ordo/gateway", "ordo/service_api"),
    "kafka": ("ordo/gateway/kafka",),
    "docker": ("ordo/deploy",),
    "otel": ("ordo/runtime", "ordo/cluster/monitoring", "ordo/bench"),
    "local": ("ordo/pipeline",),
    "pipeline": ("ordo/pipeline",),
}
"""What each extra is for; its modules are imported, all but those that need another extra's packages."""
FETCH_MUCH = ("local", "pipeline")
"""Extras of hundreds of megabytes: nightly looks at them."""
OTHERS = (
    "opentelemetry",
    "grpc",
    "grpc_health",
    "grpc_reflection",
    "google",
    "aiohttp",
    "docker",
    "pyspark",
    "pyarrow",
    "pandas",
    "numpy",
    "duckdb",
    "polars",
    "matplotlib",
    "deltalake",
    "crc32c",
    "kio",
    "fsspec",
    "s3fs",
    "py4j",
)
IMPORTED_AS = {
    "grpcio": "grpc",
    "grpcio-health-checking": "grpc_health",
    "grpcio-reflection": "grpc_reflection",
    "protobuf": "google",
    "opentelemetry-sdk": "opentelemetry",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
}
IMPORT_ALL = """
import importlib, os, sys
root, wanted, others = sys.argv[1], sys.argv[2].split(","), sys.argv[3].split(",")
count, failures = 0, []
for folder in wanted:
    for place, _, names in os.walk(os.path.join(root, folder), followlinks=True):
        for name in names:
            if not name.endswith((".py", ".so")) or name == "__main__.py":
                continue
            module = os.path.relpath(os.path.join(place, name.split(".")[0]), root).replace(os.sep, ".")
            try:
                importlib.import_module(module.removesuffix(".__init__"))
                count += 1
            except ModuleNotFoundError as error:
                if (error.name or "").partition(".")[0] not in others:
                    failures.append((module, repr(error)))
            except Exception as error:
                failures.append((module, repr(error)))
assert not failures, failures
print(count)
"""
READ_LOCALLY = """
import sys
import ordo
print(ordo.read(sys.argv[1]).to_arrow().num_rows)
"""
READ_WITH_SPARK = """
import sys, tempfile
from ordo.pipeline.spark.session import local_session
spark = local_session("bounds", cores=1, folder=tempfile.mkdtemp(dir=sys.argv[2]))
print(spark.read.format("ordo").load(sys.argv[1]).count())
spark.stop()
"""
READS = {"local": READ_LOCALLY, "pipeline": READ_WITH_SPARK}
"""How a log is read with each extra."""
COMMANDS = (
    ("--help",),
    ("node", "--help"),
    ("cluster", "--help"),
    ("archive", "list", "--help"),
    ("completion", "bash"),
    ("size", "--help"),
)


def lowest(requirements: list[str]) -> Iterator[str]:
    """`name>=1.2,<2` as `name==1.2`."""
    for one in requirements:
        found = re.fullmatch(r"([\w.\[\]-]+)>=([\d.]+)(?:,.*)?", one)
        assert found, f"{one}: a lower bound comes first, so that it can be tested"
        yield f"{found[1]}=={found[2]}"


def newest(requirements: list[str]) -> list[str]:
    """The requirements as they are: pip takes the newest that they let in."""
    return requirements


def environment(folder: Path, *extras: str, choose: Callable[[list[str]], Iterable[str]] = lowest) -> Path:
    """A Python with what Ordo and some extras need, by default in the lowest versions."""
    run(sys.executable, "-m", "venv", folder, cwd=ROOT)
    wanted = list(PROJECT["dependencies"])
    for extra in extras:
        wanted += PROJECT["optional-dependencies"][extra]
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", *choose(wanted), cwd=folder)
    return python


def import_all(python: Path, folders: tuple[str, ...], others: set[str]) -> int:
    words = ("-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{IMPORT_ALL}")
    return int(run(python, "-B", *words, ROOT, ",".join(folders), ",".join(sorted(others)), cwd=python.parent))


def names_of(extra: str) -> set[str]:
    """What is imported for an extra, and must be there with it."""
    packages = {one.partition(">=")[0].partition("[")[0] for one in PROJECT["optional-dependencies"][extra]}
    return {IMPORTED_AS.get(one, one) for one in packages}


def test_the_lowest_versions_run_every_module_and_the_command_line(tmp_path: Path) -> None:
    python = environment(tmp_path / "lowest")
    assert import_all(python, CORE, set(OTHERS)) > 300
    for words in COMMANDS:
        shown = run("env", f"PYTHONPATH={ROOT}", python, "-B", "-m", "ordo.cli", *words, cwd=tmp_path)
        assert "Traceback" not in shown and shown


@pytest.mark.parametrize(
    "extra", [pytest.param(one, marks=[pytest.mark.soak] if one in FETCH_MUCH else []) for one in NEEDS]
)
def test_the_lowest_versions_of_an_extra_are_imported(extra: str, tmp_path: Path) -> None:
    python = environment(tmp_path / extra, extra)
    assert import_all(python, NEEDS[extra], set(OTHERS) - names_of(extra)) >= 4
    check_read(python, extra, tmp_path)


def check_read(python: Path, extra: str, folder: Path) -> None:
    """Reads a log with what an extra brings, where it is for that."""
    if extra not in READS:
        return
    shape = LogShape(messages=2000, sessions=2, terms=1, term_length=1 << 18, segment_length=1 << 20)
    archive = folder / "node0" / "archive"
    generate_log(str(archive), shape)
    words = ("env", f"PYTHONPATH={ROOT}", python, "-B", "-c", READS[extra], archive, folder)
    assert int(run(*words, cwd=folder).splitlines()[-1]) > 2000


@pytest.mark.soak
@pytest.mark.parametrize("extra", FETCH_MUCH)
def test_a_log_is_read_with_the_newest_versions_of_an_extra(extra: str, tmp_path: Path) -> None:
    check_read(environment(tmp_path / extra, extra, choose=newest), extra, tmp_path)
