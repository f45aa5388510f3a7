"""A member's long report for operators: its newest terms, snapshots, sessions and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ordo.runtime.errors import OrdoError
from ordo.runtime.native.cluster_time import time_ms
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.transport.uri import ChannelUri

if TYPE_CHECKING:
    from ordo.cluster.module.log.log_keeper import LogKeeper
    from ordo.cluster.module.sessions.sessions import OpenSessions
    from ordo.cluster.module.snapshots.held_snapshots import SnapshotShelf
    from ordo.cluster.module.versions.protocol_level import ProtocolLevel
    from ordo.cluster.module.versions.state_hashes import StateHashes
    from ordo.cluster.wire.counters.component_errors import ComponentErrors
    from ordo.consensus.core import ConsensusCore
    from ordo.sequencer.sequencer import Sequencer

TERMS_MAX = 64
SNAPSHOTS_MAX = 32
SESSIONS_MAX = 36
ERRORS_MAX = 10
NAME_LENGTH_MAX = 40
TEXT_LENGTH_MAX = 160
"""The answer must fit into one message (PAYLOAD_BYTES_MAX of operators), whatever names and errors say."""


class Details:
    """Builds one member's long report."""

    def __init__(
        self,
        core: ConsensusCore,
        log: LogKeeper,
        sequencer: Sequencer,
        sessions: OpenSessions,
        levels: ProtocolLevel,
        hashes: StateHashes,
        shelf: SnapshotShelf,
        errors: ComponentErrors,
    ) -> None:
        self._core = core
        self._log = log
        self._sequencer = sequencer
        self._sessions = sessions
        self._levels = levels
        self._hashes = hashes
        self._shelf = shelf
        self._errors = errors

    def describe(self) -> dict[str, Any]:
        """Return the report.

        `terms`: rows of term id and base position; `snapshots`: rows of log position, term id and timestamp;
        `evidence`, `sessions` and `errors`: one object each, the newest last. `log_start` is the oldest position of the
        log; at `state_hash_position` a quorum was last known to have one state, -1: nowhere since the start.
        """
        return {
            "log_start": self._log.start_position,
            "protocol_level": self._levels.newest,
            "state_hash_position": self._hashes.agreed_position,
            "terms": self._core.terms[-TERMS_MAX:],
            "snapshots": [
                [one.log_position, one.leadership_term_id, time_ms(one.timestamp)]
                for one in reversed(self._shelf.valid()[:SNAPSHOTS_MAX])
            ],
            "evidence": [one.describe() for one in self._shelf.list_evidence()],
            "sessions": self._list_sessions(),
            "errors": [
                {"count": one.observation_count, "last_ms": one.last_ms, "text": _plain(one.text, TEXT_LENGTH_MAX)}
                for one in sorted(self._errors.read(), key=lambda one: one.last_ms)[-ERRORS_MAX:]
            ],
        }

    def _list_sessions(self) -> list[dict[str, Any]]:
        found = list(self._sessions)[-SESSIONS_MAX:]
        return [
            {
                "id": one.id,
                "opened": one.opened_log_position,
                "principal": _plain(one.encoded_principal.decode("utf-8", "replace"), NAME_LENGTH_MAX),
                "address": _plain(_address(one.response_channel), NAME_LENGTH_MAX),
                "active_ms": time_ms(self._last_activity(one.id)),
                **({"held": True} if self._is_held(one.id) else {}),
            }
            for one in found
        ]

    def _last_activity(self, session_id: int) -> int:
        """Return the cluster time of a session's newest message; only the leader knows it."""
        found = self._sequencer.sessions.get_activity(session_id)
        return NULL_VALUE if found is None else found

    def _is_held(self, session_id: int) -> bool:
        """Return whether a session's messages wait for a quota; only the leader knows it."""
        table, quotas = self._sequencer.sessions, self._sequencer.quotas
        return quotas.is_held(table.get_account(session_id))


def _address(channel: str) -> str:
    try:
        return ChannelUri.parse(channel).get("endpoint") or ""
    except OrdoError:
        return ""


def _plain(text: str, length_max: int) -> str:
    """Return as much of a text as there is room for, in one-byte characters."""
    return "".join(one if one.isascii() and one.isprintable() else " " if one.isspace() else "?" for one in text)[
        :length_max
    ]
