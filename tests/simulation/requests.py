"""Clients that ask by requests: each must be executed once and answered, through crashes of the client, too."""

from __future__ import annotations

from typing import Any

from cluster.client.journal import Journal
from cluster.client.request_window import PendingRequest
from runtime.errors import RejectedError, SessionClosedError
from tests.simulation.operations import Reply, Request, decode_reply, decode_request

LEFT_OUT = "left out: "
"""What the answer to a request begins with whose record was left out."""


class MemoryJournal:
    """A journal's file: what was not synced may be lost, or torn, with the process's machine."""

    def __init__(self, random: Any) -> None:
        self._random = random
        self._data = bytearray()
        self._synced_bytes = 0

    def read(self) -> bytes:
        return bytes(self._data)

    def append(self, data: bytes) -> None:
        self._data += data

    def sync(self) -> None:
        self._synced_bytes = len(self._data)

    def replace(self, data: bytes) -> None:
        self._data = bytearray(data)
        self.sync()

    def close(self) -> None:
        """The bytes stay."""

    def crash(self) -> None:
        del self._data[self._random.randint(self._synced_bytes, len(self._data)) :]
        self._synced_bytes = len(self._data)


class Requesting:
    """The requests of one client over all its lives. With a journal none may get lost."""

    def __init__(self, client: Any) -> None:
        """`client`: a SimulatedClient, which is made of this."""
        self._client = client
        self._store: MemoryJournal | None = None
        if client.world.options.requests == "journal":
            self._store = MemoryJournal(client.world.random.stream(f"{client.name} journal"))
        self._replies: dict[int, Reply] = {}

    def make_journal(self) -> Journal | None:
        return None if self._store is None else Journal(self._store)

    def recover(self) -> None:
        """The client was made: takes up what an earlier life has left in the journal."""
        session = self._client.session
        assert session is not None
        for pending in session.recovered_requests:
            pending.when_done(self._on_done)

    def crash(self) -> None:
        if self._store is not None:
            self._store.crash()

    def submit(self, request: Request, padding: int) -> bool:
        """True when the client has taken it. A callback of an answer cannot wait for room."""
        session = self._client.session
        assert session is not None
        session.submit(request.encode(padding), on_done=self._on_done)
        return True

    def _on_done(self, pending: PendingRequest) -> None:
        client, request = self._client, decode_request(pending.payload)
        assert request is not None
        if isinstance(pending.error, SessionClosedError):
            return  # this client was closed: a journal goes on with it
        if isinstance(pending.error, RejectedError) and pending.error.message.startswith(LEFT_OUT):
            client.take_leaving_out(request)
            return
        if isinstance(pending.error, RejectedError):
            payload = bytes.fromhex(pending.error.message)
        elif pending.answer is not None:
            payload = pending.answer.payload
        else:
            client.world.fail(f"{client.name}: request {request.number} failed: {pending.error}")
            return
        reply = decode_reply(payload)
        position = pending.answer.log_position if pending.answer is not None else pending.error.log_position  # type: ignore[union-attr]
        self._check(request, reply, position)

    def _check(self, request: Request, reply: Reply, position: int) -> None:
        client, world = self._client, self._client.world
        if (reply.client, reply.number) != (client.client_id, request.number):
            world.fail(f"{client.name}: request {request.number} got the answer to {reply.number} of {reply.client}")
        elif world.clients_history.executed.get((reply.client, reply.number)) != position:
            world.fail(f"{client.name}: request {request.number} was not executed at {position}, as its answer says")
        elif request.number not in self._replies:
            self._replies[request.number] = reply
            client.take_reply(reply)
        elif self._store is None or self._replies[request.number] != reply:
            world.fail(f"{client.name}: request {request.number} was answered again, by {reply}")

    def unanswered(self) -> list[int]:
        """Numbers of requests that were executed and never answered: with a journal there must be none in the end."""
        if self._store is None:
            return []
        executed = self._client.world.clients_history.executed
        mine = [number for client, number in executed if client == self._client.client_id]
        return sorted(set(mine) - set(self._replies))
