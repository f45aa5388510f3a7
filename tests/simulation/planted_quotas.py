"""Planted bugs of quotas (see `planted.py`)."""

from __future__ import annotations

from ordo.cluster.module.sessions.session_quotas import SessionQuotas
from tests.simulation.planted import Patch


def what_is_over_a_quota_is_thrown_away(patch: Patch) -> None:
    """A message that waits for its quota never comes into the log, and those behind it do."""
    original = SessionQuotas.work

    def work(self: SessionQuotas, now_ns: int) -> None:
        original(self, now_ns)
        for number, _ in self._sequencer.quotas.list_held(now_ns):
            session = self._sessions.get(self._holders.get(number, -1))
            if session is not None and session.ingress_image is not None:
                session.ingress_image.poll_messages(lambda *_: None, 1)

    patch(SessionQuotas, "work", work)
