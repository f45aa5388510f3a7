"""Asks members which code the containers of their services have, and answers members that ask."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.app_version import NO_VERSION
from ordo.cluster.wire.levels import FIRST_LEVEL
from ordo.cluster.wire.version_rows import (
    LEVEL_UNKNOWN,
    Code,
    MemberCode,
    MemberLevel,
    decode_codes,
    decode_services,
    encode_codes,
    encode_services,
    shared_codes,
)
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.native.time_units import MILLISECOND_NS
from ordo.runtime.sbe import bind

if TYPE_CHECKING:
    from ordo.cluster.module.state.peers import Contacts
    from ordo.cluster.module.versions.protocol_level import ProtocolLevel
    from ordo.cluster.wire import records
    from ordo.consensus.core import ConsensusCore
    from ordo.runtime.sbe import Message

REPEAT_INTERVAL_NS = 100 * MILLISECOND_NS
TIMEOUT_NS = 2_000 * MILLISECOND_NS
"""Who has not answered by then counts as having said nothing."""

Done = Callable[[list[MemberCode]], None]


class VersionSurvey:
    """Asks one question at a time; a later one also answers the callers of the one before it."""

    def __init__(
        self,
        core: ConsensusCore,
        contacts: Contacts,
        levels: ProtocolLevel,
        own_id: int,
        service_count: int,
        find_lack: Callable[[int], tuple[int, int]],
    ) -> None:
        """Take the member's parts.

        `find_lack` returns position and version of what an own service, by its id, stands still for, or NULL_VALUE and
        NO_VERSION.
        """
        self._core = core
        self._contacts = contacts
        self._own_id = own_id
        self._protocol = levels
        self._service_ids = range(service_count)
        self._find_lack = find_lack
        self._request_id = 0
        self._asked: frozenset[int] = frozenset()
        self._answers: dict[int, list[MemberCode]] = {}
        self._levels: dict[int, int] = {}
        self._waiting: list[Done] = []
        self._deadline_ns = 0
        self._next_ask_ns = 0
        self.own: dict[int, list[Code]] = {}
        """Keyed by service: what this member's containers have reported, each since it started."""
        self.handlers: dict[Message, Callable[[Any, int], None]] = dict(
            (
                bind(ordo_codecs.VERSIONS_QUESTION, self._on_question),
                bind(ordo_codecs.VERSIONS_REPORT, self._on_report),
            )
        )

    def begin(self, member_ids: Collection[int], done: Done, now_ns: int) -> None:
        """Ask these members again.

        `done` gets a row for each version of each service, and for a silent member one row without a version for each
        service.
        """
        self._request_id = max(self._request_id + 1, now_ns)  # no answer to an earlier life is taken for one to this
        self._asked = self._asked | frozenset(member_ids) if self._waiting else frozenset(member_ids)
        self._answers = {}
        self._levels = {self._own_id: self._protocol.own_level}
        self._waiting.append(done)
        self._deadline_ns = now_ns + TIMEOUT_NS
        self._next_ask_ns = now_ns

    def levels_of(self, member_ids: Collection[int]) -> list[MemberLevel]:
        """Return the protocol levels that members have named in answer to the newest question."""
        return [MemberLevel(one, self._levels.get(one, LEVEL_UNKNOWN)) for one in sorted(member_ids)]

    def _own_rows(self) -> list[MemberCode]:
        """Return the rows of this member's services; nothing until all have reported."""
        if self.own.keys() != set(self._service_ids):
            return []
        lacks = {one: self._find_lack(one) for one in self._service_ids}
        return [
            MemberCode(self._own_id, 0, code.app_version, *lacks[one], one)
            for one in self._service_ids
            for code in self.own[one]
        ]

    def _complete(self, member_id: int, rows: list[MemberCode]) -> list[MemberCode]:
        """Return the rows by service, with a row for each service that has no code, or about which nothing is known."""
        is_voter = int(member_id in self._core.configuration.voter_ids)
        silent = MemberCode(member_id, is_voter, NO_VERSION, NULL_VALUE, NO_VERSION)
        return [
            row._replace(member_id=member_id, is_voter=is_voter)
            for one in self._service_ids
            for row in [it for it in rows if it.service_id == one] or [silent._replace(service_id=one)]
        ]

    def _on_question(self, question: records.VersionsQuestion, now_ns: int) -> None:
        rows = self._own_rows()
        shared = shared_codes([self.own[one] for one in self._service_ids]) if rows else []
        first = min((row for row in rows if row.lack_position >= 0), key=lambda row: row.lack_position, default=None)
        self._contacts.send(
            question.member_id,
            ordo_codecs.VERSIONS_REPORT.encode(
                request_id=question.request_id,
                lack_position=NULL_VALUE if first is None else first.lack_position,
                member_id=self._own_id,
                follower_member_id=question.member_id,
                lack_version=NO_VERSION if first is None else first.lack_version,
                protocol_level=self._protocol.own_level,
                versions=encode_codes(shared),
                services=encode_services(rows),
            ),
        )

    def _on_report(self, report: records.VersionsReport, now_ns: int) -> None:
        """Take a member's report. Raises DecodeError."""
        is_awaited = bool(self._waiting) and report.request_id == self._request_id
        if not is_awaited or report.follower_member_id != self._own_id or report.member_id not in self._asked:
            return
        rows = decode_services(report.services) or self._rows_of_all(report)
        if report.protocol_level >= FIRST_LEVEL:  # others have a release that does not say it
            self._levels[report.member_id] = report.protocol_level
        if rows:
            self._answers[report.member_id] = self._complete(report.member_id, rows)

    def _rows_of_all(self, report: records.VersionsReport) -> list[MemberCode]:
        """Return rows from a release that reports only what all its services have. Raises DecodeError."""
        lack, codes = (report.lack_position, report.lack_version), decode_codes(report.versions)
        return [MemberCode(0, 0, code.app_version, *lack, one) for one in self._service_ids for code in codes]

    def work(self, now_ns: int) -> None:
        """Advance the question under way; called with every slow tick."""
        if not self._waiting:
            return
        if rows := self._own_rows():
            self._answers[self._own_id] = self._complete(self._own_id, rows)
        if self._asked <= self._answers.keys() or now_ns >= self._deadline_ns:
            self._end()
        elif now_ns >= self._next_ask_ns:
            self._next_ask_ns = now_ns + REPEAT_INTERVAL_NS
            question = ordo_codecs.VERSIONS_QUESTION.encode(request_id=self._request_id, member_id=self._own_id)
            for member_id in sorted(self._asked - self._answers.keys() - {self._own_id}):
                self._contacts.send(member_id, question)

    def _end(self) -> None:
        found = [row for one in sorted(self._asked) for row in self._answers.get(one) or self._complete(one, [])]
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(found)
