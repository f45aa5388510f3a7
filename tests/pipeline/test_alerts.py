"""Alerts: gaps, rates and terms are found wherever tasks and batches cut the log; the webhook gets each one."""

from __future__ import annotations

import errno
import json
import random
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import ordo
from ordo.pipeline.alerts.alerts import Alert, Rules, Watch, summarize
from ordo.pipeline.alerts.silence import Arrivals
from ordo.pipeline.alerts.state_watch import StateWatch
from ordo.pipeline.alerts.watch import STATE_NAME, WAITING, BatchWatch, stream_of, watch
from ordo.pipeline.alerts.webhook import AUTHORIZATION, Webhook, tell_alert
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.export.target import LocalFile
from ordo.pipeline.generate import RecordingBuilder, encode_record, new_term, session_message
from ordo.pipeline.pipeline_commands import app
from tests.pipeline.exchange import marker

START_MS = 1_700_000_000_000
RULES = Rules(gap_us=5_000_000, rate_min=2, rate_max=50, window_us=1_000_000, terms=True)


def write_log(folder: Path, seconds: list[int]) -> str:
    """A log with so many messages in each second; every message at its own millisecond."""
    directory = str(folder / "node0" / "archive")
    with RecordingBuilder(directory) as builder:
        builder.append(new_term(0, 0, START_MS, 0, 1))
        for second, count in enumerate(seconds):
            for number in range(count):
                builder.append(session_message(0, 1, START_MS + second * 1000 + number * 1000 // count, b"x"))
    return directory


def batches_of(folder: str) -> list[pa.RecordBatch]:
    return list(ordo.read(folder, columns=list(RULES.columns)).batches())


def cut(batch: pa.RecordBatch, places: list[int]) -> list[pa.RecordBatch]:
    bounds = [0, *sorted(places), batch.num_rows]
    return [batch.slice(first, last - first) for first, last in pairwise(bounds)]


def alerts_of(parts: list[list[pa.RecordBatch]], rules: Rules) -> list[Alert]:
    """Each part is a batch of the stream, whose every record batch is a task; the state goes through JSON between."""
    state: dict[str, Any] = {}
    found = []
    for part in parts:
        watch = Watch(rules, state)
        found += watch.take(summary for task in part for summary in summarize([task], rules))
        state = json.loads(json.dumps(watch.state))
    return found


def test_gaps_rates_and_terms_are_found(tmp_path: Path) -> None:
    folder = write_log(tmp_path, [10, 10, 60, 70, 10, 1, 10, *[0] * 8, 10, 10])
    found = alerts_of([batches_of(folder)], RULES)
    assert [(alert["kind"], alert["text"].split(":")[0]) for alert in found] == [
        ("gap", "no record for 8.100 s before position " + str(found[0]["position"])),
        ("term", "leadership term 0 began"),
        ("rate", "the rate is high"), ("rate", "the rate is within its bounds again after it was high"),
        ("rate", "the rate is low"), ("rate", "the rate is within its bounds again after it was low"),
        ("rate", "the rate is low"), ("rate", "the rate is within its bounds again after it was low"),
    ]  # fmt: skip
    assert "70.0 messages/s in 2 s, the bound is 50" in found[2]["text"]
    assert found[2]["time"] == "2023-11-14T22:13:22+00:00"


@settings(max_examples=60, deadline=None)
@given(places=st.lists(st.integers(0, 170), max_size=12), batches=st.integers(1, 6))
def test_where_the_log_is_cut_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, places: list[int], batches: int
) -> None:
    folder = write_log(tmp_path_factory.mktemp("log"), [10, 10, 60, 70, 10, 1, 10, *[0] * 8, 10])
    whole = batches_of(folder)
    assert len(whole) == 1 and whole[0].num_rows == 182
    tasks = cut(whole[0], places)
    chance = random.Random(len(places))
    parts: list[list[pa.RecordBatch]] = [[]]
    for task in tasks:
        parts[-1].append(task)
        if len(parts) < batches and chance.random() < 0.5:
            parts.append([])
    expected = [(alert["id"], alert["kind"], alert["time"]) for alert in alerts_of([whole], RULES)]
    found = [(alert["id"], alert["kind"], alert["time"]) for alert in alerts_of(parts, RULES)]
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_a_window_that_was_not_seen_whole_is_not_judged(tmp_path: Path) -> None:
    folder = write_log(tmp_path, [10, 10])
    (batch,) = batches_of(folder)
    late = batch.slice(10)  # one message of the first second
    assert alerts_of([[late]], Rules(rate_min=5, window_us=1_000_000)) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [({"gap_us": 0}, "above 0"), ({"window_us": -1}, "above 0"), ({"rate_min": 3, "rate_max": 2}, "is above rate-max")],
)
def test_rules_that_cannot_hold_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(PipelineError, match=words):
        Rules(**options)


