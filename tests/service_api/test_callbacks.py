"""Classes that are no services are refused when they are loaded, with what was probably meant."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ordo.cluster.container.service_loader import load_service
from ordo.dev_check import main
from ordo.runtime.errors import ConfigurationError
from ordo.service_api.callbacks import CALLBACKS, find_fault

SERVICES = """
from ordo import ClusteredService

MESSAGE = "self, session, timestamp, payload, header"

class Good(ClusteredService):
    def on_session_message(self, session, timestamp, payload, header):
        return bytes(payload)

    def _on_order(self):
        pass

class OfInstances:
    def __get__(self, owner, kind=None):
        return owner.__dict__["value"]

class Lazy(Good):
    cached = OfInstances()
    on_hand = OfInstances()

class Typo(Good):
    def on_take_snapshots(self, writer):
        pass

class Strange(Good):
    def on_order(self):
        pass

class Deaf(ClusteredService):
    def on_query(self, payload):
        return b""

class Few(ClusteredService):
    def on_session_message(self, session, payload):
        return b""

class Text(ClusteredService):
    def on_session_message(self, session, timestamp, payload, header) -> str:
        return "done"

class Awaiting(ClusteredService):
    async def on_session_message(self, session, timestamp, payload, header):
        return b"done"

class Yielding(Good):
    def on_take_snapshot(self, writer):
        yield b"state"

class HiddenText(ClusteredService):
    def on_session_message(self, session, timestamp, payload, header):
        return "done"

class Divides(ClusteredService):
    def on_session_message(self, session, timestamp, payload, header):
        return b"%d" % (100 // len(payload))

class Forgets(Good):
    def __init__(self):
        self.opened = 0

    def on_session_open(self, session, timestamp):
        self.opened += 1

    def on_take_snapshot(self, writer):
        self.opened += 1
        writer.write(b"%d" % self.opened)
"""
NAMES = "no callback of a service: "
REFUSED = [
    ("Typo", f"Typo.on_take_snapshots is {NAMES}is on_take_snapshot meant?"),
    ("Strange", f"Strange.on_order is {NAMES}a service has on_start, "),
    ("Deaf", "Deaf has no on_session_message: it would take no message"),
    ("Few", "Few.on_session_message(self, session, payload) must take (self, session, timestamp, payload, header)"),
    ("Text", "Text.on_session_message returns str, must return bytes: encode it, as text.encode()"),
    (
        "Awaiting",
        "Awaiting.on_session_message is async or yields: a callback returns its answer, and never waits",
    ),
    ("Yielding", "Yielding.on_take_snapshot is async or yields: a callback returns its answer, and never waits"),
]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with these services, in the current folder."""
    (tmp_path / "told_services.py").write_text(SERVICES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "told_services", raising=False)
    return "told_services"


@pytest.mark.parametrize(("name", "words"), REFUSED)
def test_what_is_no_service_is_refused_when_it_is_loaded(module: str, name: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_service(f"{module}:{name}")
    assert words in caught.value.message and "\n" not in caught.value.message


def test_attributes_that_the_class_itself_has_not_are_no_callbacks(module: str) -> None:
    """A descriptor that only knows instances ended the start with an AttributeError of its own."""
    assert find_fault(load_service(f"{module}:Lazy")) == ""


def test_methods_that_begin_otherwise_are_the_services_own(module: str) -> None:
    assert find_fault(load_service(f"{module}:Good")) == ""
    assert "on_session_message" in CALLBACKS and "on_terminate" in CALLBACKS


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("Good", 0, ""),
        ("Typo", 1, "is on_take_snapshot meant?"),
        ("HiddenText", 1, "the answer of on_session_message is a str, must be bytes: encode it, as 'done'.encode()"),
        ("Divides", 0, "a message b'' would stop every member: ZeroDivisionError"),
        ("Forgets", 1, "on_take_snapshot may not change the state"),
    ],
)
def test_what_ordo_dev_says_before_it_starts_a_service(
    module: str, name: str, status: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(f"{module}:{name}") == status
    shown = capsys.readouterr().out
    assert words in shown and shown.count("\n") == (1 if words else 0)
