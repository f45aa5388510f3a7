"""docs/SERVICES.md: its programs run as they stand there, and the service that it warns of is found."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import tomlkit

from ordo.cluster.settings.config import NodeSettings
from ordo.deploy.launcher import ROOT
from ordo.errors import ServiceError
from ordo.service_api import service
from ordo.testing import Input, Message, OpenSession, check_environments
from tests.pages.configuration import load_with
from tests.patience import patient
from tests.snippets import texts_of

PAGE = (ROOT / "docs" / "SERVICES.md").read_text()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's programs, in a folder."""
    for text in texts_of(PAGE, "python"):
        (tmp_path / text.splitlines()[0].removeprefix("# ")).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("program", ["check_orders.py", "check_hostile_orders.py"])
def test_the_service_passes_its_checks(files: Path, program: str) -> None:
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False, timeout=patient(60))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_the_set_of_strings_is_found(files: Path) -> None:
    inputs: list[Input] = [OpenSession(1, 1), *(Message(1, 2 + number, b"%d" % number) for number in range(9))]
    with pytest.raises(ServiceError, match="not deterministic: with PYTHONHASHSEED=1"):
        check_environments("seen:Seen", inputs)


def test_the_table_of_several_services_is_one_of_a_node(tmp_path: Path) -> None:
    (text,) = texts_of(PAGE, "toml")
    by_id = [{1: "bank.service:Bank"}, {1: "bank.audit:Audit"}]
    own = load_with(tmp_path, "").model_dump(by_alias=True, include={"node", "members"})
    assert NodeSettings.from_mapping({**own, **tomlkit.parse(text).unwrap()}).services_by_id == by_id
    named = re.findall(r"--service (\S+?:\w+)", PAGE)
    assert load_with(tmp_path, "").with_services(named).services_by_id == by_id


def test_every_callback_is_in_the_table() -> None:
    members = vars(service.ClusteredService).items()
    callbacks = {name for name, value in members if callable(value) and not name.startswith("_")}
    section = PAGE.partition("## What may be called")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| `")]
    named = {name for _, cell, *_ in rows for name in re.findall(r"`(\w+)`", cell)}
    assert named == callbacks
