"""`ordo doctor` and the other members: doctors that answer each other, nodes that run, and each thing in between."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ordo.cli import run
from ordo.cluster.checks import reach
from ordo.cluster.checks.doctor import Finding, Verdict, examine
from ordo.cluster.checks.reach import ASK, SMALL_BYTES, Doctors, Probe
from ordo.cluster.settings.config import load_config
from ordo.cluster.wire.members import Member
from ordo.deploy.launcher import find_ports
from ordo.runtime.native.clock import SystemClock
from tests.background import in_background
from tests.clusters import ready_cluster
from tests.patience import patient

MTU_BYTES = 1408
TIMEOUT_S = patient(20.0)
SHORT_S = patient(1.0)
"""For what is waited for in vain while something else is answered."""


def member(member_id: int, port: int) -> Member:
    return Member(member_id, *(f"127.0.0.1:{port + index}" for index in range(5)))


def config_of(folder: Path, ports: list[int], member_id: int) -> Path:
    """node.toml of one of the members, whose first ports are given."""
    lines = ["[node]", f"member_id = {member_id}", f'data_dir = "{folder / str(member_id)}"']
    for one, port in enumerate(ports):
        lines += ["[[members]]", f"id = {one}", 'host = "127.0.0.1"', f"port = {port}"]
    path = folder / f"node{member_id}.toml"
    path.write_text("\n".join(lines))
    return path


@contextmanager
def stand_in(bound: Member, others: list[Member], clock: SystemClock | None = None) -> Iterator[Doctors]:
    """Another machine's doctor, on a thread of its own until the block is left."""
    with Doctors(bound, others, MTU_BYTES, clock) as doctors:

        def answer(is_over: threading.Event) -> None:
            while not is_over.is_set():
                doctors.run(0.05)

        with in_background(answer):
            yield doctors


def of_members(findings: list[Finding]) -> list[Finding]:
    return [one for one in findings if one.subject in ("members", "clocks")]


@pytest.fixture
def ports() -> list[int]:
    return find_ports(3)


def test_doctors_of_all_machines_answer_each_other(tmp_path: Path, ports: list[int]) -> None:
    members = [member(one, port) for one, port in enumerate(ports)]
    with ExitStack() as stack:
        for one in (1, 2):
            stack.enter_context(stand_in(members[one], [other for other in members if other.id != one]))
        findings = of_members(examine(load_config(config_of(tmp_path, ports, 0)), TIMEOUT_S))
    assert [(one.subject, one.verdict) for one in findings] == [("members", "ok"), ("clocks", "ok")] * 2
    assert "member 1: all ports answer" in findings[0].text and "member 2's clock" in findings[3].text


