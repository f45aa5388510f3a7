"""What a library says reaches whoever listens, and never stops it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog

from ordo.runtime.reporting.logging import configure_logging, tell


@pytest.fixture(autouse=True)
def unconfigured() -> Iterator[None]:
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


def test_without_logs_that_were_set_up(caplog: pytest.LogCaptureFixture) -> None:
    tell("warning", "driver.encryption", text="a line")
    assert [record.getMessage() for record in caplog.records] == ["driver.encryption text=a line"]


def test_a_closed_log_stops_nobody() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)
    tell("warning", "driver.encryption", text="a line")
    assert json.loads(stream.getvalue())["text"] == "a line"
    stream.close()
    tell("warning", "driver.encryption", text="another")


def test_who_sets_no_logs_up_does_not_import_what_writes_them() -> None:
    home = "ordo.transport.client.client_transport"
    script = f"import sys; from {home} import ClientTransport as t; t.embedded('test').close()"
    done = subprocess.run(
        [sys.executable, "-c", f"{script}; print('structlog' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    "words", ["import structlog; structlog.get_logger().info('event', a=1)", "tell('info', 'event', a=1)"]
)
def test_logs_are_set_up_when_somebody_writes_the_first_event(words: str) -> None:
    begin = (
        "import sys; from ordo.runtime.reporting.logging import configure_logging, tell; configure_logging(json=True)"
    )
    look = "print('structlog' in sys.modules, 'rich' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", f"{begin}; {look}; {words}; {look}"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False False\nTrue False\n", "what colours terminals is not loaded for JSON"
    assert json.loads(done.stderr)["a"] == 1


def test_the_level_may_change_before_and_after_the_first_event() -> None:
    words = (
        "from ordo.runtime.reporting.logging import configure_logging as c, get_logger as g;"
        " c(json=True); c('error', json=True);"
        " g().info('no'); c('info', json=True); g().info('yes')"
    )
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert [json.loads(line)["event"] for line in done.stderr.splitlines()] == ["yes"]
