"""Members that copy their snapshots from a standby: real processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from ordo.cluster.client.session import ClusterClient
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.deploy.launcher import ROOT, LocalCluster, find_ports
from ordo.runtime.security.tokens import hash_token, new_token
from tests.cluster.integration.agreement import await_that, counter_of, describe, errors_of
from tests.cluster.integration.copied_service import TAKEN_EVENT
from tests.cluster.integration.soak_service import STARTED_EVENT
from tests.cluster.integration.test_retention import log_start
from tests.cluster.integration.test_standby import Standby
from tests.clusters import STEADY, ready_cluster
from tests.snippets import texts_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
COPIED = "tests.cluster.integration.copied_service:Copied"
OTHERWISE = "tests.cluster.integration.copied_service:Otherwise"
SHORT = {"log_term_length": "64k", "segment_length": "64k"}
PAYLOAD_BYTES = 2000
TABLES = texts_of((ROOT / "docs" / "STANDBY.md").read_text(), "toml")
PAGE = next(tables for text in TABLES if "snapshot" in (tables := tomlkit.parse(text).unwrap()))


@dataclass
class Copying:
    """A cluster of three, and the standby that takes its snapshots, which does not run yet."""

    cluster: LocalCluster
    standby: Standby

    def await_answers(self) -> None:
        """Wait until every member has heard the standby, which runs the service."""
        words, cluster = f"the standby at {self.standby.endpoint} answers", self.cluster
        await_that(lambda: all(words in cluster.logs(one) for one in cluster.member_ids), words)
        await_that(lambda: STARTED_EVENT in self.standby.log.read_text(), "the service of the standby")

    def write_until_purged(self, is_so: Callable[[], bool] = lambda: True) -> int:
        """Write until no member has the log's beginning any more, and something else; return how many were written."""
        cluster, count = self.cluster, 0
        with ClusterClient(cluster.ingress_endpoints) as client:

            def is_purged() -> bool:
                nonlocal count
                for number in range(20):
                    client.request(number.to_bytes(PAYLOAD_BYTES, "little"), timeout_s=60)
                    count += 1
                return min(log_start(cluster, one) for one in cluster.member_ids) > 0 and is_so()

            await_that(is_purged, "logs that begin later", 120, lambda: describe(cluster))
        return count

    def count(self, counter: CounterType) -> list[int]:
        return [counter_of(self.cluster, one, counter) for one in self.cluster.member_ids]


@contextmanager
def copying(folder: Path, service: str = COPIED, patience_s: int = 60, token: str = "") -> Iterator[Copying]:
    """Start the cluster; `service` is the standby's, and `token` what the members show there."""
    (port,) = find_ports(1)
    page = {**PAGE["snapshot"], "standbys": [f"127.0.0.1:{port}"], "standby_patience_seconds": patience_s}
    given: dict[str, Any] = {}
    if token:
        (folder / "token").write_text(token)
        page["standby_token_file"] = str(folder / "token")
        given["tokens"] = [{"principal": "members", "hash": hash_token(token), "roles": ["log"]}]
    tables = {"snapshot": {"every_bytes": "256k", **page}, "retention": {"bytes": 0}}
    with ready_cluster(COPIED, heartbeat=STEADY, cluster=SHORT, tables=tables) as cluster:
        yield Copying(cluster, Standby(cluster, folder, service=service, port=port, cluster=SHORT, **given))


def test_members_copy_snapshots_of_a_standby_forget_their_logs_and_start_from_them(tmp_path: Path) -> None:
    with copying(tmp_path, token=new_token()) as copies, copies.standby.running():
        cluster = copies.cluster
        copies.await_answers()
        count = copies.write_until_purged()
        assert all(copies.count(CounterType.COPIED_SNAPSHOTS))
        assert copies.count(CounterType.SNAPSHOT_COUNT) == [0, 0, 0]
        assert copies.count(CounterType.SNAPSHOTS_INSTEAD) == [0, 0, 0]
        assert not any(TAKEN_EVENT in cluster.logs(one) for one in cluster.member_ids)
        assert TAKEN_EVENT in copies.standby.log.read_text()
        for member_id in cluster.member_ids:
            cluster.restart(member_id)
            cluster.await_leader(60)
        for member_id in cluster.member_ids:

            def starts(of: int = member_id) -> list[int]:
                return [int(str(one["position"])) for one in cluster.log_events(of, STARTED_EVENT)]

            await_that(lambda: len(starts()) == 2, f"the second start of member {member_id}")
            assert starts()[1] >= log_start(cluster, member_id) > 0
        with ClusterClient(cluster.ingress_endpoints) as client:
            assert client.query(b"", timeout_s=60).payload.split()[0] == str(count).encode()


def test_members_take_their_own_where_the_standby_has_another_state(tmp_path: Path) -> None:
    """Its copies are refused by each member, and the log does not grow because of that."""
    with copying(tmp_path, OTHERWISE, patience_s=2) as copies, copies.standby.running():
        copies.await_answers()
        refused = "is refused: its part of service 0 is of another state"
        members = copies.cluster.member_ids
        copies.write_until_purged(lambda: all(refused in errors_of(copies.cluster, one) for one in members))
        assert copies.count(CounterType.COPIED_SNAPSHOTS) == [0, 0, 0]
        assert all(copies.count(CounterType.SNAPSHOT_COUNT)) and any(copies.count(CounterType.SNAPSHOTS_INSTEAD))


def test_members_take_their_own_without_a_standby(tmp_path: Path) -> None:
    with copying(tmp_path, patience_s=1) as copies:
        copies.write_until_purged()
        assert copies.count(CounterType.COPIED_SNAPSHOTS) == [0, 0, 0]
        leader = copies.cluster.await_leader(30)
        assert counter_of(copies.cluster, leader, CounterType.SNAPSHOTS_INSTEAD) > 0
        assert "no standby of [snapshot] standbys answers this member" in copies.cluster.logs(leader)
