"""A standby beside a real primary: followed encrypted, promoted, and found by clients that have both in their list."""

from __future__ import annotations

import itertools
import json
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from ordo.cluster.admin.remote import RemoteCluster
from ordo.cluster.client.operator import MemberLook
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.monitoring.counters import read_counters
from ordo.cluster.settings.config import load_config
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.deploy.launcher import ROOT, LocalCluster, find_ports
from ordo.runtime.errors import OtherClusterError
from ordo.runtime.security.tokens import hash_token, new_token
from ordo.transport.secure.settings import Encryption
from tests.cluster.integration.command import demand_one_line, order, ordo
from tests.cluster.integration.test_retention import FORGETFUL, log_start
from tests.clusters import STEADY, ready_cluster
from tests.patience import patient
from tests.snippets import texts_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
COUNTER = "ordo.starter.counter:Counter"
LONG_ONE = b"1".rjust(4000, b"0")
STANDBY_ID = 9
COMMANDS = [line for text in texts_of((ROOT / "docs" / "STANDBY.md").read_text(), "sh") for line in text.splitlines()]
PRIMARY = "10.0.0.1:20000,10.0.0.2:20000,10.0.0.3:20000"
REQUESTS = 20
TOKEN, CALLER = new_token(), new_token()


class Standby:
    """A standby on this machine, of a cluster that the launcher runs."""

    def __init__(
        self,
        primary: LocalCluster,
        folder: Path,
        follows: str = "",
        member_id: int = 0,
        host: str = "127.0.0.1",
        service: str = COUNTER,
        port: int = 0,
        **tables: Any,
    ) -> None:
        """`follows`: another standby, in place of the primary. `port`: one that was found for it before."""
        folder.mkdir(exist_ok=True)
        port = port or find_ports(1)[0]
        self._primary = primary
        self.endpoint = f"{host}:{port}"
        self._replaced = {
            PRIMARY: follows or ",".join(primary.ingress_endpoints.values()),
            "orders:Orders": service,
            "standby.toml": str(folder / "standby.toml"),
        }
        self.config = folder / "standby.toml"
        own_id = member_id or STANDBY_ID + bool(follows)
        members = [{"id": own_id, "host": host, "port": port}]
        node = {"member_id": own_id, "data_dir": str(folder / "standby")}
        self.config.write_text(tomlkit.dumps({"node": node, "members": members, **tables}))
        self.log = folder / "standby.log"

    def follow(self, endpoints: str) -> None:
        """Follow another cluster from the next start on."""
        self._replaced[PRIMARY] = endpoints

    @contextmanager
    def running(self, *more: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run the process, and end it as a service manager does."""
        words = [sys.executable, "-P", "-m", "ordo.cli", *self.words("run"), *more, "--die-with-parent"]
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
        """The words of a command of the page, its first one, with this machine's places for the page's."""
        line = next(one for one in COMMANDS if one.startswith(f"ordo standby {command} "))
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

    def switch(self, *words: str) -> subprocess.CompletedProcess[str]:
        return ordo(*self.words("switch"), *words)

    def promote(self, *words: str) -> subprocess.CompletedProcess[str]:
        return ordo(*self.words("promote"), *words)


def ask(client: ClusterClient, first: int) -> int:
    """Ask, and return where the log has the last of the requests."""
    for total in range(first, first + REQUESTS):
        answer = client.request(b"1", timeout_s=60)
        assert answer.payload == str(total + 1).encode()
    assert answer.log_position is not None
    return answer.log_position


def demand_shown(standby: Standby, keys: dict[str, Any]) -> None:
    """The console and `ordo top` see how far it is behind, and as much is on its way to it as to a follower."""
    with RemoteCluster(standby.endpoint, encryption=Encryption.chosen(**keys)) as cluster:
        look = cluster.look_at(standby.endpoint, patient(20))
    assert isinstance(look, MemberLook), look
    assert look.get("standby_lag_bytes") >= 0 and look.get("standby_lag_ms") >= 0
    counters = read_counters(load_config(standby.config).aeron_dir)
    labels = [one.label for one in counters]
    assert any(one.startswith("rcv-pos") and "rcv-wnd=2097152" in one for one in labels), labels
    of_standby = {one.type_id: one.value for one in counters if one.type_id in range(220, 233)}
    assert of_standby.keys() == {CounterType.STANDBY_HEARTBEATS, CounterType.STANDBY_SOURCE_MEMBER}, of_standby
    assert of_standby[CounterType.STANDBY_HEARTBEATS] > 0 == of_standby[CounterType.STANDBY_SOURCE_MEMBER]


@pytest.mark.thorough
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
                demand_shown(standby, keys)
                demand_one_line(standby.promote(), 1, "the primary answered", "there would be two clusters")
            kept = standby.await_status(lambda one: one.get("state") == "stopped", "a standby that has ended")
            ask(client, REQUESTS)
            cluster.kill(0)

            done = standby.promote("--json")
            assert done.returncode == 0, done
            found = json.loads(done.stdout)
            assert found["position"] == kept["position"], "to the byte"
            with standby.running():
                with pytest.raises(OtherClusterError, match=f"lacks {REQUESTS} requests from") as told_lost:
                    client.request(b"1", timeout_s=60)
                assert told_lost.value.kept_position == kept["position"]
                assert told_lost.value.lost_requests == tuple(range(REQUESTS + 1, 2 * REQUESTS + 1))
                with ClusterClient(both, settings=ClientSettings(**keys)) as new:
                    assert new.request(b"1", timeout_s=60).payload == str(REQUESTS + 1).encode()
                demand_one_line(standby.promote(), 1, f"was promoted before behind position={kept['position']}")


def test_a_client_that_stays_is_told_of_a_number_that_an_earlier_answer_was_given_to(tmp_path: Path) -> None:
    """Both logs have the request with this id, and the answer says where. It waited for its next answer for ever."""
    with ready_cluster(COUNTER, heartbeat=STEADY, member_count=1) as cluster:
        standby = Standby(cluster, tmp_path)
        both = [*cluster.ingress_endpoints.values(), standby.endpoint]
        with ClusterClient(both, settings=ClientSettings(reconnect=True)) as client:
            cluster.await_value(lambda: client.poll() * 0 or client.known_cluster.origin, "whose the client is", 60)
            first = client.request(b"1", id=b"one", timeout_s=60)
            with standby.running():
                standby.await_position(first.log_position)
            again = client.request(b"1", id=b"one", timeout_s=60)
            assert (again.log_position, again.payload) == (first.log_position, first.payload)
            cluster.kill(0)
            assert standby.promote().returncode == 0
            with standby.running():
                with pytest.raises(OtherClusterError, match="lacks request 2, which was answered before") as told:
                    client.request(b"1", timeout_s=60)
                assert told.value.lost_requests == (2,)
                with ClusterClient(both) as new:
                    assert new.request(b"1", id=b"one", timeout_s=60).payload == first.payload
                    assert new.request(b"1", timeout_s=60).payload == b"2", "the other one was not executed"


KILLED = """
import os, sys
from ordo import ClientSettings, ClusterClient

client = ClusterClient([sys.argv[1]], settings=ClientSettings(journal=sys.argv[2]))
for count in (3, 4):
    for answer in client.request_many([b"1"] * count):
        print(answer.log_position, flush=True)
    sys.stdin.readline()
os.kill(os.getpid(), 9)
"""


def test_a_client_that_was_killed_is_told_which_answered_requests_are_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program of the page. It waited for an answer for ever: the new cluster missed the numbers before."""
    (program,) = texts_of((ROOT / "docs" / "STANDBY.md").read_text(), "python")
    journal = tmp_path / "orders.journal"
    with ready_cluster(COUNTER, heartbeat=STEADY, member_count=1) as cluster:
        standby = Standby(cluster, tmp_path / "standby")
        words = [sys.executable, "-P", "-c", KILLED, cluster.ingress_endpoints[0], str(journal)]
        client = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert client.stdin is not None and client.stdout is not None
        positions = [int(client.stdout.readline()) for _ in range(3)]
        with standby.running():
            standby.await_position(positions[-1])
        kept = standby.status()["position"]
        client.stdin.write("\n")
        client.stdin.flush()
        positions += [int(client.stdout.readline()) for _ in range(4)]
        client.communicate("\n")
        assert client.returncode == -signal.SIGKILL
        cluster.kill(0)
        assert standby.promote().returncode == 0
        both = [*cluster.ingress_endpoints.values(), standby.endpoint]
        for name, value in {"10.0.0.9:20000": standby.endpoint, "orders.journal": str(journal)}.items():
            assert name in program
            program = program.replace(name, value)
        names: dict[str, Any] = {}
        exec(program, names)
        names["BOTH"][:-1] = both[:-1]
        with standby.running():
            for _ in range(2):
                with pytest.raises(OtherClusterError, match="lacks 4 requests from 4 to 7, which were answered before"):
                    names["ask"](b"1")
                told = capsys.readouterr().out
                assert told == f"in the new cluster up to position {kept}\nanswered, and lost: (4, 5, 6, 7)\n"
            with ClusterClient(both, settings=ClientSettings(journal=str(tmp_path / "another"))) as new:
                assert new.request(b"1", timeout_s=60).payload == b"4"


def snapshots_of(cluster: LocalCluster) -> list[dict[str, Any]]:
    """What member 0 holds."""
    found = ordo("cluster", "snapshots", "--json", "--config", str(cluster.config_path(0)))
    assert found.returncode == 0, found
    return list(json.loads(found.stdout))


def test_a_standby_alone_takes_a_snapshot_and_is_promoted_from_it(tmp_path: Path) -> None:
    line = next(one for one in COMMANDS if one.startswith("ordo cluster snapshot "))
    assert shlex.split(line)[2:] == ["snapshot", "--standbys", "--config", "node.toml"]
    with ready_cluster(COUNTER, heartbeat=STEADY, member_count=1) as cluster:
        standby = Standby(cluster, tmp_path)
        with ClusterClient(cluster.ingress_endpoints) as client:
            position = ask(client, 0)
            before = snapshots_of(cluster)
            with standby.running():
                standby.await_position(position)
                done = order(cluster, "snapshot", "--standbys")
                assert done.returncode == 0 and "standbys take a snapshot when they come to it" in done.stdout, done

                def has_one(told: dict[str, Any]) -> bool:
                    return bool(told.get("snapshot_position", -1) >= position)

                taken = standby.await_status(has_one, "a snapshot of the standby")["snapshot_position"]
                standby.await_position(ask(client, REQUESTS))
            assert snapshots_of(cluster) == before and order(cluster, "snapshot").returncode == 0
        cluster.kill(0)
        assert standby.promote().returncode == 0
        with standby.running(), ClusterClient([standby.endpoint]) as client:
            assert client.request(b"1", timeout_s=60).payload == str(2 * REQUESTS + 1).encode()
            assert standby.status()["promotion"]["position"] > taken


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


@pytest.mark.thorough
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


# -- a planned switch --------------------------------------------------------------------------------------------------


class Callers:
    """Clients that ask without a pause, each request with an identity of its own, through a switch."""

    def __init__(self, endpoints: list[str], count: int, **settings: Any) -> None:
        self._settings = ClientSettings(reconnect=True, credentials=CALLER.encode(), **settings)
        self.answers: list[tuple[float, int]] = []
        self._is_over = threading.Event()
        self._errors: list[BaseException] = []
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(endpoints,), daemon=True) for _ in range(count)]

    def _run(self, endpoints: list[str]) -> None:
        try:
            with ClusterClient(endpoints, settings=self._settings) as client:
                while not self._is_over.is_set():
                    answer = client.request(b"1", timeout_s=90)
                    with self._lock:
                        self.answers.append((time.monotonic(), int(answer.payload)))
        except BaseException as error:
            self._errors.append(error)

    def count(self) -> int:
        """Return how many were answered. Raises what ended one of them."""
        if self._errors:
            raise self._errors[0]
        return len(self.answers)

    def __enter__(self) -> Callers:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> list[int]:
        """End, and return the totals that were answered."""
        self._is_over.set()
        for one in self._threads:
            one.join(patient(100))
        assert self.count() > 0
        return sorted(total for _, total in self.answers)

    def longest_pause_s(self) -> float:
        times = sorted(when for when, _ in self.answers)
        return max(after - before for before, after in itertools.pairwise(times))


