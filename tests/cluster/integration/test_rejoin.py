"""A primary that was killed under load, its standby promoted, and its folder made a standby of that: there and back."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from ordo import read
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.errors import OrdoError
from ordo.runtime.security.tokens import hash_token
from tests.cluster.integration.command import demand_one_line, ordo
from tests.cluster.integration.test_standby import COMMANDS, COUNTER, REQUESTS, TOKEN, Standby, ask
from tests.clusters import STEADY, ready_cluster
from tests.patience import patient
from tests.thorough import few_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
CALLERS = 3
LOST_MIN = 30


class Former(Standby):
    """The folder of a member of the former primary, with a node.toml that names it alone."""

    def __init__(self, cluster: LocalCluster, member_id: int, folder: Path, follows: str) -> None:
        content = tomlkit.parse(cluster.config_path(member_id).read_text()).unwrap()
        content["members"] = [one for one in content["members"] if one["id"] == member_id]
        super().__init__(cluster, folder, follows)
        self.endpoint = cluster.ingress_endpoints[member_id]
        self.config.write_text(tomlkit.dumps(content))


REJOIN, LOG, REJOIN_AND_DROP = (one for one in COMMANDS if "standby rejoin" in one or one.startswith("ordo log"))


def command(line: str, **replaced: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the page with this machine's places for the page's."""
    words = shlex.split(line)[1:]
    places = {
        "former.toml": replaced.get("config", ""),
        "10.0.0.9:20000": replaced.get("endpoint", ""),
        "/data/node0/surplus-81920-97280/archive": replaced.get("folder", ""),
        "73": replaced.get("count", ""),
    }
    return ordo(*(places.get(one, one) for one in words), *shlex.split(replaced.get("more", "")))


def rejoin(former: Standby, endpoint: str, more: str = "") -> subprocess.CompletedProcess[str]:
    return command(REJOIN, config=str(former.config), endpoint=endpoint, more=more)


def drop(former: Standby, endpoint: str, count: int) -> subprocess.CompletedProcess[str]:
    return command(REJOIN_AND_DROP, config=str(former.config), endpoint=endpoint, count=str(count))


class Load:
    """Clients that ask one member until it is gone, and remember which totals they were told."""

    def __init__(self, endpoint: str) -> None:
        self.told: list[int] = []
        self._threads = [threading.Thread(target=self._run, args=(endpoint,), daemon=True) for _ in range(CALLERS)]
        for one in self._threads:
            one.start()

    def _run(self, endpoint: str) -> None:
        try:
            with ClusterClient([endpoint]) as client:
                while True:
                    self.told.append(int(client.request(b"1", timeout_s=5).payload))
        except OrdoError:
            pass  # the member is gone

    def end(self) -> set[int]:
        for one in self._threads:
            one.join(patient(60))
        return set(self.told)


class Running:
    """The process of `ordo standby run`, which ends as its machine does."""

    def __init__(self, standby: Standby) -> None:
        words = [sys.executable, "-P", "-m", "ordo.cli", *standby.words("run"), "--die-with-parent"]
        with standby.log.open("ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def fail_over(
    cluster: LocalCluster, primary: str, kill: Callable[[], object], standby: Standby
) -> tuple[set[int], int]:
    """Kill the standby under load, the primary some answers later, and promote; what was told, and from where on."""
    with Running(standby) as process:
        standby.await_status(lambda one: (one.get("lag_seconds") or 99) < 2, "a standby that follows closely")
        load = Load(primary)
        cluster.await_value(lambda: len(load.told) > LOST_MIN or None, "answers of the primary", 60)
        process.kill()
        count = len(load.told)
        cluster.await_value(lambda: len(load.told) > count + LOST_MIN or None, "answers that the standby lacks", 60)
    kill()
    done = standby.promote("--although-alive", "--json")  # its last status says that the primary was heard
    assert done.returncode == 0, done
    return load.end(), int(json.loads(done.stdout)["position"])


def compare(former: Standby, endpoint: str) -> dict[str, Any]:
    """What the folder has more, without an order to drop it."""
    done = rejoin(former, endpoint, "--json")
    demand_one_line(done, 1, "nothing was changed: give --drop ")
    found: dict[str, Any] = json.loads(done.stdout)
    assert f"give --drop {found['count']} to drop" in done.stderr and found["count"] == len(found["records"])
    return found


