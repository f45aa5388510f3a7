"""A cluster of three and its standby in another region, 80 ms away over a line that loses one datagram in a hundred."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from ordo.archive.segments.catalog import Catalog
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.wire.streams import LOG_STREAM_ID
from ordo.deploy.launcher import ROOT, LocalCluster
from ordo.follow.entries import EntryKind, decode_entry
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.security.tokens import hash_token
from tests.cluster.integration.test_rejoin import rejoin
from tests.cluster.integration.test_standby import CALLER, COUNTER, TOKEN, Callers, Standby
from tests.clusters import STEADY, await_ready
from tests.faults.logs import HEADER, HEADER_LENGTH, frames_of, log_end, log_files, offsets
from tests.faults.regions import OTHER, PRIMARY, Regions

pytestmark = [
    pytest.mark.slow,
    pytest.mark.root,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("executed_nodes"),
]
SERVICE = "tests.cluster.integration.soak_service:Tally"
RATE = int(os.environ.get("REGION_RATE", "20000"))
LOAD_S = 5.0
SWITCHES = 10
Record = Callable[[str, object], None]


@contextmanager
def primary_of(path: Path, service: str, **options: object) -> Iterator[tuple[Regions, LocalCluster]]:
    """A cluster of three in the first region."""
    with ExitStack() as stack:
        regions = Regions()
        stack.callback(regions.close)
        cluster = LocalCluster(
            service,
            root=path / "primary",
            hosts=dict.fromkeys(range(3), regions.address(PRIMARY)),
            prefixes=dict.fromkeys(range(3), regions.prefix(PRIMARY)),
            cluster={**STEADY},
            **options,  # type: ignore[arg-type]
        )
        stack.enter_context(cluster)
        await_ready(cluster)
        yield regions, cluster


class PacedLoad:
    """Clients in a region, until they are killed."""

    def __init__(self, regions: Regions, endpoints: str, path: Path) -> None:
        self._path = path
        words = [sys.executable, "-P", "-m", "tests.faults.paced_load", str(RATE), endpoints]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        with path.open("wb") as file:
            self._process = subprocess.Popen(
                [*regions.prefix(PRIMARY), *words], stdout=file, stderr=subprocess.STDOUT, env=environment
            )

    def answered(self) -> tuple[int, float]:
        """How many were answered, and in how many seconds."""
        assert self._process.poll() is None, self._path.read_text()
        lines = self._path.read_text().rpartition("\n")[0].splitlines()
        count, seconds = lines[-1].split() if lines else ("0", "0")
        return int(count), float(seconds)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Frame(NamedTuple):
    """A record of a log as it is on disk."""

    position: int
    content: bytes

    @property
    def is_message(self) -> bool:
        _, _, _, frame_type, _ = HEADER.unpack_from(self.content)
        entry = decode_entry(self.position, self.content[HEADER_LENGTH:]) if frame_type else None
        return entry is not None and entry.kind is EntryKind.MESSAGE


def frames_on_disk(data_dir: Path, until: int | None = None) -> list[Frame]:
    """All records of the log of a node that does not run, or those before a position."""
    archive = data_dir / "archive"
    catalog = Catalog.open(FileStorage(open_lmdb), str(archive), read_only=True)
    recording = [one for one in catalog if one.stream_id == LOG_STREAM_ID][-1]
    catalog.close()
    start = recording.start_position
    log = log_files(archive, recording.recording_id)[start % recording.segment_length :]
    frames = list(frames_of(log, log_end(log) if until is None else until - start))
    return [Frame(start + offset, frame) for offset, frame in zip(offsets(frames), frames, strict=False)]


def first_answer(endpoint: str) -> float:
    """Offer a message to the new cluster until it is answered; return when it was."""
    answers: list[float] = []
    payload = (1 << 40).to_bytes(8, "little") * 8
    with ClusterClient([endpoint], on_message=lambda *_: answers.append(time.monotonic())) as client:
        while not client.offer(payload):
            client.poll()
        while not answers:
            client.poll()
    return answers[0]


def executed(endpoint: str) -> int:
    with ClusterClient([endpoint]) as client:
        return int(client.query(b"", timeout_s=60).payload.split()[0])


@pytest.mark.parametrize("unheard", [0, 10_000])
def test_the_told_loss_of_a_region_is_the_real_one(tmp_path: Path, record_property: Record, unheard: int) -> None:
    """`unheard`: so many messages are acknowledged after the line was cut, before the region is gone."""
    with primary_of(tmp_path, SERVICE, tables={"snapshot": {"every_seconds": 3}}) as (regions, cluster):
        standby = Standby(cluster, tmp_path / "other", host=regions.address(OTHER), service=SERVICE)
        with regions.enter(OTHER), standby.running():
            standby.await_status(lambda one: (one.get("lag_seconds") or 99) < 2, "a standby that follows closely")
            load = PacedLoad(regions, ",".join(cluster.ingress_endpoints.values()), tmp_path / "load.txt")
            cluster.await_value(lambda: load.answered()[1] > LOAD_S or None, "clients that are answered", 300)
            followed = standby.status()
            processes = [cluster.pid(one) for one in cluster.member_ids]
            if unheard:
                regions.partition([[PRIMARY], [OTHER]])
                heard = load.answered()[0]
                cluster.await_value(lambda: load.answered()[0] > heard + unheard or None, "clients unheard of", 60)
            for pid in processes:
                os.kill(pid, signal.SIGKILL)
            acknowledged, seconds = load.answered()
            load.kill()
            standby.await_status(lambda one: (one.get("heard_seconds_ago") or 0) > 4, "a primary that is silent")

            ordered_s = time.monotonic()
            done = standby.promote("--json")
            assert done.returncode == 0, (done, standby.log.read_text())
            answer_s = first_answer(standby.endpoint) - ordered_s
            total = executed(standby.endpoint) - 1
        told = json.loads(done.stdout)
        logs = [frames_on_disk(cluster.data_dir(one)) for one in cluster.member_ids]
        kept = frames_on_disk(standby.config.parent / "standby", told["position"])
        lost = demand_told_loss(told, logs, kept, total, acknowledged)
        assert lost >= unheard
        figures = {
            "requests_per_s": round(acknowledged / seconds),
            "lag_seconds under load": followed.get("lag_seconds"),
            "acknowledged": acknowledged,
            "lost messages": lost,
            "told position": told["position"],
            "lost for certain, bytes": told["lost_bytes"],
            "first answer after the order, s": round(answer_s, 2),
        }
        print(f"\n{figures}")
        for name, value in figures.items():
            record_property(name, value)


def demand_told_loss(
    told: dict[str, int], logs: list[list[Frame]], kept: list[Frame], total: int, acknowledged: int
) -> int:
    """Compare what the promotion told with the logs of the killed members; return how many messages are lost."""
    committed = sorted(logs, key=len)[1]  # what two of three have: no more was acknowledged
    position, start = told["position"], kept[0].position  # where a snapshot was that it began with
    assert not any(one.is_message for one in committed if one.position < start), "the clients came later"
    for log in logs:
        common = [one for one in log if start <= one.position < position]
        assert common == kept[: len(common)], "record for record"
    assert len([one for one in committed if start <= one.position < position]) == len(kept), "nothing is missing"
    lost = [one for one in committed if one.position >= position]
    end = lost[-1].position + len(lost[-1].content) if lost else position
    assert told["lost_bytes"] == max(0, told["primary_position"] - position)
    assert told["primary_position"] <= -(-end // 32) * 32, "lost for certain is what the primary had"
    assert total == sum(one.is_message for one in kept), "each message before the position is executed once"
    lost_messages = sum(one.is_message for one in lost)
    assert total + lost_messages >= acknowledged, "what was acknowledged is here, or in the told interval"
    return lost_messages


# -- planned switches --------------------------------------------------------------------------------------------------

TOKENS = [
    {"principal": "ops", "hash": hash_token(TOKEN), "roles": ["operator", "log"]},
    {"principal": "callers", "hash": hash_token(CALLER), "roles": ["ingress"]},
]


def await_answers(cluster: LocalCluster, callers: Callers, count: int) -> None:
    """Wait until callers have more than so many answers in all."""
    cluster.await_value(lambda: callers.count() > count or None, "answers of the standby", 60)


def test_ten_switches_in_a_row_lose_nothing_and_double_nothing(tmp_path: Path, record_property: Record) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    with primary_of(tmp_path, COUNTER, tables={"tokens": TOKENS}) as (regions, cluster), ExitStack() as stack:
        nodes = [
            Standby(cluster, tmp_path / str(place), host=regions.address(place), member_id=9 + place, tokens=TOKENS)
            for place in (OTHER, PRIMARY)
        ]
        endpoints = [*cluster.ingress_endpoints.values(), *(one.endpoint for one in nodes)]
        with regions.enter(PRIMARY):
            channel = f"aeron:udp?endpoint={regions.address(PRIMARY)}:0"
            callers = stack.enter_context(Callers(endpoints, 3, egress_channel=channel))
        running: list[ExitStack] = []
        for number in range(SWITCHES):
            node, former = nodes[number % 2], nodes[(number + 1) % 2]
            place = (OTHER, PRIMARY)[number % 2]
            with regions.enter(place):
                if number:
                    node.follow(former.endpoint)
                if number > 1:
                    assert (done := rejoin(node, former.endpoint, f"--token-file {token}")).returncode == 0, done
                own = stack.enter_context(ExitStack())
                own.enter_context(node.running("--token-file", str(token)))
                node.await_status(lambda one: (one.get("lag_seconds") or 99) < 2, "a standby that follows closely")
                count = callers.count()
                done = node.switch("--json", "--token-file", str(token))
                assert done.returncode == 0, (done, node.log.read_text())
                told = json.loads(done.stdout)
                assert told["is_switch"] and told["lost_bytes"] == 0
                await_answers(cluster, callers, count + 20)
            if running:
                running.pop().close()
            running.append(own)
        totals = callers.end()
        assert totals == list(range(1, len(totals) + 1)), "each request was executed once, none is missing"
        times = sorted(when for when, _ in callers.answers)
        pauses = sorted(after - before for before, after in itertools.pairwise(times))[-SWITCHES:]
        print(f"\n{len(totals)} requests, {SWITCHES} switches; longest pauses {[round(one, 2) for one in pauses]} s")
        record_property("pauses_s", [round(one, 3) for one in pauses])
