"""A standby beside a real primary: followed encrypted, promoted, and found by clients that have both in their list."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.deploy.launcher import ROOT, LocalCluster, find_ports
from ordo.runtime.errors import OtherClusterError
from tests.cluster.integration.command import demand_one_line, ordo
from tests.cluster.integration.test_retention import FORGETFUL, log_start
from tests.clusters import STEADY, ready_cluster
from tests.patience import patient
from tests.snippets import texts_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
COUNTER = "ordo.starter.counter:Counter"
LONG_ONE = b"1".rjust(4000, b"0")
STANDBY_ID = 9
COMMANDS = [line for text in texts_of((ROOT / "docs" / "STANDBY.md").read_text(), "sh") for line in text.splitlines()]
REQUESTS = 20


class Standby:
    """A standby on this machine, of a cluster that the launcher runs."""

    def __init__(self, primary: LocalCluster, folder: Path, follows: str = "", **tables: Any) -> None:
        """`follows`: another standby, in place of the primary."""
        folder.mkdir(exist_ok=True)
        (port,) = find_ports(1)
        self._primary = primary
        self.endpoint = f"127.0.0.1:{port}"
        self._replaced = {
            "10.0.0.1:20000,10.0.0.2:20000,10.0.0.3:20000": follows or ",".join(primary.ingress_endpoints.values()),
            "orders:Orders": COUNTER,
            "standby.toml": str(folder / "standby.toml"),
        }
        self.config = folder / "standby.toml"
        members = [{"id": STANDBY_ID, "host": "127.0.0.1", "port": port}]
        node = {"member_id": STANDBY_ID, "data_dir": str(folder / "standby")}
        self.config.write_text(tomlkit.dumps({"node": node, "members": members, **tables}))
        self.log = folder / "standby.log"

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run the process, and end it as a service manager does."""
        words = [sys.executable, "-P", "-m", "ordo.cli", *self.words("run"), "--die-with-parent"]
        with self.log.open("ab") as log:
            process = subprocess.Popen(words, stdout=log, stderr=log)
        try:
            yield process
            process.terminate()
            assert process.wait(patient(60)) == 0, self.log.read_text()
        finally:
            process.kill()
            process.wait()

    def words(self, command: str) -> list[str]:
        """The words of a command of the page, with this machine's places for the page's."""
        (line,) = [one for one in COMMANDS if one.startswith(f"ordo standby {command} ")]
        return [self._replaced.get(word, word) for word in shlex.split(line)[1:]]

    def status(self) -> dict[str, Any]:
        found = ordo(*self.words("status"), "--json")
        return dict(json.loads(found.stdout)) if found.returncode == 0 else {}

    def await_status(self, is_so: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            status = self.status()
            return status if is_so(status) else None

        return self._primary.await_value(found, what, 120)

    def await_position(self, position: int) -> dict[str, Any]:
        """Wait until the log is here up to a position, executed, and known to be all that there is."""

        def is_so(told: dict[str, Any]) -> bool:
            return told.get("lag_bytes") == 0 and told["executed_position"] >= position

        return self.await_status(is_so, f"a standby with the log up to {position}")

    def promote(self, *words: str) -> subprocess.CompletedProcess[str]:
        return ordo(*self.words("promote"), *words)


def ask(client: ClusterClient, first: int) -> int:
    """Ask, and return where the log has the last of the requests."""
    for total in range(first, first + REQUESTS):
        answer = client.request(b"1", timeout_s=60)
        assert answer.payload == str(total + 1).encode()
    assert answer.log_position is not None
    return answer.log_position


def test_a_standby_goes_on_where_it_was_and_whoever_knows_more_is_told(tmp_path: Path) -> None:
    steady = ready_cluster(COUNTER, heartbeat=STEADY, member_count=1, encrypted=True)
    with steady as cluster:
        keys = cluster.client_keys
        standby = Standby(cluster, tmp_path, encryption=keys)
        both = [*cluster.ingress_endpoints.values(), standby.endpoint]
        with ClusterClient(both, settings=ClientSettings(reconnect=True, **keys)) as client:
            position = ask(client, 0)
            cluster.await_value(lambda: client.poll() * 0 or client.known_cluster.origin, "whose the client is", 60)
            with standby.running():
                told = standby.await_position(position)
                assert told["lag_seconds"] >= 0 and told["primary_position"] >= position
                demand_one_line(standby.promote(), 1, "the primary answered", "there would be two clusters")
            kept = standby.await_status(lambda one: one.get("state") == "stopped", "a standby that has ended")
            ask(client, REQUESTS)
            cluster.kill(0)

            done = standby.promote("--json")
            assert done.returncode == 0, done
            found = json.loads(done.stdout)
            assert found["position"] == kept["position"], "to the byte"
            with standby.running():
                with pytest.raises(OtherClusterError, match="is of the cluster with identity"):
                    client.request(b"1", timeout_s=60)
                with ClusterClient(both, settings=ClientSettings(**keys)) as new:
                    assert new.request(b"1", timeout_s=60).payload == str(REQUESTS + 1).encode()
                demand_one_line(standby.promote(), 1, f"was promoted before behind position={kept['position']}")


def forget(cluster: LocalCluster) -> int:
    """Write until the log does not begin at its first record any more; return the number of requests."""
    count = 0
    with ClusterClient(cluster.ingress_endpoints) as client:

        def has_forgotten() -> bool | None:
            nonlocal count
            for _ in range(50):
                client.request(LONG_ONE, timeout_s=60)
                count += 1
            return log_start(cluster, 0) > 0 or None

        cluster.await_value(has_forgotten, "a log that begins with a snapshot", 120)
    return count


def test_a_standby_begins_with_a_snapshot_and_one_of_a_standby_is_promoted_as_it_runs(tmp_path: Path) -> None:
    with ready_cluster(COUNTER, heartbeat=STEADY, member_count=1, **FORGETFUL) as cluster:
        count = forget(cluster)
        first = Standby(cluster, tmp_path / "first", cluster=FORGETFUL["cluster"])
        second = Standby(cluster, tmp_path / "second", first.endpoint, cluster=FORGETFUL["cluster"])
        with first.running():
            told = first.await_position(1)
            assert told["snapshot_position"] > 0
            with second.running():
                second.await_position(told["position"])  # the primary may have more by now: it takes snapshots
                cluster.kill(0)
                done = second.promote("--although-alive", "--json")
                assert done.returncode == 0, done
                assert json.loads(done.stdout)["position"] >= told["position"]
                with ClusterClient([first.endpoint, second.endpoint]) as client:
                    assert client.request(b"1", timeout_s=60).payload == str(count + 1).encode()
