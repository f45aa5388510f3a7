"""Stretches of a log that says when messages arrived."""

from __future__ import annotations

from pathlib import Path

import pytest

from ordo.cluster.wire import codecs
from ordo.testing import recorded
from tests.cluster.integration.arrivals import Arrivals
from tests.debugging.logs import SESSION, TIME, builder_from, new_term, session_open
from tests.debugging.test_commands import typed
from tests.sequencer.request_log import with_arrival

SERVICE = "tests.cluster.integration.arrivals:Arrivals"
ARRIVALS = [1_700_000_000_123_456_789, None, 1_700_000_000_123_456_790]


def hide(payload: bytes) -> bytes:
    return b"x" * len(payload)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of three messages, of which the second does not say when it arrived."""
    with builder_from(tmp_path / "log", 0) as builder:
        builder.append(new_term(0))
        builder.append(session_open())
        for number, arrival_ns in enumerate(ARRIVALS):
            head = codecs.SESSION_MESSAGE_HEADER.encode(
                leadership_term_id=0, cluster_session_id=SESSION, timestamp=TIME + number
            )
            record = head + b"message %d" % number
            builder.append(record if arrival_ns is None else with_arrival(record, arrival_ns))
    return tmp_path / "log"


def test_a_recorded_stretch_tells_a_service_what_the_log_did(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "stretch.json"
    words = "record", log, "--service", SERVICE, "--output", file
    typed(capsys, *words)
    rows = recorded(file).run(Arrivals).service.rows
    assert rows == [[TIME + at, arrival_ns, f"message {at}"] for at, arrival_ns in enumerate(ARRIVALS)]
    typed(capsys, *words, "--anonymise", "tests.debugging.test_arrivals:hide")
    run = recorded(file).run(Arrivals)
    assert run.service.rows == [[TIME + at, arrival_ns, "xxxxxxxxx"] for at, arrival_ns in enumerate(ARRIVALS)]
    entries = [step.entry for step in run.steps]
    assert [one.arrival_ns for one in entries if one is not None and one.payload] == ARRIVALS
