"""An instance's reports about itself, for `ordo apps`: at each change, but at most once per interval."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ordo.applications.app_versions import AppVersions
from ordo.cluster.wire.sessions.instance_codec import (
    NOT_COUNTED,
    InstanceReport,
    ReportFlag,
    encode_refused,
    encode_report,
)

NO_SESSION = (-1, -1)


class ReportSession(Protocol):
    """What reports need of the session that carries them."""

    @property
    def session_id(self) -> int: ...
    @property
    def leadership_term_id(self) -> int: ...
    def offer_report(self, message: bytes) -> bool:
        """Return whether the leader's ingress has taken it."""


class InstanceState(NamedTuple):
    """How far an instance is."""

    executed_position: int
    """After the last entry that its service has seen; reports themselves are none."""
    outputs_made: int
    outputs_executed: int
    is_active: bool
    app_version: int
    outputs_refused: int = 0
    """Refused by the service in the cluster since the instance started."""
    counts_refused: bool = False
    """Whether the log may have reports with their exact number."""


class InstanceReports:
    """The reports of one instance."""

    def __init__(self, group: str, instance: str, versions: AppVersions, interval_ns: int, *, is_canary: bool) -> None:
        self._group = group
        self._instance = instance
        self._newest_version = versions.newest
        self._flags = ReportFlag.CANARY if is_canary else ReportFlag.NONE
        self._interval_ns = interval_ns
        self._due_ns = 0
        self._session = NO_SESSION
        self.reported: InstanceState | None = None
        """What was said last in this session and leadership term; an earlier term's leader may have lost it."""

    def work(self, session: ReportSession, state: InstanceState, position: int, now_ns: int) -> None:
        """Report a new state, at once in a new session or term. `position`: up to here the log was read."""
        where = session.session_id, session.leadership_term_id
        if where != self._session:
            self._session, self.reported = where, None
        is_first = self.reported is None
        if state == self.reported or (now_ns < self._due_ns and not is_first) or session.session_id < 0:
            return
        report = InstanceReport(
            self._group,
            self._instance,
            session.session_id,
            0,
            position,
            state.outputs_made,
            state.outputs_executed,
            state.app_version,
            self._flags_of(state),
            self._newest_version,
            state.outputs_refused if state.counts_refused else NOT_COUNTED,
        )
        if session.offer_report(encode_report(report, session.leadership_term_id)):
            self.reported, self._due_ns = state, now_ns + self._interval_ns

    def _flags_of(self, state: InstanceState) -> int:
        active = ReportFlag.ACTIVE if state.is_active else ReportFlag.NONE
        refused = ReportFlag.REFUSED if state.outputs_refused else ReportFlag.NONE
        return self._flags | active | refused | encode_refused(state.outputs_refused)
