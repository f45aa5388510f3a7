"""Sends every message back to its session: what the benchmarks measure."""

import time

from service_api.native import Header
from service_api.service import ClientSession, Cluster, ClusteredService, OfferResult
from service_api.snapshot import SnapshotReader, SnapshotWriter

OFFER_TIMEOUT_NS = 1_000_000_000
OFFER_PAUSE_S = 0.00005


class Echo(ClusteredService):
    """Holds no state. A session that does not take an echo within `OFFER_TIMEOUT_NS` loses it."""

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self._cluster = cluster

    def on_session_message(self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header) -> None:
        if session is None:
            return
        result = session.offer(payload)
        if result in (OfferResult.BACK_PRESSURED, OfferResult.ADMIN_ACTION):
            self._offer_again(session, payload)

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        """There is nothing to keep."""

    def _offer_again(self, session: ClientSession, payload: bytes) -> None:
        """Egress is not part of the state, so the clock of this machine may be looked at."""
        deadline_ns = time.monotonic_ns() + OFFER_TIMEOUT_NS
        while time.monotonic_ns() < deadline_ns:
            self._cluster.idle()
            if session.offer(payload) not in (OfferResult.BACK_PRESSURED, OfferResult.ADMIN_ACTION):
                return
            time.sleep(OFFER_PAUSE_S)
