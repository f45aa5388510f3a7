"""Asks members which code their containers have, and answers those who ask."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from cluster.module.sessions import NULL_VALUE
from cluster.wire import ordo_codecs
from cluster.wire.app_version import NO_VERSION
from cluster.wire.levels import FIRST_LEVEL
from cluster.wire.version_rows import LEVEL_UNKNOWN, Code, MemberCode, MemberLevel, decode_codes, encode_codes

if TYPE_CHECKING:
    from cluster.module.contacts import Contacts
    from cluster.module.protocol_level import ProtocolLevel
    from consensus.core import ConsensusCore
    from runtime.sbe import Message

MILLISECOND_NS = 1_000_000
REPEAT_INTERVAL_NS = 100 * MILLISECOND_NS
TIMEOUT_NS = 2_000 * MILLISECOND_NS
"""Who has not answered by then counts as having said nothing."""

Done = Callable[[list[MemberCode]], None]


class VersionSurvey:
    """One question at a time; a later one takes in those who wait for the one before it."""

    def __init__(
        self,
        core: ConsensusCore,
        contacts: Contacts,
        levels: ProtocolLevel,
        own_id: int,
        find_lack: Callable[[], tuple[int, int]],
    ) -> None:
        """`find_lack`: position and version of what the own service stands still for, or NULL_VALUE and NO_VERSION."""
        self._core = core
        self._contacts = contacts
        self._own_id = own_id
        self._protocol = levels
        self._find_lack = find_lack
        self._request_id = 0
        self._asked: frozenset[int] = frozenset()
        self._answers: dict[int, list[MemberCode]] = {}
        self._levels: dict[int, int] = {}
        self._waiting: list[Done] = []
        self._deadline_ns = 0
        self._next_ask_ns = 0
        self.own: list[Code] = []
        """What the own container has said; empty until it has started."""
        self.handlers: dict[Message, Callable[[Any, int], None]] = {
            ordo_codecs.VERSIONS_QUESTION: self._on_question,
            ordo_codecs.VERSIONS_REPORT: self._on_report,
        }

    def begin(self, member_ids: Collection[int], done: Done, now_ns: int) -> None:
        """Asks these members anew; `done` gets a row for each version of each, and one with none of who is silent."""
        self._request_id = max(self._request_id + 1, now_ns)  # no answer to an earlier life is taken for one to this
        self._asked = self._asked | frozenset(member_ids) if self._waiting else frozenset(member_ids)
        self._answers = {}
        self._levels = {self._own_id: self._protocol.own_level}
        self._waiting.append(done)
        self._deadline_ns = now_ns + TIMEOUT_NS
        self._next_ask_ns = now_ns

    def levels_of(self, member_ids: Collection[int]) -> list[MemberLevel]:
        """What members have said in answer to the newest question of the protocol levels of their releases."""
        return [MemberLevel(one, self._levels.get(one, LEVEL_UNKNOWN)) for one in sorted(member_ids)]

    def _rows(self, member_id: int, codes: list[Code], lack: tuple[int, int]) -> list[MemberCode]:
        is_voter = int(member_id in self._core.configuration.voter_ids)
        return [
            MemberCode(member_id, is_voter, number, *lack)
            for number in [code.app_version for code in codes] or [NO_VERSION]
        ]

    def _on_question(self, question: Any, now_ns: int) -> None:
        position, version = self._find_lack()
        self._contacts.send(
            question.member_id,
            ordo_codecs.VERSIONS_REPORT.encode(
                request_id=question.request_id,
                lack_position=position,
                member_id=self._own_id,
                follower_member_id=question.member_id,
                lack_version=version,
                protocol_level=self._protocol.own_level,
                versions=encode_codes(self.own),
            ),
        )

    def _on_report(self, report: Any, now_ns: int) -> None:
        """Raises DecodeError."""
        is_awaited = bool(self._waiting) and report.request_id == self._request_id
        if not is_awaited or report.follower_member_id != self._own_id or report.member_id not in self._asked:
            return
        codes = decode_codes(report.versions)
        if report.protocol_level >= FIRST_LEVEL:  # others have a release that does not say it
            self._levels[report.member_id] = report.protocol_level
        if codes:
            lack = report.lack_position, report.lack_version
            self._answers[report.member_id] = self._rows(report.member_id, codes, lack)

    def work(self, now_ns: int) -> None:
        """Called with every slow tick."""
        if not self._waiting:
            return
        if self.own:
            self._answers[self._own_id] = self._rows(self._own_id, self.own, self._find_lack())
        if self._asked <= self._answers.keys() or now_ns >= self._deadline_ns:
            self._end()
        elif now_ns >= self._next_ask_ns:
            self._next_ask_ns = now_ns + REPEAT_INTERVAL_NS
            question = ordo_codecs.VERSIONS_QUESTION.encode(request_id=self._request_id, member_id=self._own_id)
            for member_id in sorted(self._asked - self._answers.keys() - {self._own_id}):
                self._contacts.send(member_id, question)

    def _end(self) -> None:
        silent = NULL_VALUE, NO_VERSION
        found = [row for one in sorted(self._asked) for row in self._answers.get(one) or self._rows(one, [], silent)]
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(found)
