"""Accidents of an operator with data folders: exchanged, another cluster's, older copies of the member's own.

Each is a generator that goes on with the next of its steps when it is asked to, while clients work. Nothing else goes
wrong meanwhile, so each demands what docs/ACCIDENTS.md says of it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ordo.cluster.module.state.counters import ELECTION_CLOSED
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.consensus.state.distrust import Distrust
from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import counter_of
from tests.cluster.integration.writer import Writer
from tests.faults.lab import SERVICE, SMALL_LOG, Lab
from tests.patience import patient

KINDS_OF_FOLDERS = ("exchanged folders", "foreign folder", "older copy", "older copy, and the leader dies")
LOOK_INTERVAL_S = 0.05
STEP_TIMEOUT_S = 60.0
KNOWN_AFTER_S = 1.5
"""Members tell each other their positions once a second."""
FOREIGN_ENTRIES = 300
FOREIGN_PORTS = range(19_000, 19_080, 8)
"""Not among those that are given out: both clusters are of this process, though they do not share a network."""
NOT_DATA = ("lost+found", "filler")

Steps = Iterator[None]


class Accidents:
    """`begin` gives the steps of an accident. `seen` says what came of each."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.seen: list[str] = []
        self._foreign: Path | None = None

    def begin(self, kind: str, member_id: int, number: int) -> Steps:
        """`kind` is one of KINDS_OF_FOLDERS."""
        name = kind.replace(", and the", "").replace(" ", "_")
        steps: Steps = getattr(self, "_" + name)(member_id, number)
        return steps

    # Folders of others

    def _exchanged_folders(self, member_id: int, number: int) -> Steps:
        """Two members have each other's volume, refuse it in a line, and come back once it is put right."""
        others = [one for one in self.lab.cluster.member_ids if one != member_id]
        pair = member_id, others[number % len(others)]
        yield from self.all_follow()
        begins = [self._stop_with_log(one) for one in pair]
        exchange(self.lab.cluster, *pair)
        for one in pair:
            self.lab.cluster.start_member(one)
        for one, other, begin in zip(pair, reversed(pair), begins, strict=True):
            yield from self._refused(one, begin, f"is that of member {other} of cluster 0")
        exchange(self.lab.cluster, *pair)
        for one in pair:
            self.lab.start(one)
        yield from self.all_follow()
        self.seen.append(f"folders of {pair} exchanged: both refused, and back")

    def _foreign_folder(self, member_id: int, number: int) -> Steps:
        """A member has a folder of another cluster with the same ids: the others refuse it, and it ends."""
        foreign = self._foreign or self._make_foreign()
        self._foreign = foreign
        yield from self.all_follow()
        begin = self._stop_with_log(member_id)
        folder = self.lab.cluster.data_dir(member_id)
        kept = folder.with_suffix(".kept")
        folder.rename(kept)
        shutil.copytree(foreign / str(member_id), folder)
        self.lab.cluster.start_member(member_id)
        yield from self._refused(member_id, begin, "is of another cluster: it has identity")
        shutil.rmtree(folder)
        kept.rename(folder)
        self.lab.start(member_id)
        yield from self.all_follow()
        self.seen.append(f"another cluster's folder at {member_id}: refused, and back")

    def _make_foreign(self) -> Path:
        """The folders of another cluster with these member ids, which is not there any more."""
        ids = self.lab.cluster.member_ids
        root, ports = self.lab.cluster.root.with_name("foreign"), FOREIGN_PORTS[: len(ids)]
        with LocalCluster(
            SERVICE, root=root, member_count=len(ids), cluster=SMALL_LOG, ports=ports, keep=True
        ) as other:
            other.await_leader(60)
            with Writer(other.ingress_endpoints) as writer:
                writer.write(FOREIGN_ENTRIES)
        return root

    def _refused(self, member_id: int, log_begin: int, words: str) -> Steps:
        """The member ends by itself, with one line that has these words and the folder."""
        cluster = self.lab.cluster
        yield from self.until(lambda: not cluster.is_running(member_id), f"member {member_id} ends: {words}")
        said = cluster.logs(member_id)[log_begin:]
        assert f"the data folder {cluster.data_dir(member_id)} {words}" in said, said
        assert "Traceback" not in said, said
        assert cluster.wait(member_id) > 0, "it ended with a status of success"

    # Older copies of the own folder

    def _older_copy(self, member_id: int, number: int) -> Steps:
        yield from self._restore_older_copy(member_id, number, dying=False)

    def _older_copy_leader_dies(self, member_id: int, number: int) -> Steps:
        yield from self._restore_older_copy(member_id, number, dying=True)

    def _restore_older_copy(self, member_id: int, number: int, dying: bool) -> Steps:
        """A copy, made while the member ran or not, comes back in place of its data. With `dying` the leader, another
        member, is killed in the moment that the member starts, and stays away for a while."""
        cluster = self.lab.cluster
        yield from self.all_follow()
        is_running = number % 2 == 0
        copy = self._copy(member_id, is_running)
        yield from self.all_follow()
        answers = self.lab.answers()
        yield from self.until(lambda: self.lab.answers() > answers + 200, "work after the copy")
        yield from self.pass_time(KNOWN_AFTER_S)
        if dying and cluster.leader() in (None, member_id):
            member_id_of_leader = cluster.leader()
            begin = self._stop_with_log(member_id)  # another leads then
            yield from self.until(lambda: cluster.leader() not in (None, member_id_of_leader), "another leads")
        else:
            begin = self._stop_with_log(member_id)
        self._put_back(member_id, copy)
        leader = cluster.leader()
        cluster.start_member(member_id)
        if dying and leader is not None:
            self.lab.kill(leader)
        words = f"the data folder {cluster.data_dir(member_id)} is an older copy: member"
        yield from self.until(lambda: words in cluster.logs(member_id)[begin:], f"member {member_id} is told")
        if dying and leader is not None:
            yield from self.pass_time(number / 10)
            self.lab.start(leader)
        yield from self.until(
            lambda: counter_of(cluster, member_id, CounterType.DISTRUST) == Distrust.NONE, f"{member_id} votes again"
        )
        self.lab.may_end.discard(member_id)
        yield from self.all_follow()
        what = "a copy of a running member" if is_running else "a copy"
        self.seen.append(
            f"{what} restored at {member_id}{f', leader {leader} killed' if dying else ''}: told, and back"
        )

    def _copy(self, member_id: int, is_running: bool) -> Path:
        """The member's folder as it is at one moment; a member that does not run is started again."""
        copy = self.lab.cluster.data_dir(member_id).with_suffix(".copy")
        shutil.rmtree(copy, ignore_errors=True)
        if is_running:
            self.lab.pause(member_id)
        else:
            self.lab.kill(member_id)
        shutil.copytree(self.lab.cluster.data_dir(member_id), copy, ignore=shutil.ignore_patterns(*NOT_DATA))
        if is_running:
            self.lab.go_on(member_id)
        else:
            self.lab.start(member_id)
        return copy

    def _put_back(self, member_id: int, copy: Path) -> None:
        folder = self.lab.cluster.data_dir(member_id)
        for path in folder.iterdir():
            if path.name not in NOT_DATA:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(copy, folder, dirs_exist_ok=True)
        shutil.rmtree(copy)

    # Steps

    def _stop_with_log(self, member_id: int) -> int:
        """Kills a member, which may end by itself until `Lab.start`; how long its log is."""
        self.lab.kill(member_id)
        return len(self.lab.cluster.logs(member_id))

    def all_follow(self) -> Steps:
        """All members run, trust their data, and have one leader."""
        ids, cluster = self.lab.cluster.member_ids, self.lab.cluster
        for one in ids:
            self.lab.start(one)
        yield from self.until(
            lambda: (
                cluster.leader() is not None
                and all(counter_of(cluster, one, CounterType.ELECTION_STATE) == ELECTION_CLOSED for one in ids)
                and all(counter_of(cluster, one, CounterType.DISTRUST) == Distrust.NONE for one in ids)
            ),
            "all members follow",
        )
        answers = self.lab.answers()
        yield from self.until(lambda: self.lab.answers() > answers, "an answer")

    def until(self, condition: Callable[[], object], what: str) -> Steps:
        deadline_s, next_s = time.monotonic() + patient(STEP_TIMEOUT_S), 0.0
        while True:
            now_s = time.monotonic()
            if now_s >= next_s:
                if condition():
                    return
                next_s = now_s + LOOK_INTERVAL_S
                assert now_s < deadline_s, f"not within {STEP_TIMEOUT_S:g} s: {what}\n{self.lab.explain()}"
            yield

    def pass_time(self, duration_s: float) -> Steps:
        end_s = time.monotonic() + duration_s
        while time.monotonic() < end_s:
            yield


def exchange(cluster: LocalCluster, one: int, other: int) -> None:
    """Gives each of two members that do not run the other's folder."""
    aside = cluster.data_dir(one).with_suffix(".aside")
    cluster.data_dir(one).rename(aside)
    cluster.data_dir(other).rename(cluster.data_dir(one))
    aside.rename(cluster.data_dir(other))