class Receiver:
    """A webhook that refuses the first so many calls."""

    def __init__(self, refusals: int = 0) -> None:
        self.taken: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                nonlocal refusals
                refusals -= 1
                if refusals < 0:
                    receiver.taken.append(json.loads(body))
                    receiver.headers.append(dict(self.headers))
                self.send_response(204 if refusals < 0 else 503)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/alerts"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver(refusals=2)
    yield made
    made.close()


ALERT: Alert = {"id": "node0/0:gap:96", "kind": "gap", "log": "node0/0", "position": 96, "time": None, "text": "late"}


def test_a_webhook_that_refuses_is_called_again(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(AUTHORIZATION, "Bearer secret")
    waits: list[float] = []
    Webhook(receiver.url, sleep=waits.append)(ALERT)
    assert receiver.taken == [ALERT] and waits == [0.5, 1.0]
    assert receiver.headers[0]["Idempotency-Key"] == ALERT["id"]
    assert receiver.headers[0]["Authorization"] == "Bearer secret"


def test_a_webhook_that_is_not_there_is_an_error_in_the_end() -> None:
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    call = Webhook("http://127.0.0.1:9/", timeout_s=20, sleep=sleep, now=lambda: clock[0])
    with pytest.raises(PipelineError, match=r"did not take alert node0/0:gap:96 in 20 s: .*; it comes again"):
        call(ALERT)
    assert clock[0] > 10
    with pytest.raises(PipelineError, match=r"write http://... or https://..."):
        Webhook("ftp://host/")


def test_an_output_that_cannot_be_written_keeps_no_alert_from_the_webhook(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def write(self, _: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stdout", Full())
    tell_alert(ALERT, Webhook(receiver.url, sleep=lambda _: None))
    assert receiver.taken == [ALERT]
    with pytest.raises(OSError, match="No space left"):
        tell_alert(ALERT, None)


def write_snapshot(directory: str, position: int, state: bytes) -> None:
    with RecordingBuilder(directory, stream_id=106) as builder:
        for message in (marker(0, position), state, marker(2, position)):
            builder.append(message)


def test_members_whose_states_differ_are_told_once(tmp_path: Path) -> None:
    folders = []
    for node, state in enumerate((b"ab", b"ab", b"aX")):
        folder = str(tmp_path / f"node{node}" / "archive")
        write_snapshot(folder, 960, b"same")
        write_snapshot(folder, 1920, encode_record(101, b"") + state)
        folders.append(folder)
    states = StateWatch(folders)
    (alert,) = states.look()
    assert alert["position"] == 1920 and alert["digests"]["node0"] == alert["digests"]["node1"]
    assert alert["digests"]["node2"] != alert["digests"]["node0"]
    assert states.look() == []


def test_a_damaged_snapshot_is_told_once_and_not_passed_over(tmp_path: Path) -> None:
    folders = [str(tmp_path / f"node{node}" / "archive") for node in range(2)]
    for folder in folders:
        write_snapshot(folder, 960, b"same")
    (segment,) = Path(folders[1]).glob("*.rec")
    with open(segment, "r+b") as file:
        file.seek(40)
        file.write(b"\xff\xff")
    states = StateWatch(folders)
    (alert,) = states.look()
    assert (alert["kind"], alert["id"], alert["position"]) == ("state", "state:node1/0:damaged", 0)
    assert alert["text"].startswith("a snapshot is damaged, and was not compared: damaged segment: ")
    assert states.look() == []


@pytest.mark.spark
@pytest.mark.thorough
def test_a_stream_goes_on_where_it_ended_and_loses_no_alert(spark: SparkSession, tmp_path: Path) -> None:
    folder = write_log(tmp_path, [10, 10, 60, 70, 10, 1, 10, *[0] * 8, 10, 10])
    expected = {alert["id"] for alert in alerts_of([batches_of(folder)], RULES)}
    told: list[str] = []
    left = [3]

    def tell(alert: Alert) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise PipelineError("nobody listens")
        told.append(alert["id"])

    options = {"startingPosition": "earliest", "maxRecordsPerTrigger": 25}
    with pytest.raises(Exception, match="nobody listens"):
        watch(stream_of(spark, [folder], options, RULES), str(tmp_path / "checkpoint"), RULES, tell, once=True)
    assert len(told) == 2 and len(expected) == 8
    watch(stream_of(spark, [folder], options, RULES), str(tmp_path / "checkpoint"), RULES, tell, once=True)
    assert set(told) == expected
    before = len(told)
    watch(stream_of(spark, [folder], options, RULES), str(tmp_path / "checkpoint"), RULES, tell, once=True)
    assert len(told) == before


def test_silence_is_told_once_until_something_comes() -> None:
    arrivals = Arrivals(5_000_000, "data/node0/archive", 100.0)
    assert arrivals.look(105.0) == []
    (alert,) = arrivals.look(106.0)
    assert (alert["id"], alert["text"]) == (
        "data/node0/archive:silence:-1", "nothing came since watching began for 6.0 s",
    )  # fmt: skip
    assert arrivals.look(200.0) == []
    assert arrivals.take({"node0/0": 960}, 201.0) == [] and arrivals.look(206.0) == []
    (alert,) = arrivals.look(207.0)
    assert (alert["id"], alert["log"], alert["position"]) == ("node0/0:silence:960", "node0/0", 960)


def test_one_of_several_logs_is_silent() -> None:
    """A member that is gone, while the others go on: their batches come without it."""
    arrivals = Arrivals(5_000_000, "folders", 100.0)
    found = [arrivals.take({"node0/0": 96 * second, "node1/0": 96}, 100.0 + second) for second in range(1, 9)]
    assert [alert["log"] for alerts in found for alert in alerts] == ["node1/0"]


def test_a_watch_that_starts_again_knows_how_long_it_has_been_silent() -> None:
    arrivals = Arrivals(5_000_000, "x", 100.0)
    arrivals.take({"node0/0": 960}, 101.0)
    kept = json.loads(json.dumps(arrivals.state))
    again = Arrivals(5_000_000, "x", 107.0, kept)
    assert [alert["id"] for alert in again.look(107.0)] == ["node0/0:silence:960"]
    told = json.loads(json.dumps(again.state))
    assert Arrivals(5_000_000, "x", 300.0, told).look(300.0) == [], "told before"
    assert Arrivals(5_000_000, "x", 50.0, kept).look(54.0) == [], "the clock was set back by a minute"


class Rows:
    """A batch of a stream, whose tasks take their time."""

    def __init__(self, rows: list[Any], work: Callable[[], None]) -> None:
        self._rows, self._work = rows, work

    def mapInArrow(self, *_: Any) -> Rows:
        return self

    def collect(self) -> list[Any]:
        self._work()
        return self._rows


def test_slow_batches_are_no_silence_and_the_checkpoint_keeps_when_something_came(tmp_path: Path) -> None:
    """A log that is written all the time was once called silent while a batch of it took longer than the gap."""
    folder = write_log(tmp_path, [3] * 12)
    batches = [part for batch in batches_of(folder) for part in cut(batch, [12, 24])]
    target, told, now = LocalFile(tmp_path / STATE_NAME), list[Alert](), [1000.0]
    rules = Rules(gap_us=5_000_000)
    idle, busy = ({"message": text, "isDataAvailable": text != WAITING} for text in (WAITING, "Processing new data"))

    def work() -> None:
        now[0] += 20.0

    def open_watch() -> BatchWatch:
        return BatchWatch(target, folder, rules, told.append, lambda: now[0], hears_silence=True)

    def rows_of(batch: pa.RecordBatch) -> Any:
        summaries = summarize([batch], rules)
        return Rows([SimpleNamespace(summary=json.dumps(asdict(summary))) for summary in summaries], work)

    batch_watch = open_watch()
    for number, batch in enumerate(batches):
        batch_watch.take(rows_of(batch), number)
        batch_watch.look(lambda: busy)
        batch_watch.look(lambda: {**idle, "isDataAvailable": True})
    assert told == []
    batch_watch = open_watch()
    batch_watch.look(lambda: idle)
    (alert,) = told
    assert alert["kind"] == "silence" and alert["text"].endswith("for 20.0 s"), "since the last batch began"
    open_watch().look(lambda: idle)
    assert len(told) == 1, "the checkpoint knows that it was told"


@pytest.mark.spark
@pytest.mark.thorough
def test_a_stream_that_finds_nothing_is_silent_after_its_restart_too(spark: SparkSession, tmp_path: Path) -> None:
    folder = write_log(tmp_path, [3])
    checkpoint = str(tmp_path / "checkpoint")
    told: list[Alert] = []

    class Heard(Exception):
        """Ends the watch, as an interrupt does."""

    def tell(alert: Alert) -> None:
        told.append(alert)
        raise Heard

    rules = Rules(gap_us=1_000_000)
    watch(
        stream_of(spark, [folder], {"startingPosition": "earliest"}, rules), checkpoint, rules, told.append, once=True
    )
    assert told == []
    with pytest.raises(Heard):
        watch(stream_of(spark, [folder], {"startingPosition": "earliest"}, rules), checkpoint, rules, tell)
    (position,) = (row["position"] for row in batches_of(folder)[-1].slice(3).to_pylist())
    assert [alert["id"] for alert in told] == [f"node0/0:silence:{position}"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [([], "nothing to watch"), (["--gap", "-1"], "above 0"), (["--gap", "1", "--webhook", "localhost"], "write http")],
)
def test_mistakes_are_one_line(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = CliRunner().invoke(app, ["alerts", "archive", "--checkpoint", str(tmp_path / "c"), *arguments])
    assert isinstance(done.exception, PipelineError) and words in str(done.exception)