def come_back(former: Standby, endpoint: str, told: set[int], base: int, position: int) -> None:
    """The shown surplus is what was told behind the new cluster's beginning, and what was under way; it is dropped."""
    found = compare(former, endpoint)
    assert found["position"] == position
    lost, shown = {total for total in told if total > base}, [one for one in found["records"] if one["number"]]
    numbers = [one["number"] for one in shown]
    assert numbers == list(range(base + 1, base + 1 + len(numbers))), "each request counts one: its number is its total"
    assert lost <= set(numbers) and len(set(numbers) - lost) <= CALLERS, "acknowledged, or not answered any more"
    kept = command(LOG, folder=found["kept"], more="--kind request")
    assert [int(line.split()[0]) for line in kept.stdout.splitlines()] == [one["position"] for one in shown]
    table = read(found["kept"]).to_arrow()
    assert table.column("position").to_pylist()[-1] == found["end_position"]

    demand_one_line(drop(former, endpoint, found["count"] - 1), 1, "nothing was changed")
    done = drop(former, endpoint, found["count"])
    assert done.returncode == 0 and f"position={position}" in done.stdout, done
    again = rejoin(former, endpoint, "--json")
    assert again.returncode == 0 and json.loads(again.stdout)["dropped_count"] == found["count"], again


def total_of(endpoint: str) -> int:
    with ClusterClient([endpoint]) as client:
        return int(client.query(b"", timeout_s=60).payload)


@pytest.mark.parametrize("member_count", few_of([1, 3], []))
def test_a_former_primary_comes_back_as_a_standby_and_back_again(tmp_path: Path, member_count: int) -> None:
    with ready_cluster(COUNTER, heartbeat=STEADY, member_count=member_count) as cluster:
        leader = cluster.await_leader(60)
        first_at = cluster.ingress_endpoints[leader]
        second = Standby(cluster, tmp_path / "second")
        first = Former(cluster, leader, tmp_path / "first", second.endpoint)

        def kill_all() -> None:
            for member_id in cluster.ingress_endpoints:
                cluster.kill(member_id)

        told, position = fail_over(cluster, first_at, kill_all, second)
        with Running(second) as process:
            come_back(first, second.endpoint, told, total_of(second.endpoint), position)
            told, position = fail_over(cluster, second.endpoint, process.kill, first)
        with Running(first):
            come_back(second, first_at, told, total_of(first_at), position)
            with Running(second):
                with ClusterClient([first_at]) as client:
                    last = ask(client, total_of(first_at))
                second.await_position(last)


def test_all_members_come_back_without_an_order_after_a_switch(tmp_path: Path) -> None:
    tokens = [{"principal": "ops", "hash": hash_token(TOKEN), "roles": ["operator", "log", "ingress"]}]
    token = tmp_path / "token"
    token.write_text(TOKEN)
    words = ("--token-file", str(token))
    with ready_cluster(COUNTER, heartbeat=STEADY, member_count=3, tables={"tokens": tokens}, encrypted=True) as cluster:
        keys = cluster.client_keys
        second = Standby(cluster, tmp_path / "second", tokens=tokens, encryption=keys)
        caller = ClientSettings(credentials=TOKEN.encode(), **keys)
        with second.running(*words):
            with ClusterClient(cluster.ingress_endpoints, settings=caller) as client:
                ask(client, 0)
            second.await_status(lambda one: (one.get("lag_seconds") or 99) < 2, "a standby that follows closely")
            demand_one_line(rejoin(second, second.endpoint, shlex.join(words)), 1, "in use")
            assert second.switch(*words).returncode == 0
            formers = [Former(cluster, one, tmp_path / f"former{one}", second.endpoint) for one in range(3)]
            for one in formers:
                cluster.await_value(partial(rejoin_when_ended, one, second, words), "a member that has ended", 60)
            with ClusterClient([second.endpoint], settings=caller) as client:
                position = ask(client, REQUESTS)
            with formers[0].running(*words), formers[1].running(*words):
                formers[0].await_position(position)
                formers[1].await_position(position)


def rejoin_when_ended(former: Former, primary: Standby, words: tuple[str, ...]) -> bool | None:
    """Rejoin without an order: the log has ended for the standby, and nothing of it is lost."""
    done = rejoin(former, primary.endpoint, shlex.join(words))
    if done.returncode and "in use" in done.stderr:
        return None
    assert done.returncode == 0 and "rejoined: " in done.stdout, done
    return True
