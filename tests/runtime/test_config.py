"""Settings, units, logs and randomness."""

import io
import json
import os
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

from ordo.runtime.errors import Category, ConfigurationError
from ordo.runtime.random import RandomSource
from ordo.runtime.reporting.logging import configure_logging, get_logger
from ordo.runtime.settings.config import (
    PLUGINS_VARIABLE,
    DurationNs,
    Settings,
    SizeBytes,
    duration_within,
    parse_duration_ns,
    parse_size_bytes,
    size_within,
    without_plugins,
)


class Log(Settings):
    term_length_bytes: SizeBytes = Field(default=65536, ge=65536, le=1 << 30)


class Node(Settings):
    member_id: int = Field(ge=0, le=999)
    heartbeat_interval_ns: DurationNs = 50_000_000
    log: Log = Log()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", 500_000_000),
        ("10s", 10**10),
        ("1us", 1000),
        ("7 ns", 7),
        ("1.5s", 1_500_000_000),
        (12, 12),
        ("1h", 36 * 10**11),
    ],
)
def test_durations(text: str | int, expected: int) -> None:
    assert parse_duration_ns(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("64k", 65536), ("16M", 1 << 24), ("1g", 1 << 30), ("1408", 1408), (9, 9), ("0.5k", 512)]
)
def test_sizes(text: str | int, expected: int) -> None:
    assert parse_size_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "5", "ms", "-1s", "5 parsecs", "1.5ns", None, True, 1.5, -1, "1,5s"])
def test_bad_durations_name_what_is_allowed(text: object) -> None:
    with pytest.raises(ValueError, match='as "500ms"'):
        parse_duration_ns(text)


def test_toml_is_read_with_units(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text('member_id = 1\nheartbeat_interval_ns = "20ms"\n[log]\nterm_length_bytes = "1m"\n')
    node = Node.from_toml(path)
    assert (node.member_id, node.heartbeat_interval_ns, node.log.term_length_bytes) == (1, 20_000_000, 1 << 20)


def test_each_wrong_key_is_one_line_with_key_value_and_what_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text('heartbeat_interval_ns = "fast"\nmember_idd = 1\n[log]\nterm_length_bytes = "1k"\n')
    with pytest.raises(ConfigurationError) as caught:
        Node.from_toml(path)
    assert caught.value.category is Category.FATAL
    assert caught.value.message.splitlines() == [
        f"{path}: member_id: missing; give it a value",
        f'{path}: heartbeat_interval_ns = \'fast\': allowed: a number and a unit, as "500ms", "10s", "1us" '
        "(ns us ms s m h)",
        f"{path}: log.term_length_bytes = 1024: Input should be greater than or equal to 65536",
        f"{path}: member_idd: unknown key; remove it or correct its spelling",
    ]


class Bounded(Settings):
    pause_ns: Annotated[DurationNs, duration_within("1ms", "60s")] = 10**6
    rate_bytes: Annotated[SizeBytes, size_within("1k", "1m", "a second", or_zero=True)] = 0
    backlog_bytes: Annotated[SizeBytes, size_within("4k")] = 4096
    logs: list[Log] = []


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"pause_ns": "2m"}, "pause_ns = '2m': allowed: 1ms to 60s"),
        ({"pause_ns": 0}, "pause_ns = 0: allowed: 1ms to 60s"),
        ({"rate_bytes": "2m"}, "rate_bytes = '2m': allowed: 0, or 1k to 1m a second"),
        ({"backlog_bytes": 0}, "backlog_bytes = 0: allowed: at least 4k"),
        ({"logs": {"term_length_bytes": 65536}}, "logs: a list of tables; write [[logs]] in place of [logs]"),
    ],
)
def test_bounds_are_told_as_they_are_written(values: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Bounded.from_mapping(values, "node.toml")
    assert caught.value.message == f"node.toml: {line}"


def test_bounds_are_included() -> None:
    bounded = Bounded.from_mapping({"pause_ns": "60s", "rate_bytes": "1m", "backlog_bytes": "4k"})
    assert (bounded.pause_ns, bounded.rate_bytes, bounded.backlog_bytes) == (60 * 10**9, 1 << 20, 4096)
    assert Bounded.from_mapping({"pause_ns": "1ms", "rate_bytes": 0}).rate_bytes == 0


def test_missing_and_broken_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot read"):
        Node.from_toml(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("a = = 1")
    with pytest.raises(ConfigurationError, match="not TOML"):
        Node.from_toml(tmp_path / "bad.toml")


def test_logs_off_a_terminal_are_json_lines_above_the_level() -> None:
    stream = io.StringIO()
    configure_logging("info", stream=stream)
    try:
        log = get_logger(member_id=2)
        log.debug("hidden")
        log.info("became leader", term_id=7)
        entry = json.loads(stream.getvalue())
        assert (entry["event"], entry["member_id"], entry["term_id"], entry["level"]) == ("became leader", 2, 7, "info")
        with pytest.raises(ConfigurationError, match="allowed debug, info"):
            configure_logging("loud")
    finally:
        configure_logging()


def test_plugins_are_left_out_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PLUGINS_VARIABLE, raising=False)
    with without_plugins():
        assert os.environ[PLUGINS_VARIABLE] == "__all__"
    assert PLUGINS_VARIABLE not in os.environ
    monkeypatch.setenv(PLUGINS_VARIABLE, "own")
    with without_plugins():
        assert os.environ[PLUGINS_VARIABLE] == "own"
    assert os.environ[PLUGINS_VARIABLE] == "own"


def test_streams_of_one_seed_repeat_and_do_not_disturb_each_other() -> None:
    first, second = RandomSource(42), RandomSource(42)
    first.stream("network").random()
    assert first.stream("election").random() == second.stream("election").random()
    assert RandomSource(42).stream("a").random() != RandomSource(42).stream("b").random()
    assert RandomSource(42).child("n0").stream("a").random() != RandomSource(42).child("n1").stream("a").random()
    assert first.stream("election") is first.stream("election")
    assert RandomSource().seed != RandomSource().seed


class Exact(Settings):
    is_on: bool = False
    count: int = 1
    port: Annotated[int | None, Field(ge=0)] = None
    share: float = 0.0
    spare: Annotated[int, Field(ge=0)] | None = None
    length: SizeBytes | None = None


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("is_on", "yes", "true or false, without quotes"),
        ("is_on", 1, "true or false"),
        ("count", True, "a whole number"),
        ("count", "7", "a whole number, without quotes"),
        ("count", 1.0, "a whole number"),
        ("port", "20000", "a whole number, without quotes"),
        ("spare", False, "a whole number"),
        ("share", "0.5", "a number, without quotes"),
        ("share", True, "a number"),
    ],
)
def test_a_value_of_another_type_is_refused_in_one_line(key: str, value: object, allowed: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Exact.from_mapping({key: value}, "node.toml")
    assert caught.value.message == f"node.toml: {key} = {value!r}: allowed: {allowed}"


def test_values_of_their_types_and_texts_of_sizes_are_taken() -> None:
    given = {"is_on": True, "count": 7, "port": 0, "share": 1, "spare": None, "length": "64k"}
    assert Exact.from_mapping(given) == Exact(is_on=True, count=7, port=0, share=1.0, spare=None, length=65536)
