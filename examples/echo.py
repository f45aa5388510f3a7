"""Sends every message back to its session: what the benchmarks measure."""

from service_api.native import Header
from service_api.service import ADMIN_ACTION, BACK_PRESSURED, ClientSession, Cluster, ClusteredService
from service_api.snapshot import SnapshotReader

OFFER_ATTEMPTS_MAX = 1_000


class Echo(ClusteredService):
    """Holds no state. A session that does not take an echo in `OFFER_ATTEMPTS_MAX` attempts loses it."""

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self._cluster = cluster

    def on_session_message(self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header) -> None:
        if session is None:
            return
        result = session.offer(payload)
        if result in (BACK_PRESSURED, ADMIN_ACTION):
            self._offer_again(session, payload)

    def _offer_again(self, session: ClientSession, payload: bytes) -> None:
        for _ in range(OFFER_ATTEMPTS_MAX):
            self._cluster.idle()
            if session.offer(payload) not in (BACK_PRESSURED, ADMIN_ACTION):
                return
