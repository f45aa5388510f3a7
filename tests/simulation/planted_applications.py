"""Bugs of applications that the simulator must find; see tests.simulation.planted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from ordo.applications.app_executor import AppExecutor
from ordo.applications.app_queries import AppQueries
from ordo.applications.difference_reports import DifferenceReports
from ordo.applications.elected_outputs import ElectedRequests
from ordo.applications.outputs import GROUP_INCARNATION, GroupRequests
from ordo.cluster.container.tables.difference_table import DifferenceTable
from ordo.cluster.container.tables.instance_table import InstanceTable
from ordo.cluster.module.sessions.group_queries import GroupQueries
from ordo.service_api import requests
from ordo.service_api.request_ids import RequestIds

Patch = Callable[[Any, str, Any], None]


def checkpoints_forget_outputs_under_way(patch: Patch) -> None:
    """What an instance had made, and nobody had executed when it died, is not made again."""
    original = AppExecutor._restore

    def restore(self: AppExecutor, messages: Any) -> None:
        original(self, messages)
        self.cluster.pending.clear()

    patch(AppExecutor, "_restore", restore)


def instances_do_not_know_what_the_others_wrote(patch: Patch) -> None:
    """An instance takes its outputs for executed as soon as it has sent them."""
    original = GroupRequests.push

    def push(self: GroupRequests, output: Any) -> None:
        original(self, output)
        self.work(0)
        self.note_executed(self.next_number - 1)

    patch(GroupRequests, "push", push)


class _WithoutOutputs(RequestIds):
    """As if the log never came to the level of outputs with ids."""

    @property
    def takes_outputs(self) -> bool:
        return False

    @takes_outputs.setter
    def takes_outputs(self, value: bool) -> None: ...


def members_do_not_look_at_the_ids_of_outputs(patch: Patch) -> None:
    """What an application writes twice with one id is executed twice."""
    patch(requests, "RequestIds", _WithoutOutputs)


def instances_send_outputs_again_without_their_ids(patch: Patch) -> None:
    """An instance that takes up a checkpoint has lost which ids its outputs had."""
    original = AppExecutor._restore

    def restore(self: AppExecutor, messages: Any) -> None:
        original(self, messages)
        self.cluster.pending = deque(one._replace(id_digest=b"") for one in self.cluster.pending)

    patch(AppExecutor, "_restore", restore)


def snapshots_forget_what_instances_reported(patch: Patch) -> None:
    """A member that was restored knows of no instance before the next report."""
    patch(InstanceTable, "restore", lambda *_: None)


def checkpoints_forget_which_code_executes(patch: Patch) -> None:
    """An instance that starts again begins with its first code."""
    original = AppExecutor._restore

    def restore(self: AppExecutor, messages: Any) -> None:
        original(self, messages)
        self.app_version = self._versions.lowest

    patch(AppExecutor, "_restore", restore)


def checkpoints_forget_what_is_not_told(patch: Patch) -> None:
    """What a canary had found, and not told when it died, it does not find again behind its checkpoint."""
    patch(DifferenceReports, "snapshot", lambda *_: iter(()))


def snapshots_forget_what_canaries_told(patch: Patch) -> None:
    """A member that was restored knows of no difference but those that are told from then on."""
    patch(DifferenceTable, "restore", lambda *_: None)


def two_instances_are_active(patch: Patch) -> None:
    """Whoever stands for election takes the generation that is there for its own."""
    original = ElectedRequests.attend_election

    def attend_election(self: ElectedRequests, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        self._incarnation, self.ends_generation = GROUP_INCARNATION, 0

    patch(ElectedRequests, "attend_election", attend_election)


def nobody_takes_over(patch: Patch) -> None:
    """A writer that is gone is waited for."""
    original = ElectedRequests.attend_election

    def attend_election(self: ElectedRequests, identity: Any, *, is_writer_there: bool, is_up_to_date: bool) -> None:
        has_writer = is_writer_there or identity is not None
        original(self, identity, is_writer_there=has_writer, is_up_to_date=is_up_to_date)

    patch(ElectedRequests, "attend_election", attend_election)


def applications_are_asked_for_no_position(patch: Patch) -> None:
    """The leader hands linearizable queries of a group to whichever instance, however far it is behind."""
    original = GroupQueries.ask

    def ask(self: GroupQueries, query: Any, read_position: int, now_ns: int) -> Any:
        return original(self, query, -1, now_ns)

    patch(GroupQueries, "ask", ask)


def instances_answer_for_a_position_they_have_not_come_to(patch: Patch) -> None:
    """An instance answers at once, and says that its state is that of the position it was asked for."""
    original = AppQueries.work

    def work(self: AppQueries, session: Any, position: int, now_ns: int, *, is_up_to_date: bool) -> int:
        wanted = max([position, *(one.read_position for one in session.questions)])
        return original(self, session, wanted, now_ns, is_up_to_date=is_up_to_date)

    patch(AppQueries, "work", work)
