"""The matching engine as a clustered service: `ordo node --service ordo.matching.service:MatchingEngine`."""

from __future__ import annotations

from struct import Struct

import structlog

from ordo.matching.book import BUY, SELL, OrderBook
from ordo.matching.engine import MatchingCore
from ordo.matching.protocol import QUERY, REQUEST, TOP_OF_BOOK, Kind, decode_answer
from ordo.service_api.native import Header
from ordo.service_api.service import ClientSession, CloseReason, Cluster, ClusteredService, OfferResult
from ordo.service_api.snapshot import SnapshotReader, SnapshotWriter

_OWNER_COUNT = Struct("<I")
_OWNER = Struct("<Iq")  # client id, session id
REPORT_EVENT = "matching.state"


class MatchingEngine(ClusteredService):
    """Answers every request to its session, and tells the owners of resting orders what was executed.

    An answer that a session does not take is not sent again by itself: the client asks again, and gets the same answer
    (see `MatchingCore`). A REPORT request makes every replica log its state hash, with the position it holds for.
    """

    def __init__(self) -> None:
        self.core = MatchingCore()
        self._cluster: Cluster | None = None
        self._session_ids: dict[int, int] = {}  # by client id: where its last request came from

    def on_start(self, cluster: Cluster, snapshot: SnapshotReader | None) -> None:
        self._cluster = cluster
        if snapshot is None:
            return
        (count,) = _OWNER_COUNT.unpack(snapshot.read_exactly(_OWNER_COUNT.size))
        self._session_ids = dict(_OWNER.iter_unpack(snapshot.read_exactly(count * _OWNER.size)))
        self.core = MatchingCore.load([snapshot.read()])

    def on_session_message(self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header) -> None:
        if session is None:
            return
        applied = self.core.applied
        answer = self.core.apply(payload)
        if not answer:
            return
        if payload[0] == Kind.REPORT and self.core.applied != applied:
            self._report(answer, header.position)
        client_id = REQUEST.unpack_from(payload)[3]
        self._session_ids[client_id] = session.id
        if session.offer(answer) == OfferResult.ADMIN_ACTION:
            session.offer(answer)
        for owner_id, notice in self.core.executions:
            self._notify(owner_id, notice)

    def on_session_close(self, session: ClientSession, timestamp: int, close_reason: CloseReason) -> None:
        self._session_ids = {client: owner for client, owner in self._session_ids.items() if owner != session.id}

    def on_query(self, payload: bytes) -> bytes:
        """Return the top of a book (protocol.py)."""
        if len(payload) != QUERY.size:
            raise NotImplementedError(f"query of {len(payload)} bytes: an instrument has {QUERY.size}")
        book = self.core.books.get(QUERY.unpack(payload)[0], OrderBook())
        bid, ask = (next(iter(book.levels(side)), None) for side in (BUY, SELL))
        prices = [level.price if level else 0 for level in (bid, ask)]
        return TOP_OF_BOOK.pack(*prices, *(level.quantity if level else 0 for level in (bid, ask)))

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        owners = sorted(self._session_ids.items())
        writer.write(_OWNER_COUNT.pack(len(owners)) + b"".join(_OWNER.pack(*owner) for owner in owners))
        for chunk in self.core.dump():
            writer.write(chunk)

    def _notify(self, owner_id: int, notice: bytes) -> None:
        session_id = self._session_ids.get(owner_id)
        session = self._cluster.get_client_session(session_id) if self._cluster and session_id is not None else None
        if session is not None and session.offer(notice) == OfferResult.ADMIN_ACTION:
            session.offer(notice)

    def _report(self, answer: bytes, position: int) -> None:
        """Report an execution; the id of the report is its `order id`."""
        structlog.get_logger().info(
            REPORT_EVENT,
            report_id=decode_answer(answer).order_id,
            member_id=self._cluster.member_id if self._cluster else None,
            position=position,
            applied=self.core.applied,
            executions=self.core.match_number,
            state_hash=self.core.state_hash(),
        )
