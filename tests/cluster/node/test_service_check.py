"""Services are loaded by a child before a node starts that leaves them to other processes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ordo.cluster.node.service_check import check_services
from ordo.runtime.errors import ConfigurationError

SERVICE = """
import os, sys
print("imported")
if os.getpid() != {pid} and {ends}:
    os._exit(3)
from ordo.service_api.service import ClusteredService
class Counter(ClusteredService):
    def on_session_message(self, session, timestamp, message, header):
        pass
"""


def write_service(folder: Path, monkeypatch: pytest.MonkeyPatch, *, ends: bool) -> str:
    name = f"counter_{os.getpid()}_{ends}"
    (folder / f"{name}.py").write_text(SERVICE.format(pid=os.getpid(), ends=ends))
    monkeypatch.syspath_prepend(str(folder))
    return name


def test_what_is_loaded_stays_in_the_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    name = write_service(tmp_path, monkeypatch, ends=False)
    check_services([{1: f"{name}:Counter"}], None)
    assert name not in sys.modules
    assert capfd.readouterr().out == "imported\n"


@pytest.mark.parametrize(
    ("service", "words"),
    [("no_such_module:Service", "there is no module 'no_such_module'"), ("nothing", "must be module:Class")],
)
def test_what_cannot_be_loaded_is_told_here(service: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        check_services([{1: service}], None)


def test_code_that_ends_the_child_is_loaded_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = write_service(tmp_path, monkeypatch, ends=True)
    check_services([{1: f"{name}:Counter"}], None)
    assert sys.modules.pop(name).Counter
