"""What replicas report of themselves, compared with each other and with what writers expect."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from ordo.cluster.module.state.counters import ELECTION_CLOSED
from ordo.cluster.monitoring.counters import counter_value
from ordo.cluster.settings.config import load_config
from ordo.cluster.wire.counters.component_errors import read_component_errors
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.cluster.wire.counters.mark_file import MODULE_MARK_FILE_NAME
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.runtime.processes import is_process_held
from tests.cluster.integration.command import ordo
from tests.cluster.integration.protocol import REPORT_EVENT
from tests.cluster.integration.writer import Writer
from tests.patience import patient

T = TypeVar("T")


class Report(NamedTuple):
    """The state of one replica at one position of the log."""

    entries: int
    digest: str
    writers: tuple[tuple[str, str], ...]
    position: int


def await_value(
    probe: Callable[[], T | None], what: str, timeout_s: float = 60.0, explain: Callable[[], str] = str
) -> T:
    """What `probe` answers once it is not None, whatever becomes of the nodes meanwhile."""
    timeout_s = patient(timeout_s)
    deadline_s = time.monotonic() + timeout_s
    while (value := probe()) is None:
        assert time.monotonic() < deadline_s, f"{what}: not within {timeout_s} s\n{explain()}"
        time.sleep(0.02)
    return value


def await_that(
    probe: Callable[[], object], what: str, timeout_s: float = 60.0, explain: Callable[[], str] = str
) -> None:
    """Returns once `probe` says something true."""
    await_value(lambda: True if probe() else None, what, timeout_s, explain)


def hold(pid: int) -> None:
    """Suspend a process that no LocalCluster has; return once none of its threads runs."""
    os.kill(pid, signal.SIGSTOP)
    await_that(lambda: is_process_held(pid), f"process {pid}, held by SIGSTOP")


def await_members(cluster: LocalCluster) -> None:
    """Wait until every member that runs leads or follows.

    Aeron's clients ask one member once, and one in an election is silent. A member that comes late does not do what
    others did before: it takes no snapshot, and fails at no record that they have left out.
    """
    await_that(
        lambda: all(
            counter_of(cluster, member_id, CounterType.ELECTION_STATE) == ELECTION_CLOSED
            for member_id in cluster.member_ids
            if cluster.is_running(member_id)
        ),
        "the end of the election at all members",
    )


def await_progress(cluster: LocalCluster, member_id: int, more_bytes: int = 16 * 1024) -> None:
    """Waits until a leader has committed so much more: clients write all the while."""
    begin = counter_of(cluster, member_id, CounterType.COMMIT_POSITION)
    await_that(
        lambda: (
            counter_of(cluster, member_id, CounterType.COMMIT_POSITION) >= begin + more_bytes
            or not cluster.is_running(member_id)
            or cluster.leader() != member_id
        ),
        f"{more_bytes} bytes more of member {member_id}",
    )


def replace_leader(cluster: LocalCluster) -> int:
    """Kills the leader while clients write, and starts it again while they write to the next one. Returns its id."""
    leader = cluster.await_leader(30)
    await_progress(cluster, leader)
    leader = cluster.await_leader(30)
    cluster.kill(leader)
    await_progress(cluster, cluster.await_leader(30, other_than=leader))
    cluster.start_member(leader)
    return leader


def timeouts_of(cluster: LocalCluster) -> int:
    """How many sessions a leader, whichever it was, has closed that it did not hear."""
    return max(counter_of(cluster, member_id, CounterType.CLIENT_TIMEOUTS) for member_id in cluster.member_ids)


def describe(cluster: LocalCluster) -> str:
    """What each member shows of itself, for the message of a test that failed."""
    lines = []
    for member_id in cluster.member_ids:
        arguments = ("--config", str(cluster.config_path(member_id)))
        said = [ordo("cluster", "status", *arguments), ordo("errors", *arguments)]
        lines.append(f"member {member_id}:")
        lines += [line for done in said for line in (done.stdout + done.stderr).splitlines()]
        lines += cluster.logs(member_id).splitlines()[-4:]
    return "\n".join(lines)


def reports_of(cluster: LocalCluster, member_id: int, report_id: int) -> set[Report]:
    """What a member reported under an id: more than one when it replayed the log and came to something else."""
    return {
        Report(
            int(str(event["count"])),
            str(event["hash"]),
            tuple(sorted(dict(event["writers"]).items())),  # type: ignore[call-overload]
            int(str(event["position"])),
        )
        for event in cluster.log_events(member_id, REPORT_EVENT)
        if event["report_id"] == report_id
    }


def demand_agreement(
    cluster: LocalCluster, writers: Sequence[Writer], members: Sequence[int] | None = None, timeout_s: float = 60.0
) -> Report:
    """All members hold the same entries in the same order, and of each writer exactly those it wrote."""
    for writer in writers:
        writer.drain()
    report_id = writers[0].report()
    return await_agreement(cluster, writers, report_id, members, timeout_s)


def await_agreement(
    cluster: LocalCluster,
    writers: Sequence[Writer],
    report_id: int,
    members: Sequence[int] | None = None,
    timeout_s: float = 60.0,
) -> Report:
    """As `demand_agreement`, for a report that was asked for before."""
    wanted = cluster.member_ids if members is None else tuple(members)

    def found() -> dict[int, set[Report]] | None:
        by_member = {member_id: reports_of(cluster, member_id, report_id) for member_id in wanted}
        return by_member if all(by_member.values()) else None

    what = f"report {report_id} of members {wanted}, logs in {cluster.root}"
    by_member = await_value(found, what, timeout_s, lambda: describe(cluster))
    different = set().union(*by_member.values())
    assert len(different) == 1, f"replicas differ: {by_member}"
    (report,) = different
    expected = tuple(sorted((str(writer.writer_id), writer.hash.hex()) for writer in writers if writer.acked))
    assert report.writers == expected, f"the replicas hold {report}, the writers wrote {expected}"
    assert report.entries == sum(writer.acked for writer in writers)
    return report


def errors_of(cluster: LocalCluster, member_id: int, mark_file: str = MODULE_MARK_FILE_NAME) -> str:
    """The error log of a node, or that of its service by the name of its mark file, as `ordo errors` reads it."""
    path = load_config(cluster.config_path(member_id)).cluster_dir / mark_file
    return "\n".join(one.text for one in read_component_errors(FileMemoryProvider(), str(path)))


def await_error(cluster: LocalCluster, member_id: int, words: str) -> None:
    """Returns once a node's error log has these words: another member may have shown the event before this one."""
    await_that(
        lambda: words in errors_of(cluster, member_id),
        f"{words!r} in the error log of member {member_id}",
        explain=lambda: errors_of(cluster, member_id),
    )


def counter_of(cluster: LocalCluster, member_id: int, counter: CounterType) -> int:
    """A counter of a running member, -1 when it is not there."""
    return counter_value(cluster.aeron_dir(member_id), counter)