def test_a_switch_under_load_loses_nothing_and_doubles_nothing(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    tokens = [
        {"principal": "ops", "hash": hash_token(TOKEN), "roles": ["operator", "log"]},
        {"principal": "callers", "hash": hash_token(CALLER), "roles": ["ingress"]},
    ]
    (tmp_path / "token").write_text(TOKEN)
    steady = ready_cluster(COUNTER, heartbeat=STEADY, member_count=3, tables={"tokens": tokens})
    with steady as cluster:
        standby = Standby(cluster, tmp_path, tokens=tokens)
        both = [*cluster.ingress_endpoints.values(), standby.endpoint]
        with standby.running("--token-file", str(tmp_path / "token")):
            with Callers(both, 3) as callers:
                cluster.await_value(lambda: callers.count() > 100 or None, "answers of the primary", 60)
                standby.await_status(lambda one: (one.get("lag_seconds") or 99) < 2, "a standby that follows closely")
                done = standby.switch("--json", "--token-file", str(tmp_path / "token"))
                assert done.returncode == 0, (done, standby.log.read_text())
                told = json.loads(done.stdout)
                assert told["is_switch"] and told["lost_bytes"] == 0
                count = callers.count()
                cluster.await_value(lambda: callers.count() > count + 100 or None, "answers of the standby", 60)
                totals = callers.end()
            assert totals == list(range(1, len(totals) + 1)), "each request was executed once, none is missing"
            print(f"{len(totals)} requests; {callers.longest_pause_s():.2f} s without a leader")
            record_property("pause_s", callers.longest_pause_s())
            demand_one_line(standby.switch("--token-file", str(tmp_path / "token")), 1, "was promoted before")
        for member_id in cluster.ingress_endpoints:
            assert cluster.wait(member_id, 60) == 0
