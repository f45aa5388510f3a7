"""Gives sessions their accounts of quotas and their lanes, and tells clients that have to wait why.

The Sequencer asks for the account of a session at its first message, and counts there (ordo.sequencer.quotas). What is
over a quota waits in its image: nothing here decides about a message, is replicated, or outlives a leadership.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.cluster.wire.sessions.ingress_notice import FREE_NOTICE, encode_held
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.native.time_units import MILLISECOND_NS, SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ordo.cluster.module.sessions.quota_settings import PrincipalSettings, QuotaSettings
    from ordo.cluster.module.sessions.session_notices import SessionNotices
    from ordo.cluster.module.sessions.sessions import OpenSessions
    from ordo.runtime.native.counters import Counter
    from ordo.sequencer.sequencer import Sequencer
    from ordo.transport.client.client import TransportClient
    from ordo.transport.streams.image import Image

LOOK_INTERVAL_NS = 100 * MILLISECOND_NS
"""How often held sessions are looked for; a session that is held for so long is told."""
TOUCH_INTERVAL_NS = 500 * MILLISECOND_NS


@dataclass(frozen=True)
class QuotaCounters:
    """The counters of what quotas hold back."""

    sessions: Counter
    """Sessions whose messages wait now."""
    holds: Counter
    """How often a message was left in its stream."""

    @classmethod
    def of(cls, client: TransportClient, cluster_id: int) -> QuotaCounters:
        """Return a member's counters, made just now."""
        key = struct.pack("<i", cluster_id)
        named = {
            CounterType.QUOTA_SESSIONS: "ordo sessions that a quota holds back",
            CounterType.QUOTA_HOLDS: "ordo messages that waited for a quota",
        }
        return cls(
            *(client.add_counter(int(one), f"{name} - clusterId={cluster_id}", key) for one, name in named.items())
        )


class SessionQuotas:
    """The quotas of one member's sessions, while it leads."""

    def __init__(
        self,
        common: QuotaSettings,
        named: Sequence[PrincipalSettings],
        sequencer: Sequencer,
        sessions: OpenSessions,
        notices: SessionNotices,
        counters: QuotaCounters,
    ) -> None:
        """Take the member's parts, and the quotas: those of everybody, and those of `named` principals."""
        self._common = common
        self._named = {one.name.encode(): one for one in named}
        self._sequencer = sequencer
        self._sessions = sessions
        self._notices = notices
        self._counters = counters
        self._accounts: dict[int, int] = {}
        """Accounts by the ids of their sessions."""
        self._holders: dict[int, int] = {}
        """Session ids by their accounts."""
        self._payers: dict[bytes, int] = {}
        """Accounts by their principals."""
        self._told: set[int] = set()
        """Sessions that were told that they have to wait."""
        self._look_ns = self._forget_ns = self._touch_ns = 0
        if common.bounds_anything or named:
            sequencer.quotas.count_sessions()

    def open_account(self, session_id: int, image: Image) -> int:
        """Return the account of a session that speaks through an image, and give the image its lane."""
        session = self._sessions.get(session_id)
        if session is None:
            return NULL_VALUE
        principal = session.encoded_principal
        if (named := self._named.get(principal)) is not None:
            self._sequencer.set_lane(image, named.weight, named.first)
        if session_id not in self._accounts:
            messages, size_bytes = self._bounds_of_session(principal)
            account = self._sequencer.quotas.open(messages, size_bytes, self._payer_of(principal))
            self._accounts[session_id], self._holders[account] = account, session_id
        return self._accounts[session_id]

    def _payer_of(self, principal: bytes) -> int:
        messages, size_bytes = self._bounds_of_principal(principal)
        if not (messages or size_bytes):
            return NULL_VALUE
        if principal not in self._payers:
            self._payers[principal] = self._sequencer.quotas.open(messages, size_bytes)
        return self._payers[principal]

    def _bounds_of_session(self, principal: bytes) -> tuple[int, int]:
        """Return the messages and bytes a second that each session of a principal may append; 0: any."""
        own, common = self._named.get(principal), self._common
        if own is None:
            return common.session_messages, common.session_bytes
        return _choose(own.session_messages, common.session_messages), _choose(own.session_bytes, common.session_bytes)

    def _bounds_of_principal(self, principal: bytes) -> tuple[int, int]:
        """Return the same of all its sessions together."""
        own, common = self._named.get(principal), self._common
        if own is None:
            return common.principal_messages, common.principal_bytes
        return _choose(own.messages, common.principal_messages), _choose(own.bytes, common.principal_bytes)

    # -- time ----------------------------------------------------------------------------------------------------------

    def work(self, now_ns: int) -> None:
        """Tell the sessions that wait, and those that do not wait any more; called with every slow tick."""
        quotas = self._sequencer.quotas
        if not quotas.has_accounts or now_ns < self._look_ns:
            return
        self._look_ns = now_ns + LOOK_INTERVAL_NS
        if now_ns >= self._forget_ns:
            self._forget_ns = now_ns + SECOND_NS
            self._forget(now_ns)
        found = quotas.list_held(now_ns)
        if self._sequencer.leading_term_id == NULL_VALUE:
            found = []
            self._told.clear()
        self._tell({number for number, since_ns in found if now_ns - since_ns >= LOOK_INTERVAL_NS})
        if now_ns >= self._touch_ns:
            self._touch_ns = now_ns + TOUCH_INTERVAL_NS
            self._keep_open(number for number, _ in found)
        self._counters.holds.set(quotas.held_count)
        self._counters.sessions.set(len(self._told))

    def _forget(self, now_ns: int) -> None:
        """Close the accounts of sessions that are over, and of principals without any that owe nothing."""
        quotas = self._sequencer.quotas
        for session_id in [one for one in self._accounts if self._sessions.get(one) is None]:
            account = self._accounts.pop(session_id)
            del self._holders[account]
            quotas.close(account)
        for principal, account in list(self._payers.items()):
            if not self._sessions.count_of_principal(principal) and quotas.is_settled(account, now_ns):
                quotas.close(self._payers.pop(principal))

    def _keep_open(self, held: Iterable[int]) -> None:
        """Keep open the sessions that wait: what keeps them alive waits, too, maybe for longer than a timeout."""
        for account in held:
            if (session_id := self._holders.get(account)) is not None:
                self._notices.touch_stream(session_id)

    def _tell(self, held: set[int]) -> None:
        waiting = {self._holders[account] for account in held if account in self._holders}
        for session_id in sorted(waiting - self._told):
            if (session := self._sessions.get(session_id)) is not None:
                payer = self._payers.get(session.encoded_principal, NULL_VALUE)
                self._notices.notify(session, encode_held(self._describe(session.encoded_principal, payer in held)))
        for session_id in sorted(self._told - waiting):
            if (session := self._sessions.get(session_id)) is not None:
                self._notices.notify(session, FREE_NOTICE)
        self._told = waiting

    def _describe(self, principal: bytes, is_of_principal: bool) -> str:
        messages, size_bytes = (self._bounds_of_principal if is_of_principal else self._bounds_of_session)(principal)
        bounds = [f"{messages} messages"] * bool(messages) + [f"{size_bytes} bytes"] * bool(size_bytes)
        whose = f"all sessions of {principal.decode(errors='replace')!r}" if is_of_principal else "this session"
        return f"the quota of {whose} is used up: {' and '.join(bounds)} a second"


def _choose(own: int | None, common: int) -> int:
    return common if own is None else own
