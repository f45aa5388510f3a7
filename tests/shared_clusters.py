"""Clusters of real processes that the tests of a worker share: each is started once for what it is started with.

A test that kills, stops, restarts or replaces nothing asks for `lend_cluster` instead of starting a cluster; it brings
sessions, identities and topics of its own, for the service has seen others before. When it ends the cluster must be as
it was: the same processes, none of them suspended, the same members, and the same leader in the same term. If it is
not, the test fails and the cluster goes, so that no other test has it.
"""

from __future__ import annotations

import inspect
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ordo.deploy.launcher import LocalCluster
from tests.clusters import PATIENT, await_ready

KEPT_MAX = 2
"""Clusters that are kept at a time."""
IDLE_MAX_S = 5.0
"""How long a cluster is kept that nobody uses: it costs a twentieth of a core, and starting it half a second of one."""
DEFAULTS = {name: one.default for name, one in inspect.signature(LocalCluster).parameters.items()}
LendCluster = Callable[..., LocalCluster]


class Standing(NamedTuple):
    """What a test that harms nothing leaves as it is."""

    members: tuple[int, ...]
    processes: dict[int, int | None]
    suspended: frozenset[int]
    leader: int | None
    term: int


def suspended_in(session_id: int) -> Iterator[int]:
    """Give the processes that SIGSTOP holds in the session of a node: the node, its containers, their copies."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue  # it has ended
        if int(session) == session_id and state == "T":
            yield int(entry.name)


def standing_of(cluster: LocalCluster) -> Standing:
    """Return what must be the same before and after a test."""
    pids = {one: cluster.pid(one) if cluster.is_running(one) else None for one in cluster.member_ids}
    suspended = frozenset(found for pid in pids.values() if pid is not None for found in suspended_in(pid))
    leader = cluster.leader()
    term = -1 if leader is None else cluster.leader_term(leader)
    return Standing(cluster.member_ids, pids, suspended, leader, term)


def harm_between(before: Standing, after: Standing) -> str:
    """Return what has changed in words, or nothing."""
    pairs = zip(Standing._fields, before, after, strict=True)
    return "; ".join(f"{name} were {was}, are {now}" for name, was, now in pairs if was != now)


class SharedClusters:
    """The clusters of this worker."""

    def __init__(self, kept_max: int = KEPT_MAX) -> None:
        self.started = 0
        self._kept_max = kept_max
        self._kept: dict[str, LocalCluster] = {}
        self._used_s = 0.0

    @property
    def kept(self) -> tuple[LocalCluster, ...]:
        """The clusters that run, the one that was lent last at the end."""
        return tuple(self._kept.values())

    def lend(self, service: str, **options: Any) -> LocalCluster:
        """Return a cluster of a service that has a leader, and was started with these options of LocalCluster."""
        options["cluster"] = {**PATIENT, **options.get("cluster", {})}
        options = {name: value for name, value in options.items() if value != DEFAULTS[name]}
        key = json.dumps([service, options], sort_keys=True)
        cluster = self._kept.pop(key, None)
        if cluster is None:
            while len(self._kept) >= self._kept_max:
                self._kept.pop(next(iter(self._kept))).close()
            cluster = self._start(service, **options)
        self._kept[key] = cluster
        return cluster

    def _start(self, service: str, **options: Any) -> LocalCluster:
        self.started += 1
        root = Path(tempfile.mkdtemp(prefix="ordo-shared-"))
        cluster = LocalCluster(service, root=root, **options)
        try:
            await_ready(cluster.start())
        except BaseException:
            cluster.close()
            raise
        return cluster

    def drop(self, cluster: LocalCluster) -> None:
        """Stop a cluster that nobody shall have again."""
        self._kept = {key: one for key, one in self._kept.items() if one is not cluster}
        cluster.close()
        shutil.rmtree(cluster.root, ignore_errors=True)

    def drop_idle(self, idle_s: float = IDLE_MAX_S) -> None:
        """Stop all if nobody has had one for so long: whoever comes next starts one again."""
        if time.monotonic() - self._used_s >= idle_s:
            self.close()

    def close(self) -> None:
        """Stop all."""
        for cluster in list(self._kept.values()):
            self.drop(cluster)

    @contextmanager
    def guarded(self, default_service: str, has_failed: Callable[[], bool]) -> Iterator[LendCluster]:
        """Give what lends a cluster to one test, which fails afterwards if it has harmed it.

        The cluster of a test that `has_failed` goes as well: whatever made it fail must not fail the next.
        """
        lent: list[tuple[LocalCluster, Standing]] = []

        def lend(service: str = default_service, **options: Any) -> LocalCluster:
            cluster = self.lend(service, **options)
            lent.append((cluster, standing_of(cluster)))
            return cluster

        yield lend
        self._used_s = time.monotonic()
        harm = []
        for cluster, before in lent:
            found = harm_between(before, standing_of(cluster))
            harm += [found] if found else []
            if found or has_failed():
                self.drop(cluster)
        if harm:
            pytest.fail(f"the test harms a cluster that others share: {' '.join(harm)}; let it start its own")


SHARED = SharedClusters()