def test_a_doctor_that_waits_says_so_and_ends_with_its_time(
    tmp_path: Path, ports: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", "--config", str(config_of(tmp_path, ports[:2], 0)), "--reach", "0.3"]) == 1
    said = capsys.readouterr()
    assert "waiting up to 0.3 s for `ordo doctor --reach` on the machines of the other members" in said.err
    (line,) = (line for line in said.out.splitlines() if line.startswith("fail"))
    assert "member 1: neither a doctor nor a node answers at 127.0.0.1" in line
    assert f"UDP ports {ports[1]} to {ports[1] + 4}" in line


def test_without_the_option_a_cluster_that_does_not_run_yet_is_a_warning(tmp_path: Path, ports: list[int]) -> None:
    (finding,) = of_members(examine(load_config(config_of(tmp_path, ports[:2], 0))))
    assert finding.verdict is Verdict.WARN and "ordo doctor --reach 60" in finding.remedy


def test_a_port_that_is_closed_is_named(tmp_path: Path, ports: list[int]) -> None:
    listening = replace(member(1, ports[1]), log=f"127.0.0.1:{ports[2]}")
    with stand_in(listening, [member(0, ports[0])]):
        (finding, _) = of_members(examine(load_config(config_of(tmp_path, ports[:2], 0)), SHORT_S))
    assert finding.verdict is Verdict.FAIL and finding.text == f"member 1: no answer from log 127.0.0.1:{ports[1] + 2}"


def test_long_datagrams_that_are_lost_on_the_way_are_told_from_a_closed_port(
    tmp_path: Path, ports: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    send = reach._send
    monkeypatch.setattr(reach, "_send", lambda source, data, to: len(data) <= 1200 and send(source, data, to))
    with stand_in(member(1, ports[1]), [member(0, ports[0])]):
        (finding, _) = of_members(examine(load_config(config_of(tmp_path, ports[:2], 0)), SHORT_S))
    assert finding.verdict is Verdict.FAIL and "lower [cluster] mtu" in finding.remedy
    assert "datagrams of 1408 bytes are not all answered, those of 64 are" in finding.text


def test_ways_that_are_open_in_one_direction_only(
    tmp_path: Path, ports: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """First nothing that this machine sends arrives; then what the other one asks does not."""
    config = load_config(config_of(tmp_path, ports[:2], 0))
    send = reach._send
    for lost, text in (
        ((ASK, 0), "what it sends arrives here, but nothing that this machine sends is answered"),
        ((ASK, 1), "it answers, but what it sends does not arrive here at ingress, consensus, log, catchup, archive"),
    ):

        def lossy(source: socket.socket, data: bytes, to: object, lost: tuple[int, int] = lost) -> None:
            probe = Probe.decode(data)
            if probe is not None and (probe.kind, probe.sender) != lost:
                send(source, data, to)

        monkeypatch.setattr(reach, "_send", lossy)
        with stand_in(member(1, ports[1]), [member(0, ports[0])]):
            finding = of_members(examine(config, SHORT_S))[0]
        assert finding.verdict is Verdict.FAIL and text in finding.text


def test_a_clock_that_is_far_from_this_one_is_seen(tmp_path: Path, ports: list[int]) -> None:
    class Ahead(SystemClock):
        def epoch_ms(self) -> int:
            return int(super().epoch_ms()) + 5_000

    with stand_in(member(1, ports[1]), [member(0, ports[0])], Ahead()):
        (_, clock) = of_members(examine(load_config(config_of(tmp_path, ports[:2], 0)), TIMEOUT_S))
    assert clock.verdict is Verdict.WARN and "chrony" in clock.remedy
    ahead_ms = int(clock.text.removeprefix("member 1's clock is ").partition(" ms ahead")[0])
    assert 4_000 < ahead_ms < 6_000, "as exactly as the way there and back took"


def test_a_stranger_gets_no_answer_and_never_a_longer_one(ports: list[int]) -> None:
    draw = random.Random(7)
    with (
        stand_in(member(0, ports[0]), [member(1, ports[1])]) as doctors,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger,
    ):
        stranger.settimeout(TIMEOUT_S)
        good = Probe(ASK, 0, False, 1, 0, 5, 0)
        for sender, receiver, endpoint in ((9, 0, 0), (1, 1, 0), (0, 0, 0), (1, 0, 200)):
            bad = good._replace(sender=sender, receiver=receiver, endpoint=endpoint)
            stranger.sendto(bad.encode(SMALL_BYTES), ("127.0.0.1", ports[0]))
        for length in range(200):
            stranger.sendto(reach.MARK + draw.randbytes(length), ("127.0.0.1", ports[0]))
        stranger.sendto(good.encode(SMALL_BYTES), ("127.0.0.1", ports[0]))
        answer = stranger.recv(2000)
        assert len(answer) == SMALL_BYTES
        probe = Probe.decode(answer)
        assert probe is not None and probe.asked_ns == 5
        assert not doctors.paths[1].answered


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_nodes_that_run_are_found_by_a_member_that_does_not_yet(tmp_path: Path, is_encrypted: bool) -> None:
    with ready_cluster("examples.counter:Counter", root=tmp_path, encrypted=is_encrypted) as cluster:
        leader = cluster.await_leader()
        stopped, other = (one for one in cluster.member_ids if one != leader)
        here = of_members(examine(load_config(cluster.config_path(other))))
        assert [one.verdict for one in here] == [Verdict.OK] * 2 and "its node runs and answers at" in here[0].text
        (busy,) = of_members(examine(load_config(cluster.config_path(other)), SHORT_S))
        assert busy.verdict is Verdict.WARN and "this machine's node runs" in busy.text
        cluster.stop(stopped)
        left = of_members(examine(load_config(cluster.config_path(stopped)), SHORT_S))
        assert [one.verdict for one in left] == [Verdict.OK] * 2
        seen = {
            one.text.partition(":")[0]: one.verdict
            for one in of_members(examine(load_config(cluster.config_path(other))))
        }
        assert seen == {f"member {leader}": Verdict.OK, f"member {stopped}": Verdict.WARN}


def test_a_port_of_its_own_that_another_program_holds_is_said_once_more(tmp_path: Path, ports: list[int]) -> None:
    config = load_config(config_of(tmp_path, ports[:2], 0))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", ports[0] + 1))
        (finding,) = of_members(examine(config, TIMEOUT_S))
    assert finding.verdict is Verdict.FAIL and f"cannot listen at 127.0.0.1:{ports[0] + 1}" in finding.text


def test_a_cluster_of_one_has_nobody_to_reach(tmp_path: Path, ports: list[int]) -> None:
    assert of_members(examine(load_config(config_of(tmp_path, ports[:1], 0)), TIMEOUT_S)) == []
