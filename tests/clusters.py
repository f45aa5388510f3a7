"""Clusters of real processes for one test or module: started, all members following, and with a leader that stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ordo.cluster.wire.levels import PROTOCOL_LEVEL
from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import await_members
from tests.patience import factor
from tests.spares import COMMAND, PROCESS_NAME

PATIENT: Mapping[str, str] = {"leader_heartbeat_timeout": f"{round(10 * min(3.0, factor()))}s"}
"""For a cluster in which one member leads all the time, however busy the machine."""
STEADY: Mapping[str, str] = {"leader_heartbeat_timeout": f"{round(1000 * min(3.0, factor()))}ms"}
"""For a cluster whose leader may fall: twice the default, since other tests hold up processes for half a second."""


def await_ready(cluster: LocalCluster) -> int:
    """Wait until a leader serves and every member follows. Return the leader."""
    cluster.await_leader(60)
    await_members(cluster)
    return cluster.await_leader(60)


def await_level(cluster: LocalCluster) -> None:
    """Wait until the log is at the protocol level of this release, which takes all members and some seconds.

    A test that kills a member and uses what a level brings asks for it first: without that member it is not reached.
    """
    level = f"protocol level {PROTOCOL_LEVEL} is in force"

    def is_there() -> bool | None:
        texts = (str(one) for id in cluster.member_ids for one in cluster.log_events(id, "cluster.level"))
        return any(level in text for text in texts) or None

    cluster.await_value(is_there, level)


@contextmanager
def ready_cluster(service: str, *, heartbeat: Mapping[str, str] = PATIENT, **options: Any) -> Iterator[LocalCluster]:
    """Start a cluster with these options of LocalCluster, and wait until all its members follow.

    Its leader stays the leader on a busy machine. A test that has it fall asks for STEADY instead: others notice soon.
    """
    options["cluster"] = {**heartbeat, **(options.get("cluster") or {})}
    with LocalCluster(service, **options) as cluster:
        await_ready(cluster)
        yield cluster


def container_of(cluster: LocalCluster, member_id: int) -> int:
    """Return the process id of a member's service container, forked or executed."""
    pid = cluster.pid(member_id)
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        process = Path("/proc") / child
        with suppress(OSError):  # it has ended meanwhile
            is_executed = COMMAND[-1].encode() in (process / "cmdline").read_bytes().split(b"\0")
            if is_executed or (process / "comm").read_text().strip() == PROCESS_NAME:
                return int(child)
    raise AssertionError(f"member {member_id} has no container")
