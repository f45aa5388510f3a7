"""A local cluster in containers: started, scaled, upgraded and removed (`ordo deploy docker`).

Orders go by the command line of the node in the leader's container. Whatever was interrupted is finished by giving the
command again: who is in the cluster is what its log says, not what containers there are.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ordo.deploy.docker_containers import CONFIG, POLL_INTERVAL_S, SERVICE_LABEL, Containers, host_of
from ordo.runtime.errors import ClusterError, ClusterTimeoutError, ConfigurationError, NoQuorumError

MEMBERS_MAX = 7
PORT = 20_000
EXIT_USAGE = 2

Render = Callable[[int, Mapping[int, str], str, bool], str]
"""Returns the node.toml of a member: its id, the hosts of all members, the service, whether it is a learner."""
Listed = dict[int, dict[str, Any]]
"""Rows of `ordo cluster list --json` by member id."""


class Member(NamedTuple):
    """One member, as Docker and the log know it. What is not known is None."""

    member_id: int
    container: str
    image: str
    state: str
    health: str | None
    address: str | None
    role: str | None
    is_leader: bool
    log_position: int | None


class DockerCluster:
    """The cluster whose containers these are. `tell` is told what was done, a line each."""

    def __init__(self, containers: Containers, *, timeout_s: float, tell: Callable[[str], None]) -> None:
        self._containers = containers
        self._timeout_s, self._tell = timeout_s, tell

    def start(self, image: str, service: str, member_count: int, render: Render) -> None:
        """Start a new cluster; nothing of it stays when that fails."""
        demand_member_count(member_count)
        self._containers.image(image)
        self._containers.demand_free_name()
        hosts = _hosts(range(member_count))
        try:
            self._containers.make_network()
            for member_id in hosts:
                self._containers.make(member_id, image, service, render(member_id, hosts, service, False))
            self._containers.await_ready([*hosts], self._timeout_s, self._tell)
        except BaseException:
            self._containers.remove_all()
            raise

    def scale(self, member_count: int, render: Render) -> None:
        """Add members, each a learner until it has the log, or take out those with the highest ids, one at a time."""
        demand_member_count(member_count)
        self._containers.demand()
        _, listed = self._await_leader()
        self._discard_strangers(listed)
        for member_id in [one for one, row in listed.items() if row["role"] == "learner"]:
            self._join(member_id, render)
        for _ in range(member_count - len(listed)):
            self._join(max(self._containers.used_ids() | listed.keys()) + 1, render)
        for member_id in sorted(listed, reverse=True)[: max(0, len(listed) - member_count)]:
            self._take_out(member_id, min(listed))
        self._discard_strangers(self._await_leader()[1])

    def _discard_strangers(self, listed: Listed) -> None:
        for member_id in self._containers.find().keys() - listed.keys():
            self._containers.discard(member_id)
            self._tell(f"{host_of(member_id)} is removed")

    def _join(self, member_id: int, render: Render) -> None:
        """Join a new member to the cluster, its container first.

        A name is known in the network once its container runs, and the leader refuses a member that it cannot reach.
        Until the leader knows it, the member waits.
        """
        leader_id, listed = self._await_leader()
        found = self._containers.demand()
        if member_id not in found:
            image, service = found[leader_id].attrs["Config"]["Image"], found[leader_id].labels[SERVICE_LABEL]
            hosts = _hosts(sorted({*listed, member_id}))
            self._containers.make(member_id, image, service, render(member_id, hosts, service, True))
        new = f"{member_id}={host_of(member_id)}:{PORT}"
        self._order(lambda _, listed: member_id in listed, "add-learner", new)
        self._containers.await_ready([member_id], self._timeout_s, self._tell)
        self._order(lambda _, listed: listed[member_id]["role"] == "voter", "promote", str(member_id))
        self._tell(f"{host_of(member_id)} votes")

    def _take_out(self, member_id: int, successor_id: int) -> None:
        self._hand_over(member_id, "--to", str(successor_id))
        self._order(lambda _, listed: member_id not in listed, "remove", str(member_id))

    def _hand_over(self, member_id: int, *words: str) -> None:
        self._order(lambda leader_id, _: leader_id != member_id, "transfer", *words)

    def upgrade(self, image: str) -> None:
        """Replace the containers one at a time, the leader's last, and wait until each has caught up."""
        wanted = self._containers.image(image).id
        leader_id, listed = self._await_leader()
        for member_id in sorted(self._containers.demand(), key=lambda one: one == leader_id):
            if self._containers.demand()[member_id].attrs["Image"] == wanted:
                continue
            if len(listed) > 1:
                self._hand_over(member_id)
            self._containers.replace(member_id, image)
            self._containers.await_ready([member_id], self._timeout_s, self._tell)
            self._await_caught_up(member_id)

    def _await_caught_up(self, member_id: int) -> None:
        leader_id, listed = self._await_leader()
        goal = listed[leader_id]["log_position"]

        def has_it() -> bool:
            _, found = self._await_leader()
            return member_id not in found or (found[member_id]["log_position"] or 0) >= goal

        self._await(has_it, lambda: f"{host_of(member_id)} did not catch up to position {goal}")

    def remove(self) -> list[str]:
        """Remove everything, data included; return the names of the containers."""
        self._containers.demand()
        return self._containers.remove_all()

    def members(self) -> list[Member]:
        """All members; where no leader is known, without what the log says."""
        found = self._containers.demand()
        _, listed = self._find_leader() or (None, {})
        return [self._describe(member_id, one, listed.get(member_id, {})) for member_id, one in found.items()]

    def _describe(self, member_id: int, container: Any, row: dict[str, Any]) -> Member:
        return Member(
            member_id,
            container.name,
            container.attrs["Config"]["Image"],
            container.status,
            container.attrs["State"].get("Health", {}).get("Status"),
            self._containers.address_of(container),
            row.get("role"),
            bool(row.get("is_leader")),
            row.get("log_position"),
        )

    def _find_leader(self) -> tuple[int, Listed] | None:
        """Return the leader's id, and the members by id as its log has them."""
        for member_id in self._containers.demand():
            ran = self._containers.run(member_id, "ordo", "cluster", "list", "--json", "--config", CONFIG)
            listed = {int(row["member_id"]): row for row in json.loads(ran.output)} if ran.status == 0 else {}
            if listed.get(member_id, {}).get("is_leader"):
                return member_id, listed
        return None

    def _await_leader(self) -> tuple[int, Listed]:
        deadline_s = time.monotonic() + self._timeout_s
        while (found := self._find_leader()) is None:
            if time.monotonic() > deadline_s:
                raise NoQuorumError(f"no member of {self._containers.name} leads: see `ordo deploy docker status`")
            time.sleep(POLL_INTERVAL_S)
        return found

    def _order(self, is_done: Callable[[int, Listed], bool], *words: str) -> None:
        """Has the leader carry out an order until it is done: it may refuse while it is busy, or a learner behind."""
        said = ""

        def done() -> bool:
            nonlocal said
            leader_id, listed = self._await_leader()
            if is_done(leader_id, listed):
                return True
            ran = self._containers.run(leader_id, "ordo", "cluster", *words, "--config", CONFIG)
            said = ran.error.strip().removeprefix("ordo: ")
            if ran.status == EXIT_USAGE:
                raise ClusterError(f"{' '.join(words)}: {said}")
            return False

        self._await(done, lambda: f"{' '.join(words)}: not done within {self._timeout_s:g} s: {said}")

    def _await(self, is_done: Callable[[], bool], explain: Callable[[], str]) -> None:
        deadline_s = time.monotonic() + self._timeout_s
        while not is_done():
            if time.monotonic() > deadline_s:
                raise ClusterTimeoutError(explain())
            time.sleep(POLL_INTERVAL_S)


def _hosts(member_ids: Iterable[int]) -> dict[int, str]:
    return {member_id: host_of(member_id) for member_id in member_ids}


def demand_member_count(member_count: int) -> None:
    """Raise ConfigurationError for a number of members that no cluster has."""
    if not 1 <= member_count <= MEMBERS_MAX:
        raise ConfigurationError(f"{member_count} members: allowed are 1 to {MEMBERS_MAX}")
