"""The door's sessions with the cluster: one for each token that clients show, which the cluster checks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ordo.cluster.client.async_client import AsyncClusterClient
from ordo.cluster.client.query import QueryReply
from ordo.cluster.client.session_states import ClientEvent, tell_event
from ordo.gateway.doors.known_orders import KnownOrders
from ordo.gateway.doors.settings import SessionsFullError
from ordo.gateway.doors.turns import Turn, Turns
from ordo.gateway.kafka.service.orders import (
    KafkaError,
    OrderAnswer,
    OrderKind,
    decode_answer,
    decode_reply,
    encode_order,
    name_of_append,
)
from ordo.gateway.kafka.settings import KafkaSettings
from ordo.runtime.errors import (
    ClusterTimeoutError,
    OrdoError,
    OtherClusterError,
    RequestOutcome,
    SessionClosedError,
    SessionRejectedError,
)
from ordo.runtime.reporting.logging import get_logger

SENT_SHARE = 0.75
"""An append whose turn has not come in this share of its time is not sent: it would hardly be answered in the rest."""
UNTIL_ANSWERED_S = 1e9
"""The order of an append is waited for until it is answered, or its session has ended, which is when its turn ends."""


class Asked:
    """An order that waits for its turn, or for its answer."""

    def __init__(self) -> None:
        self.turn: Turn | None = None
        """None: it has none to wait for."""
        self._answer: asyncio.Future[OrderAnswer] | None = None

    @property
    def answer(self) -> asyncio.Future[OrderAnswer]:
        """The answer to come, of which others may have the future, too. Never before there is a turn to wait for."""
        if self._answer is None:
            self._answer = asyncio.get_running_loop().create_future()
        return self._answer

    def follow(self, order: asyncio.Future[OrderAnswer]) -> None:
        """Take the answer of an order that is on its way: the future itself, unless somebody has this one's already."""
        if self._answer is None:
            self._answer = order
        else:
            order.add_done_callback(self._take)

    def _take(self, order: asyncio.Future[OrderAnswer]) -> None:
        answer = self.answer
        if answer.done():
            return
        if order.cancelled():
            answer.cancel()
        elif error := order.exception():
            _fail(answer, error)
        else:
            answer.set_result(order.result())

    def refuse(self) -> None:
        """Answer that it was not sent, for its turn has not come."""
        text = "not sent: what was sent before it in this session took too much of its time"
        _fail(self.answer, ClusterTimeoutError(text, outcome=RequestOutcome.NOT_EXECUTED))

    def outcome(self) -> OrderAnswer | OrdoError:
        """Return the answer, or why there is none by now. Raises CancelledError for a session that was closed."""
        if not self.answer.done():
            text = "not answered in time, unknown whether it was executed: it is still under way"
            return ClusterTimeoutError(text, outcome=RequestOutcome.UNKNOWN)
        error = self.answer.exception()
        if error is not None and not isinstance(error, OrdoError):
            raise error
        return self.answer.result() if error is None else error


def _fail(answer: asyncio.Future[OrderAnswer], error: BaseException) -> None:
    answer.set_exception(error)
    answer.exception()  # nobody may ever ask for it


