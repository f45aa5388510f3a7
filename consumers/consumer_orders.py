"""Orders to durable consumers, and reports of them and of applications (docs/CONSUMERS.md, docs/APPLICATIONS.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from ordo.cluster.client.connection.endpoints import archive_endpoint, check_list
from ordo.cluster.client.opening import open_transport
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.wire.app_version import format_version, format_versions
from ordo.cluster.wire.sessions.consumer_codec import CommandKind, ConsumerAnswer, ConsumerCommand, ConsumerStatus
from ordo.consumers.consumer_link import ConsumerClient
from ordo.consumers.names import check_group, check_name, draw_member_key
from ordo.runtime.closing import Closing
from ordo.runtime.errors import (
    ArchiveTimeoutError,
    ClusterError,
    NoQuorumError,
    NotPermittedError,
    OrdoError,
    OutcomeUnknownError,
)
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from ordo.archive.client.settings import ArchiveClientSettings
    from ordo.follow.position_check import PositionCheck
    from ordo.follow.start_search import StartSearch

PARK_NS = 1_000_000
SILENCE_S = 2.0


class ConsumerOrders(Closing):
    """A session for orders; a context.

    Every call raises NoQuorumError when no member leads in time, OutcomeUnknownError when the order was sent and no
    answer came, NotPermittedError when the role does not suffice, ClusterError when there is no such consumer or it
    cannot be done, ConfigurationError for a name that no consumer may have.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        settings: ClientSettings | None = None,
        timeout_s: float = 10.0,
        archives: Sequence[ArchiveClientSettings] = (),
    ) -> None:
        """`endpoints`: the first `host:port` of each member.

        `timeout_s`: of one call. `archives`: where the log is read, to check positions; by default the members' last
        ports, with the client's credentials.
        """
        check_list("endpoints", endpoints)
        self._timeout_ns = round(timeout_s * 1e9)
        self._key = draw_member_key()
        self._number = 0
        self._answer: ConsumerAnswer | None = None
        chosen = replace(settings or ClientSettings(), reconnect=False)
        self._transport = open_transport(None, chosen, "consumer orders")
        self._named_archives, self._endpoints, self._credentials = list(archives), list(endpoints), chosen.credentials
        try:
            self._session = ConsumerClient(list(endpoints), settings=chosen, transport=self._transport)
        except OrdoError:
            self._transport.close()
            raise
        self._session.on_answer = self._on_answer

    def list_all(self) -> list[dict[str, Any]]:
        """Every consumer, by name.

        `name`, `mode`, `position`, `log_position`, `lag` (bytes), `paused`, `epoch`, `members` (how many); of a shared
        one also `in_flight`, `waiting`, `dead` (counts) and `frontier`.
        """
        found: list[dict[str, Any]] = []
        while True:
            rows = json.loads(self._ask(ConsumerCommand(CommandKind.LIST, found[-1]["name"] if found else "")).text)
            if not rows:
                return found
            found += rows

    def describe(self, name: str) -> dict[str, Any]:
        """One consumer: as `list_all`, and its `sessions`, each with `session`, `active`, `in_flight`.

        Of a shared one also its settings and `dead_letters`, each with `position` and `tries`.
        """
        check_name(name)
        described = json.loads(self._ask(ConsumerCommand(CommandKind.DESCRIBE, name)).text)
        return dict(described)

    def list_instances(self) -> list[dict[str, Any]]:
        """Every instance of an application, by group, and then by session.

        `group`, `instance`, `session`, `active` (it writes), `canary` (it compares), `version` and `newest_version`
        (texts), `position`, `log_position`, `lag` (bytes), `outputs_made`, `outputs_executed`, as it said `reported_ms`
        ago.
        """
        names = ("version", "newest_version")
        return [{**one, **{name: format_version(one[name]) for name in names}} for one in self._ask_instances()]

    def _ask_instances(self) -> list[dict[str, Any]]:
        """Return the instances, with versions as numbers."""
        found: list[dict[str, Any]] = []
        while True:
            after = found[-1]["session"] if found else NULL_VALUE
            rows = json.loads(self._ask(ConsumerCommand(CommandKind.INSTANCES, position=after)).text)
            if not rows:
                return sorted(found, key=lambda row: (row["group"], row["session"]))
            found += rows

    def list_differences(self, group: str) -> list[dict[str, Any]]:
        """Return the newest differences that canaries of a group have reported, in that order.

        Each has `instance`, `version` (of the canary's code), `position` (of the input), `index` (of the output),
        `difference`, `written` and `canary` (how the payloads begin, as `repr` shows them; None: not written),
        `written_length` and `canary_length` (bytes, -1: not written), `found` (how many the canary has found since it
        started), `time` (ms since 1970) and `log_position` (where it was told). Raises ConfigurationError for what no
        group may be called.
        """
        check_group(group)
        found: list[dict[str, Any]] = []
        while True:
            after = found[-1]["log_position"] if found else NULL_VALUE
            rows = json.loads(self._ask(ConsumerCommand(CommandKind.DIFFERENCES, group, position=after)).text)
            if not rows:
                return found
            found += rows

    def upgrade_group(self, group: str, app_version: int) -> int:
        """Change all instances of a group to this version of their code, from one record of the log on.

        Returns the position of that record. Raises ClusterError when no instance runs, an instance has no such code, or
        they do not all execute the same version now.
        """
        check_group(group)
        rows = [one for one in self._ask_instances() if one["group"] == group and not one["canary"]]
        former = _find_former(group, rows, app_version)
        asked = ConsumerCommand(CommandKind.APP_UPGRADE, group, position=app_version, from_position=former)
        (position,) = json.loads(self._ask(asked).text)
        return int(position)

    def pause(self, name: str) -> None:
        """Its members are handed nothing until `resume`. Idempotent."""
        check_name(name)
        self._ask(ConsumerCommand(CommandKind.PAUSE, name))

    def resume(self, name: str) -> None:
        """End what `pause` began. Idempotent."""
        check_name(name)
        self._ask(ConsumerCommand(CommandKind.RESUME, name))

    def seek(self, name: str, to: int | Literal["first", "live"]) -> int:
        """Move the consumer, also while its members read; they continue from there. Return the position.

        A position is looked up in the log before, for which the token needs the role log as well; "first" is where a
        new consumer begins now. Raises ArchiveError for one at which no record begins, with those around it, and when
        no node could be asked: nothing was moved then. Raises ClusterError when its active member has changed
        meanwhile: the order is not repeated then.
        """
        self.describe(name)
        position = NULL_VALUE if to == "live" else self._find_first() if to == "first" else to
        if isinstance(to, int):
            self._check_position(to)
        epoch = self.describe(name)["epoch"]
        return self._ask(ConsumerCommand(CommandKind.SEEK, name, epoch=epoch, position=position)).position

    def _find_first(self) -> int:
        """Return where the log, or its oldest snapshot, begins; retention may have deleted the beginning."""
        from ordo.follow.start_search import StartSearch

        search = StartSearch(
            self._transport.client,
            self._archives(),
            None,
            SILENCE_S,
            self._session.known_cluster,
            decides=True,
        )
        self._look_up(search, lambda: search.position is not None)
        assert search.position is not None
        return search.position

    def _check_position(self, position: int) -> None:
        from ordo.follow.position_check import PositionCheck

        check = PositionCheck(self._transport.client, self._archives(), position, self._session.known_cluster)
        self._look_up(check, lambda: check.is_done)
        if check.error is not None:
            raise check.error

    def _archives(self) -> list[ArchiveClientSettings]:
        """Return where the log is read; orders that look nothing up there start without what reads archives."""
        from ordo.archive.client.settings import ArchiveClientSettings

        return self._named_archives or [
            ArchiveClientSettings.at(archive_endpoint(one), name="consumer orders", credentials=self._credentials)
            for one in self._endpoints
        ]

    def _look_up(self, search: StartSearch | PositionCheck, has_ended: Callable[[], bool]) -> None:
        """Run a search of the log to its end. Raises ArchiveError when it has none in time, or is not allowed."""
        deadline_ns = self._transport.clock.now() + self._timeout_ns
        try:
            while not has_ended():
                now_ns = self._transport.clock.now()
                if now_ns > deadline_ns:
                    raise ArchiveTimeoutError(f"the position could not be looked up in the log: {search.problem}")
                self._drive()
                search.work(now_ns)
                search.check_allowed()
        finally:
            search.close()
            self._transport.drive()

    def remove(self, name: str) -> None:
        """Forget the consumer; its members end with an error."""
        self.describe(name)
        try:
            self._ask(ConsumerCommand(CommandKind.REMOVE, name))
        except UnknownConsumerError:
            return  # an earlier copy of the order was carried out

    def _on_answer(self, answer: ConsumerAnswer) -> None:
        if answer.number == self._number and answer.member_key == self._key:
            self._answer = answer

    def _ask(self, command: ConsumerCommand) -> ConsumerAnswer:
        deadline_ns = self._transport.clock.now() + self._timeout_ns
        self._drive_until_connected(deadline_ns)
        self._number += 1
        self._session.ask(command._replace(member_key=self._key, number=self._number))
        while (answer := self._take_answer()) is None:
            if self._transport.clock.now() > deadline_ns:
                raise OutcomeUnknownError(
                    "no answer in time: the order may have been carried out, look before you repeat"
                )
            self._drive()
        return _checked(answer)

    def _take_answer(self) -> ConsumerAnswer | None:
        answer, self._answer = self._answer, None
        return answer

    def _drive_until_connected(self, deadline_ns: int) -> None:
        while not self._session.is_connected:
            if self._transport.clock.now() > deadline_ns:
                raise NoQuorumError("no member leads, or none of the endpoints is reached: nothing was sent")
            self._drive()

    def _drive(self) -> None:
        self._transport.drive()
        if self._session.poll() == 0:
            self._transport.park(PARK_NS)

    def close(self) -> None:
        """Idempotent."""
        self._session.close()
        self._transport.close()


class UnknownConsumerError(ClusterError):
    """There is no consumer of that name."""


def _find_former(group: str, rows: list[dict[str, Any]], app_version: int) -> int:
    """Return the version that all these instances execute. Raises ClusterError."""
    if not rows:
        raise ClusterError(f"group {group}: no instance runs: ordo apps shows those that do")
    lacking = [one["instance"] for one in rows if one["newest_version"] != app_version]
    if lacking:
        raise ClusterError(
            f"group {group}: version {format_version(app_version)} is not the newest code of {', '.join(lacking)}: "
            "start each instance again with the code of both versions before"
        )
    versions = sorted({int(one["version"]) for one in rows})
    if len(versions) > 1 or versions == [app_version]:
        raise ClusterError(f"group {group}: its instances execute version {format_versions(versions)} already")
    return versions[0]


def _checked(answer: ConsumerAnswer) -> ConsumerAnswer:
    if answer.status is ConsumerStatus.OK:
        return answer
    if answer.status is ConsumerStatus.NOT_ALLOWED:
        raise NotPermittedError(answer.text)
    if answer.status is ConsumerStatus.UNKNOWN:
        raise UnknownConsumerError(f"{answer.text}: ordo consumers list shows those that there are")
    raise ClusterError(answer.text)
