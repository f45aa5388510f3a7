"""Puts together what answers operators, tools and backups that ask one member."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ordo.cluster.module.client_parts import SESSION_ID_MAX
from ordo.cluster.module.operators.backup_description import BackupDescription
from ordo.cluster.module.operators.backup_queries import BackupQueries
from ordo.cluster.module.operators.member_report import Details
from ordo.cluster.module.operators.operators import MemberAnswers, Operators
from ordo.cluster.module.operators.self_report import SelfLook
from ordo.cluster.module.operators.tool_questions import ToolQuestions
from ordo.cluster.wire.log_identity import identity_text

if TYPE_CHECKING:
    from ordo.cluster.module.log_rules import LogRules
    from ordo.cluster.module.member_parts import Foundation
    from ordo.cluster.module.members.membership import Membership
    from ordo.cluster.module.sessions.sessions import OpenSessions
    from ordo.cluster.module.snapshots.held_snapshots import SnapshotShelf
    from ordo.cluster.module.snapshots.snapshot_agreement import SnapshotAgreement
    from ordo.cluster.module.state.own_member import OwnMember
    from ordo.runtime.security.authentication import Authenticator


@dataclass(frozen=True)
class OperatorParts:
    """What operators and backups reach of one member."""

    member: OwnMember
    answers: MemberAnswers
    operators: Operators
    backups: BackupQueries

    @property
    def has_work(self) -> bool:
        """Whether an operator or backup waits for the next slow tick."""
        return self.operators.has_work or self.backups.has_work

    def on_stranger(self, source_identity: str, message: bytes) -> None:
        """Take a message from outside the members, such as a backup's. Raises DecodeError."""
        self.backups.on_message(message, source_identity, self.member.cluster_time_ms)

    def work(self, now_ms: int) -> None:
        """Answer those that wait; called with every slow tick."""
        self.operators.work(now_ms)
        self.backups.work(now_ms)


def _make_answers(
    base: Foundation, sessions: OpenSessions, shelf: SnapshotShelf, rules: LogRules, membership: Membership
) -> MemberAnswers:
    core, sequencer, seams = base.core, base.sequencer, base.seams
    found = SelfLook(
        base.member.member_id,
        base.replication,
        base.counters,
        sessions,
        shelf,
        rules.skips,
        seams.client.counters,
        seams.look,
    )
    details = Details(core, base.log, sequencer, sessions, rules.levels, rules.hashes, shelf, seams.errors)

    def describe() -> dict[str, object]:
        origin = rules.identity.origin
        return {**details.describe(), "identity": "" if origin is None else identity_text(origin)}

    questions = ToolQuestions(base.member, core, membership, rules.skips, rules.versions, seams.clock)
    return MemberAnswers(found.look, found.list_skipped, describe, questions.answer)


def make_operator_parts(
    base: Foundation,
    authenticator: Authenticator | None,
    sessions: OpenSessions,
    shelf: SnapshotShelf,
    agreement: SnapshotAgreement,
    rules: LogRules,
    membership: Membership,
) -> OperatorParts:
    """Build what answers operators and backups."""
    member, client, counters, random = base.member, base.seams.client, base.counters, base.seams.random
    answers = _make_answers(base, sessions, shelf, rules, membership)
    ids, backup_ids = random.secret("operators"), random.secret("backups")
    operators = Operators(
        member, answers, client, counters.control_toggle, authenticator, lambda: ids.randint(1, SESSION_ID_MAX)
    )
    described = BackupDescription(
        member.member_id, base.core, base.log, shelf, agreement, membership, counters.commit_position
    )
    backups = BackupQueries(
        member, described.describe, client, authenticator, lambda: backup_ids.randint(1, SESSION_ID_MAX)
    )
    return OperatorParts(member, answers, operators, backups)