class ClusterSession:
    """One session, for all clients with the same token."""

    def __init__(self, settings: KafkaSettings, credentials: bytes) -> None:
        self.credentials = credentials
        self.users = 0
        self.turns = Turns()
        self._settings = settings
        self._client: AsyncClusterClient | None = None
        self._opening = asyncio.Lock()
        self._openers = 0
        """So many wait until it is open, or are about to go on: who comes then goes after them."""
        self._is_closed = False
        self._appends: set[asyncio.Task[OrderAnswer]] = set()
        """What is under way, also for those who wait no more."""
        self._known = KnownOrders[OrderAnswer](lambda answer: answer.error == KafkaError.NONE)

    @property
    def is_open(self) -> bool:
        """Return whether it is known to be open."""
        return self._client is not None

    async def _open(self) -> AsyncClusterClient:
        """Return the open client. Raises SessionRejectedError, ClusterTimeoutError, SessionClosedError."""
        if self._is_closed:
            raise SessionClosedError("not sent: the door has closed this session")
        if self._client is not None and not self._openers:
            return self._client
        self._openers += 1
        try:
            async with self._opening:
                return self._client or await self._connect()
        finally:
            self._openers -= 1

    async def _connect(self) -> AsyncClusterClient:
        name = self._settings.client.client_name or "kafka"
        settings = replace(self._settings.client, credentials=self.credentials, reconnect=True, client_name=name)
        client = AsyncClusterClient(list(self._settings.endpoints), settings=settings, on_event=self._on_event)
        await client.open()
        self._client = client
        get_logger().info("kafka.session", session_id=client.session_id)
        return client

    async def open(self) -> None:
        """Open the session. Raises SessionRejectedError, ClusterTimeoutError."""
        await self._open()

    def _on_event(self, event: ClientEvent) -> None:
        tell_event(event)
        if event.kind in ("held", "free"):
            self.turns.hold(event.kind == "held")

    def _note(self, client: AsyncClusterClient, error: OrdoError) -> None:
        """Have the next call open another session, if the one that it was made in has ended."""
        is_over = isinstance(error, SessionClosedError | SessionRejectedError | OtherClusterError)
        if not is_over or client is not self._client:
            return
        self._client = None
        client.close()
        self.turns.hold(False)
        self._known.forget()  # the next session may be with a promoted standby, which lacks what was answered before
        if isinstance(error, OtherClusterError):
            get_logger().warning("kafka.session-failed", trouble=error.message)

    async def append(self, orders: Sequence[bytes], line: object = None) -> list[OrderAnswer | OrdoError]:
        """Have orders of a producer executed once each, when their turns in a line have come.

        Returns the answer to each, or why there is none. One that an idempotent producer sends again is not sent into
        the cluster again: what became of it is waited for.
        """
        loop, seconds = asyncio.get_running_loop(), self._settings.timeout_s
        begun_s = loop.time()
        asked = [self._ask_turn(one, line) for one in orders]
        try:
            _, late = await asyncio.wait([one.answer for one in asked], timeout=SENT_SHARE * seconds)
            if late:
                self._give_up(asked)
                await asyncio.wait(late, timeout=begun_s + seconds - loop.time())
        finally:
            self._give_up(asked)
        return [one.outcome() for one in asked]

    def _ask_turn(self, payload: bytes, line: object) -> Asked:
        """Have an order wait for its turn, or for what was sent for it before."""
        name, asked = name_of_append(payload), Asked()
        order = self._known.find(name)
        if order is None:
            asked.turn = self.turns.ask(len(payload), line, lambda: self._take_turn(asked, payload, name))
        else:
            asked.follow(order)
        return asked

    def _give_up(self, asked: Sequence[Asked]) -> None:
        """Send nothing more of a batch. Idempotent.

        Its end, which may be short enough to have its turn now, does not go without what comes before it.
        """
        waiting = [(one, one.turn) for one in asked if one.turn is not None and one.turn.is_waiting]
        self.turns.give_up(turn for _, turn in waiting)
        for one, _ in waiting:
            one.refuse()

    def _take_turn(self, asked: Asked, payload: bytes, name: bytes | None) -> None:
        """Send an order whose turn has come, unless another try of it had its turn meanwhile."""
        order = self._known.find(name)
        if order is None:
            order = self._send(payload, name)
        else:
            self.turns.give_back(len(payload))
        asked.follow(order)

    def _send(self, payload: bytes, name: bytes | None) -> asyncio.Task[OrderAnswer]:
        """Begin with an order whose turn has come."""
        order = asyncio.create_task(self._order_in_turn(payload))
        self._appends.add(order)
        order.add_done_callback(self._forget)
        self._known.note(name, order)
        return order

    async def _order_in_turn(self, payload: bytes) -> OrderAnswer:
        """Give an order whose turn has come, and end the turn once it is not in the session's stream any more."""
        try:
            return await self.order(payload, UNTIL_ANSWERED_S)
        finally:
            self.turns.give_back(len(payload))

    def _forget(self, order: asyncio.Task[OrderAnswer]) -> None:
        self._appends.discard(order)
        if not order.cancelled():
            order.exception()  # nobody may ever ask for it

    async def order(self, payload: bytes, timeout_s: float | None = None) -> OrderAnswer:
        """Have the service execute an order once. Raises OrdoError."""
        client = await self._open()
        try:
            answer = await client.request(payload, timeout_s=timeout_s or self._settings.timeout_s)
        except OrdoError as error:
            self._note(client, error)
            raise
        return decode_answer(answer.payload)

    async def query(self, kind: OrderKind, **fields: object) -> Any:
        """Ask the service. Raises OrdoError."""
        return decode_reply((await self._ask(kind, **fields)).payload)

    async def log_position(self) -> int:
        """Return a position up to which the log has everything that is answered by now. Raises OrdoError."""
        return (await self._ask(OrderKind.TOPICS)).log_position

    async def _ask(self, kind: OrderKind, **fields: object) -> QueryReply:
        client = await self._open()
        try:
            return await client.query(encode_order(kind, **fields), timeout_s=self._settings.timeout_s)
        except OrdoError as error:
            self._note(client, error)
            raise

    def close(self) -> None:
        """End the session. Idempotent. Orders whose turns come by that are not sent."""
        self._is_closed = True
        for one in self._appends:
            one.cancel()
        if self._client is not None:
            self._client.close()
            self._client = None


class ClusterSessions:
    """All of them. One that no connection uses is closed when another one needs its place."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._sessions: dict[bytes, ClusterSession] = {}
        self._own: ClusterSession | None = None

    def take_own(self) -> ClusterSession:
        """Return the door's own session, for which there is always a place. Raises ConfigurationError."""
        if self._own is None:
            self._own = ClusterSession(self._settings, self._settings.credentials_for(None))
            self._own.users = 1
        return self._own

    def take(self, credentials: bytes | None) -> ClusterSession:
        """Return the session for a token, None for that of the door itself. Raises SessionsFullError."""
        key = self._settings.credentials_for(credentials)
        session = self._sessions.get(key)
        if session is None and self._own is not None and key == self._own.credentials:
            session = self._own
        if session is None:
            if len(self._sessions) >= self._settings.sessions_max:
                self._make_room()
            session = self._sessions[key] = ClusterSession(self._settings, key)
        session.users += 1
        return session

    def active(self) -> list[ClusterSession]:
        """Return the sessions that connections use, or the door itself."""
        own = [] if self._own is None else [self._own]
        return own + [one for one in self._sessions.values() if one.users]

    def _make_room(self) -> None:
        unused = next((one for one in self._sessions.values() if one.users == 0), None)
        if unused is None:
            raise SessionsFullError(f"{len(self._sessions)} sessions are open, as many as there may be")
        self._drop(unused)

    def _drop(self, session: ClusterSession) -> None:
        self._sessions.pop(session.credentials, None)
        session.close()

    def give_back(self, session: ClusterSession, is_refused: bool = False) -> None:
        """Say that a connection does not use a session any more; one that the cluster refused goes."""
        session.users -= 1
        if is_refused and session.users == 0:
            self._drop(session)

    def close(self) -> None:
        """End all sessions."""
        for one in [*self._sessions.values(), *([] if self._own is None else [self._own])]:
            one.close()
        self._sessions.clear()
