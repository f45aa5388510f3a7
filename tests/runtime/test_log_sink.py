"""Where the log of a program goes, and what happens when it cannot."""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest
import structlog

from ordo.runtime.reporting.log_sink import WAIT_MS, LogSink, SinkStream, watch_drops
from ordo.runtime.reporting.logging import _chosen, configure_logging, get_logger


@pytest.fixture(autouse=True)
def unconfigured() -> Iterator[None]:
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
    _chosen.clear()  # what a test demanded of the log is no other test's
    watch_drops(None)


@pytest.fixture
def pipe() -> Iterator[tuple[int, TextIO]]:
    """The end that reads, and a stream to the other one."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        yield reader, stream
        os.close(reader)


def test_lines_of_a_full_disk_are_dropped_and_counted() -> None:
    drops: list[tuple[str, bool]] = []
    watch_drops(lambda trouble, is_first: drops.append((trouble, is_first)))
    with open("/dev/full", "w") as full:
        sink = LogSink(full)
        for number in range(3):
            sink.write(f"{number}\n")
        assert sink.dropped_count == 3
        assert "No space left" in sink.trouble
    assert [is_first for _, is_first in drops] == [True, False, False]


def test_the_first_line_that_can_be_written_again_comes_after_how_many_are_missing(pipe: tuple[int, TextIO]) -> None:
    reader, stream = pipe
    sink = LogSink(stream)
    fill(stream.fileno())
    sink.write("lost\n")
    sink.write("lost too\n")
    assert sink.dropped_count == 2
    drain(reader)
    sink.write("heard\n")
    assert os.read(reader, 4096).decode().splitlines() == [
        "ordo: 2 lines could not be written here: [Errno 11] its reader does not read",
        "heard",
    ]
    assert (sink.dropped_count, sink.trouble) == (2, "")


def test_a_reader_that_has_stopped_is_waited_for_once() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        fill(writer)
        sink = LogSink(stream)
        start_s = time.monotonic()
        for _ in range(1_000):
            sink.write("x" * 100 + "\n")
        assert time.monotonic() - start_s < 500 * WAIT_MS / 1000, "not a thousand times"
        assert sink.dropped_count == 1_000
        os.close(reader)
        sink.write("nobody reads\n")
        assert os.strerror(errno.EPIPE) in sink.trouble


def test_a_line_that_was_torn_does_not_spoil_the_next_one(pipe: tuple[int, TextIO]) -> None:
    reader, stream = pipe
    sink = LogSink(stream)
    fill(stream.fileno(), but=4096)
    sink.write("y" * 10_000 + "\n")
    assert sink.dropped_count == 1
    got = drain(reader)
    sink.write("whole\n")
    lines = (got + os.read(reader, 4096)).decode().lstrip("x").splitlines()
    assert set(lines[0]) == {"y"} and len(lines[0]) < 10_000
    assert lines[1].startswith("ordo: 1 lines")
    assert lines[2] == "whole"


def test_a_log_in_json_says_in_json_what_is_missing(pipe: tuple[int, TextIO]) -> None:
    reader, stream = pipe
    configure_logging(json=True, stream=stream)
    fill(stream.fileno())
    get_logger().info("lost")
    drain(reader)
    get_logger().info("heard")
    missing, heard = (json.loads(line) for line in os.read(reader, 4096).splitlines())
    assert (missing["event"], missing["count"], missing["level"]) == ("log.lines_dropped", 1, "warning")
    assert "timestamp" in missing and "does not read" in missing["trouble"]
    assert heard["event"] == "heard"


def test_what_is_not_there_takes_everything() -> None:
    sink = LogSink(None)
    sink.write("a\n")
    closed = io.StringIO()
    closed.close()
    other = LogSink(closed)
    other.write("b\n")
    assert (sink.dropped_count, other.dropped_count) == (1, 1)


def test_prints_go_through_line_by_line(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as file:
        stream = SinkStream(file)
        print("a", "b", file=stream)
        print("no end", end="", file=stream)
        assert (tmp_path / "out").read_text() == "a b\n"
        stream.flush()
        assert (tmp_path / "out").read_text() == "a b\nno end"
        assert not stream.isatty()


TEXT = """
import sys
from ordo.runtime.reporting.logging import configure_program, get_logger
configure_program(json={as_json})
print("a service prints")
try:
    raise ValueError("bad \\x1b[31m name")
except ValueError:
    get_logger().exception("failed", channel="alias=\\x1b]0;owned\\x07\\nforged line")
"""


@pytest.mark.parametrize("as_json", [True, False])
def test_no_text_from_outside_reaches_a_terminal_through_the_log(as_json: bool) -> None:
    done = subprocess.run([sys.executable, "-c", TEXT.format(as_json=as_json)], capture_output=True, check=True)
    assert done.stdout == b"a service prints\n"
    assert b"\x1b" not in done.stderr and b"\x07" not in done.stderr
    assert b"ValueError: bad" in done.stderr, "the traceback is there"
    assert not any(line.startswith(b"forged") for line in done.stderr.splitlines())


def test_a_program_whose_output_is_full_ends_as_it_would() -> None:
    command = f'exec "{sys.executable}" -c "$0" >/dev/full 2>&1'
    done = subprocess.run(["bash", "-c", command, TEXT.format(as_json=True) + "sys.exit(7)"], check=False)
    assert done.returncode == 7


def fill(descriptor: int, *, but: int = 0) -> None:
    """Fills a pipe, and leaves room for `but` bytes, whole pages."""
    size = fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ)
    assert os.write(descriptor, b"x" * (size - but)) == size - but


def drain(reader: int) -> bytes:
    """All that is in a pipe."""
    found = b""
    os.set_blocking(reader, False)
    try:
        while True:
            found += os.read(reader, 1 << 20)
    except BlockingIOError:
        return found
    finally:
        os.set_blocking(reader, True)
