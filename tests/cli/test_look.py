"""`ordo stat`, `errors` and `cluster ...` against a counters file made here, and mistakes on the command line."""

import contextlib
import os
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ordo.cli import run
from ordo.cluster.admin import orders
from ordo.cluster.admin.local_member import LocalMember
from ordo.cluster.monitoring.counters import counter_value, leader_progress
from ordo.cluster.settings.config import load_config
from ordo.cluster.wire.counters.counter_types import ControlToggle, CounterType, ModuleState, NodeRole, transfer_value
from ordo.runtime.errors import ClusterError, ClusterTimeoutError
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.counters import Counter, CountersManager
from ordo.runtime.native.error_log import DistinctErrorLog
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.transport.control.cnc import CncFile, create_cnc

RECOVERED_POSITION = 100_000


class FakeNode:
    """The counters file of a node that leads term 3, and nothing behind it."""

    def __init__(self, folder: Path) -> None:
        self.aeron_dir = folder / "aeron"
        self.config_path = folder / "node.toml"
        self.config_path.write_text(
            f'[node]\nmember_id = 1\ndata_dir = "{folder / "data"}"\naeron_dir = "{self.aeron_dir}"\n'
            + "".join(f'[[members]]\nid = {index}\nhost = "10.0.0.{index}"\nport = 9000\n' for index in range(3))
        )
        self.aeron_dir.mkdir()
        self.cnc: CncFile = create_cnc(
            FileMemoryProvider(), str(self.aeron_dir / "cnc.dat"), client_liveness_timeout_ns=10**9,
            start_timestamp_ms=0, pid=os.getpid(), counters_values_length=64 * 1024,
        )  # fmt: skip
        counters = CountersManager(self.cnc.counters_metadata, self.cnc.counters_values, SystemClock())
        values = {
            CounterType.MODULE_STATE: ModuleState.ACTIVE, CounterType.NODE_ROLE: NodeRole.LEADER,
            CounterType.CONTROL_TOGGLE: ControlToggle.NEUTRAL, CounterType.ELECTION_STATE: 17,
            CounterType.LEADERSHIP_TERM_ID: 3, CounterType.LEADER_TERM: 3, CounterType.COMMIT_POSITION: 123_456,
            CounterType.SERVICE_POSITION: 123_456, CounterType.RECOVERY_STATE: 0, CounterType.SNAPSHOT_COUNT: 0,
        }  # fmt: skip
        keys = {CounterType.RECOVERY_STATE: struct.pack("<qqqii", 2, RECOVERED_POSITION, 0, 0, 1)}
        self.counters: dict[CounterType, Counter] = {
            kind: counters.allocate(int(kind), f"label of {kind.name}", keys.get(kind, b""), value=int(value))
            for kind, value in values.items()
        }
        self.error_log = DistinctErrorLog(self.cnc.error_log, SystemClock())
        self.cnc.mark_ready(time.time_ns() // 1_000_000)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[FakeNode]:
    fake = FakeNode(tmp_path)
    yield fake
    fake.counters.clear()
    del fake.error_log
    fake.cnc.close()


def test_stat_shows_every_counter(node: FakeNode, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stat", "--dir", str(node.aeron_dir)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(node.counters)
    assert any(line.split() == ["6", "203", "123,456", "label", "of", "COMMIT_POSITION"] for line in lines)
    assert run(["stat", "--config", str(node.config_path), "--type", "1001"]) == 0
    assert capsys.readouterr().out.split() == ["5", "1001", "3", "label", "of", "LEADER_TERM"]


def test_status_names_states(node: FakeNode, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cluster", "status", "--config", str(node.config_path)]) == 0
    shown = dict(line.strip().rsplit(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert shown["state"] == "ACTIVE"
    assert shown["role"] == "LEADER"
    assert shown["election"] == "CLOSED"
    assert shown["commit position"] == "123,456"
    assert counter_value(node.aeron_dir, CounterType.LEADER_TERM) == 3


def test_a_leader_serves_once_the_first_record_of_its_term_is_committed(node: FakeNode) -> None:
    node.counters[CounterType.SERVICE_POSITION].set(123_000)
    assert leader_progress(node.aeron_dir) == (123_456, 123_000)
    node.counters[CounterType.COMMIT_POSITION].set(RECOVERED_POSITION)
    assert leader_progress(node.aeron_dir) is None
    node.counters[CounterType.COMMIT_POSITION].set(123_456)
    node.counters[CounterType.LEADER_TERM].set(-1)
    assert leader_progress(node.aeron_dir) is None
    assert leader_progress(node.aeron_dir / "absent") is None


def test_members_are_listed_with_this_node_marked(node: FakeNode, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cluster", "members", "--config", str(node.config_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.count("*") for line in lines if "10.0.0." in line] == [0, 1, 0]
    assert any("10.0.0.2 " in line and " :9000 " in line and " :9004 " in line for line in lines)


def test_errors_are_shown_with_their_count(node: FakeNode, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["errors", "--dir", str(node.aeron_dir)]) == 0
    assert capsys.readouterr().out == "no errors\n"
    for _ in range(3):
        node.error_log.record("the disk is full")
    assert run(["errors", "--dir", str(node.aeron_dir)]) == 0
    shown = capsys.readouterr().out
    assert "driver: 3 times" in shown
    assert "the disk is full" in shown


def test_snapshot_waits_until_the_leader_has_taken_it(node: FakeNode) -> None:
    toggle, count = node.counters[CounterType.CONTROL_TOGGLE], node.counters[CounterType.SNAPSHOT_COUNT]
    seen: list[int] = []

    def leader() -> None:
        while toggle.value != ControlToggle.SNAPSHOT:
            time.sleep(0.001)
        seen.append(toggle.value)
        count.set(count.value + 1)
        toggle.set(ControlToggle.NEUTRAL)

    thread = threading.Thread(target=leader)
    thread.start()
    assert run(["cluster", "snapshot", "--config", str(node.config_path)]) == 0
    thread.join()
    assert seen == [ControlToggle.SNAPSHOT]


@pytest.mark.parametrize(("arguments", "asked"), [([], ControlToggle.TRANSFER), (["--to", "0"], transfer_value(0))])
def test_transfer_waits_for_what_becomes_of_it(node: FakeNode, arguments: list[str], asked: int) -> None:
    """Here the leader stays in office; tests/cluster/node/test_orders.py has the other ends."""
    toggle = node.counters[CounterType.CONTROL_TOGGLE]
    seen: list[int] = []

    def leader() -> None:
        while toggle.value == ControlToggle.NEUTRAL:
            time.sleep(0.001)
        seen.append(toggle.value)
        toggle.set(ControlToggle.NEUTRAL)

    thread = threading.Thread(target=leader)
    thread.start()
    assert run(["cluster", "transfer", "--config", str(node.config_path), *arguments]) == 1
    thread.join()
    assert seen == [asked]


@pytest.mark.parametrize("has_taken_it", [False, True])
def test_a_snapshot_whose_leader_leaves_office(node: FakeNode, has_taken_it: bool) -> None:
    """As one does that finds out, by the snapshot itself, that its state is not that of the others."""
    toggle, count = node.counters[CounterType.CONTROL_TOGGLE], node.counters[CounterType.SNAPSHOT_COUNT]

    def leader() -> None:
        while toggle.value == ControlToggle.NEUTRAL:
            time.sleep(0.001)
        count.set(count.value + has_taken_it)
        toggle.set(ControlToggle.INACTIVE)

    thread = threading.Thread(target=leader)
    thread.start()
    lost = contextlib.nullcontext() if has_taken_it else pytest.raises(ClusterError, match="member 1 stopped leading")
    with lost:
        orders.take_snapshot(LocalMember(load_config(node.config_path)))
    thread.join()


def test_transfer_is_to_another_member(node: FakeNode, capsys: pytest.CaptureFixture[str]) -> None:
    for member_id in ("1", "3"):
        assert run(["cluster", "transfer", "--config", str(node.config_path), "--to", member_id]) == 2
        assert f"--to {member_id}: must be another member than 1: [0, 2]" in capsys.readouterr().err
    assert node.counters[CounterType.CONTROL_TOGGLE].value == ControlToggle.NEUTRAL


def test_control_is_for_a_leader_that_is_not_busy(node: FakeNode) -> None:
    config = load_config(node.config_path)
    toggle = node.counters[CounterType.CONTROL_TOGGLE]
    toggle.set(ControlToggle.INACTIVE)
    with pytest.raises(ClusterError, match="member 1 does not lead"):
        orders.take_snapshot(LocalMember(config))
    toggle.set(ControlToggle.SUSPEND)
    with pytest.raises(ClusterError, match="member 1 is suspended; have it go on first"):
        orders.shut_down(LocalMember(config))
    toggle.set(ControlToggle.SNAPSHOT)
    with pytest.raises(ClusterError, match="member 1 is busy with SNAPSHOT"):
        orders.suspend(LocalMember(config))
    toggle.set(ControlToggle.NEUTRAL)
    with pytest.raises(ClusterError, match="member 1 is not suspended"):
        orders.resume(LocalMember(config))
    with pytest.raises(ClusterTimeoutError, match=r"snapshot of member 1 did not end within 0\.05 s"):
        orders.take_snapshot(LocalMember(config), 0.05)
    assert toggle.value == ControlToggle.SNAPSHOT


def test_a_node_without_heartbeat_does_not_run(node: FakeNode, capsys: pytest.CaptureFixture[str]) -> None:
    node.cnc.mark_ready(time.time_ns() // 1_000_000 - 60_000)
    assert run(["cluster", "status", "--config", str(node.config_path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("ordo: member 1 is not running on this machine")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "status", "what"),
    [
        (["nonsense"], 2, "No such command 'nonsense'"),
        (["node"], 2, "Missing option '--config'"),
        (["completion"], 2, "Missing argument 'shell'. Choose from: bash, zsh, fish"),
        (["node", "--config", "absent.toml"], 2, "absent.toml"),
        (["stat"], 2, "give either --config node.toml or --dir"),
        (["stat", "--dir", "/absent"], 1, "no running node in /absent"),
        (["demo", "--orders", "0"], 2, "--orders"),
        (["demo", "--itch", "absent.bin"], 2, "cannot read ITCH file absent.bin"),
        (["bench", "rtt", "--json", "/absent/figures.json"], 2, "/absent/figures.json: No such file or directory"),
        (["bench", "rtt", "--json", "/"], 2, "--json /: Is a directory; give a file"),
    ],
)
def test_mistakes_are_one_line_and_a_status(
    arguments: list[str], status: int, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == status
    error = capsys.readouterr().err
    assert what in error
    assert error.startswith("ordo: ")
    assert error.count("\n") == 1


def test_pipeline_is_handed_on_with_all_its_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "audit", "--help"]) == 0
    assert "ordo pipeline audit" in capsys.readouterr().out
    assert run(["pipeline", "audit", "--nonsense", "x"]) == 2
    assert "--nonsense" in capsys.readouterr().err


def test_a_package_that_is_missing_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ordo.pipeline.pipeline_commands", None)
    assert run(["pipeline", "audit"]) == 7
    assert (
        capsys.readouterr().err
        == "ordo: ordo.pipeline.pipeline_commands is not installed: pip install 'ordo-sequencer[pipeline]'\n"
    )


def test_a_wrong_setting_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "node.toml"
    config.write_text(
        '[node]\nmember_id = 0\ndata_dir = "x"\nsync = "sometimes"\n[[members]]\nid = 0\nhost = "a"\nport = 1\n'
    )
    assert run(["node", "--config", str(config)]) == 2
    error = capsys.readouterr().err
    assert "sync" in error
    assert "sometimes" in error
    assert error.count("\n") == 1
