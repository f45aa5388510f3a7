"""Three real standbys of one primary: one is promoted, the others follow it, and become voters beside it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from ordo.backup.folder import read_json, write_json
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.deploy.launcher import ROOT, LocalCluster
from ordo.runtime.security.tokens import hash_token
from ordo.standby.folder import PROMOTING, STATUS
from tests.cluster.integration.command import demand_one_line, ordo
from tests.cluster.integration.test_standby import CALLER, COMMANDS, COUNTER, TOKEN, Standby, ask
from tests.clusters import STEADY, ready_cluster
from tests.patience import patient
from tests.snippets import texts_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
IDS = (9, 10, 11)
PLACES = ("10.0.0.9:20000", "10.0.0.10:20000", "10.0.0.11:20000")
LEARNER = next(one for one in texts_of((ROOT / "docs" / "STANDBY.md").read_text(), "toml") if "learner" in one)


class OneOfSeveral(Standby):
    """One of three standbys of the same primary."""

    def __init__(self, primary: LocalCluster, folder: Path, member_id: int, token: Path | None, **tables: Any) -> None:
        super().__init__(primary, folder, member_id=member_id, **tables)
        self.member_id = member_id
        self._token = () if token is None else ("--token-file", str(token))
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *words: str) -> None:
        """Run a command of the node; by default that of a standby."""
        given = words or (*self.words("run"), *self._token)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "ordo.cli", *given, "--die-with-parent"], stdout=log, stderr=log
            )

    def kill(self) -> None:
        """As the end of its machine does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(patient(60))
            self.process = None

    def stop(self) -> None:
        """As a service manager does."""
        assert self.process is not None
        self.process.terminate()
        assert self.process.wait(patient(60)) == 0, self.log.read_text()
        self.process = None

    def follow_one(self, other: OneOfSeveral) -> None:
        """Follow another one, as the page has it, from the next start on."""
        (line,) = [one for one in COMMANDS if one.startswith("ordo standby run --config other.toml")]
        places = {PLACES[0]: other.endpoint, "other.toml": str(self.config), "orders:Orders": COUNTER}
        self.start(*(places.get(word, word) for word in shlex.split(line)[1:]), *self._token)

    def be_learner(self, beside: list[OneOfSeveral]) -> None:
        """Take its empty folder and file as the page has them."""
        self.config.parent.joinpath("standby").rename(self.config.parent / "former")
        found = tomlkit.parse(self.config.read_text()).unwrap()
        found["node"] |= {**tomlkit.parse(LEARNER).unwrap()["node"], "member_id": self.member_id}
        addresses = [(one.member_id, one.endpoint.partition(":")) for one in (*beside, self)]
        found["members"] = [{"id": own, "host": host, "port": int(port)} for own, (host, _, port) in addresses]
        self.config.write_text(tomlkit.dumps(found))
        self.start("node", "--config", str(self.config), "--service", COUNTER)


@contextmanager
def standbys_of(
    cluster: LocalCluster, path: Path, token: Path | None = None, **tables: Any
) -> Iterator[list[OneOfSeveral]]:
    """Three that follow."""
    with ExitStack() as stack:
        made = [OneOfSeveral(cluster, path / str(one), one, token, **tables) for one in IDS]
        for one in made:
            stack.callback(one.kill)
            one.start()
        yield made


def promote_beside(one: OneOfSeveral, *others: OneOfSeveral) -> subprocess.CompletedProcess[str]:
    """The command of the page, with these others."""
    (line,) = [text for text in COMMANDS if "--others" in text]
    places = {",".join(PLACES[1:]): ",".join(other.endpoint for other in others), "standby.toml": str(one.config)}
    return ordo(*(places.get(word, word) for word in shlex.split(line)[1:]), "--json")


def await_all(standbys: list[OneOfSeveral], position: int) -> None:
    for one in standbys:
        one.await_position(position)


def await_silence(standbys: list[OneOfSeveral]) -> None:
    """Wait until nobody takes the primary to be alive."""
    for one in standbys:
        one.await_status(lambda told: (told.get("heard_seconds_ago") or 0) > 4, "a primary that is silent")


def test_one_is_promoted_the_others_follow_it_and_become_voters(tmp_path: Path) -> None:
    with (
        ready_cluster(COUNTER, heartbeat=STEADY, member_count=3) as cluster,
        standbys_of(cluster, tmp_path) as standbys,
    ):
        first, second, third = standbys
        with ClusterClient(cluster.ingress_endpoints) as client:
            position = ask(client, 0)
            await_all(standbys, position)
            demand_one_line(promote_beside(first, second, third), 1, "the primary answered", "two clusters")
            first.stop()  # it is behind from now on
            demand_one_line(promote_beside(first, second, third), 1, f"the primary answered {second.endpoint}")
            position = ask(client, 20)
            await_all([second, third], position)
        for member_id in cluster.ingress_endpoints:
            cluster.kill(member_id)
        await_silence([second, third])

        demand_one_line(promote_beside(first, second, third), 1, f"{second.endpoint}, id 10, has the log up to")
        demand_one_line(promote_beside(second, first, third), 1, f"standby {first.endpoint} may have more", "--others")
        mark = third.config.parent / "standby" / PROMOTING
        mark.write_text("{}")  # as of a command that was killed there
        demand_one_line(promote_beside(second, third), 1, f"{third.endpoint}, id 11, is being promoted")
        mark.unlink()
        done = promote_beside(second, third)
        assert done.returncode == 0 and json.loads(done.stdout)["position"] >= position, done
        with ClusterClient([second.endpoint]) as client:
            position = ask(client, 40)
            demand_one_line(promote_beside(third, second), 1, f"{second.endpoint}, id 10, is no standby", "follow it")
            third.stop()
            for one in (first, third):
                one.follow_one(second)
                one.await_position(position)

            become_voters(cluster, [second, third, first])
            position = ask(client, 60)
        second.kill()
        with ClusterClient([first.endpoint, third.endpoint]) as client:
            ask(client, 80)


def become_voters(cluster: LocalCluster, standbys: list[OneOfSeveral]) -> None:
    """One after the other, as the page has it; the first one is the promoted one."""
    promoted, added = standbys[0], [standbys[0]]
    lines = [line for line in COMMANDS if line.startswith(("ordo cluster add-learner ", "ordo cluster promote "))]
    for one in standbys[1:]:
        places = {f"10={PLACES[1]}": f"{one.member_id}={one.endpoint}", "10": str(one.member_id)}
        places["standby.toml"] = str(promoted.config)
        learn, vote = ([places.get(word, word) for word in shlex.split(line)[1:]] for line in lines)
        one.stop()
        assert (done := ordo(*learn)).returncode == 0, done
        one.be_learner(added)
        cluster.await_value(lambda vote=vote: ordo(*vote).returncode == 0 or None, "a voter", 60)  # type: ignore[misc]
        added.append(one)


@pytest.mark.thorough
def test_one_that_has_more_than_the_promoted_one_keeps_it_and_does_not_follow(tmp_path: Path) -> None:
    with (
        ready_cluster(COUNTER, heartbeat=STEADY, member_count=1) as cluster,
        standbys_of(cluster, tmp_path) as standbys,
    ):
        first, second, third = standbys
        with ClusterClient(cluster.ingress_endpoints) as client:
            position = ask(client, 0)
            await_all(standbys, position)
            first.stop()
            position = ask(client, 20)
            await_all([second, third], position)
        cluster.kill(0)
        await_silence([second, third])
        kept = second.status()["position"]
        second.kill()
        status = second.config.parent / "standby" / STATUS
        write_json(status, {**read_json(status), "position": kept - 32})  # as of a moment before it was killed
        second.start()
        second.await_status(lambda told: told["state"].startswith("looking") and told["position"] == kept, "its log")
        for one in (second, third):
            one.stop()
        assert first.promote().returncode == 0, "an order without --others asks nobody"
        first.start()
        second.follow_one(first)
        assert second.process is not None and second.process.wait(patient(60)) != 0
        assert "is of the cluster with identity" in second.log.read_text()
        assert second.status()["position"] == kept


@pytest.mark.thorough
def test_another_standby_follows_the_one_that_a_switch_went_to(tmp_path: Path) -> None:
    tokens = [
        {"principal": "ops", "hash": hash_token(TOKEN), "roles": ["operator", "log"]},
        {"principal": "callers", "hash": hash_token(CALLER), "roles": ["ingress"]},
    ]
    token, other_token = tmp_path / "token", tmp_path / "other-token"
    token.write_text(TOKEN)
    other_token.write_text(CALLER)
    settings = ClientSettings(credentials=CALLER.encode())
    with (
        ready_cluster(COUNTER, heartbeat=STEADY, member_count=1, tables={"tokens": tokens}) as cluster,
        standbys_of(cluster, tmp_path, token, tokens=tokens) as standbys,
    ):
        first, second, _ = standbys
        with ClusterClient(cluster.ingress_endpoints, settings=settings) as client:
            position = ask(client, 0)
        for one in standbys:
            one.await_position(position)
        assert (done := first.switch("--token-file", str(token))).returncode == 0, done
        with ClusterClient([first.endpoint], settings=settings) as client:
            position = ask(client, 20)
        words = ("--others", first.endpoint, "--although-alive", "--token-file")
        demand_one_line(second.promote(*words, str(other_token)), 1, "cannot be asked", "neither the role operator nor")
        demand_one_line(second.promote(*words, str(token)), 1, "is no standby", "follow it")
        second.stop()
        second.follow_one(first)
        second.await_position(position)
