"""Clients that ask by requests: each must be executed once and answered, through crashes of the client, too."""

from __future__ import annotations

from typing import Any

from ordo.cluster.client.requests.journal import Journal
from ordo.cluster.client.requests.request_window import PendingRequest
from ordo.cluster.wire.levels import describe_want_of_request_ids
from ordo.runtime.errors import AnswerForgottenError, OrdoError, RejectedError, RequestOutcome, SessionClosedError
from ordo.service_api.request_ids import REJECTED_TEXT
from tests.simulation.operations import Kind, Reply, Request, decode_reply, decode_request

REPEAT_NS = 200_000_000
OUTSTANDING_MAX = 200
ANSWERED_KEPT = 10
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
    """The requests of one client over all its lives. With a journal none may get lost; with ids each life has another
    identity, sends again what earlier ones have left unanswered, and now and then what was answered."""

    def __init__(self, client: Any) -> None:
        """`client`: a SimulatedClient, which is made of this."""
        self._client = client
        self._store: MemoryJournal | None = None
        if client.world.options.requests == "journal":
            self._store = MemoryJournal(client.world.random.stream(f"{client.name} journal"))
        self._has_ids = client.world.options.requests == "ids"
        self._payloads: dict[int, bytes] = {}
        """Of requests with ids: those without an answer, and a few with one."""
        self._refused: list[int] = []
        """Numbers that the cluster has not taken yet."""
        self._want_of_level: set[int] = set()
        """Those of them that it refused last because its log may not have ids yet."""
        self._repeat_ns = 0
        self._replies: dict[int, tuple[Reply, int]] = {}
        self._forgotten: set[int] = set()
        """Those whose answer nobody has any more."""

    def make_journal(self) -> Journal | None:
        return None if self._store is None else Journal(self._store)

    def recover(self) -> None:
        """The client was made: takes up what an earlier life has left in the journal."""
        session = self._client.session
        assert session is not None
        for pending in session.recovered_requests:
            pending.when_done(self._on_done)
        self._refused.clear()
        for number in list(self._payloads):
            self._send(number)

    @property
    def has_all_answers(self) -> bool:
        """Everything that was asked with an id was answered."""
        return all(number in self._replies or number in self._forgotten for number in self._payloads)

    def wants_level(self, number: int) -> bool:
        """The cluster has said that this one is not executed, for its log may not have requests with ids yet."""
        return number in self._want_of_level

    def repeat(self, now_ns: int) -> None:
        """Sends again one that was answered. Where the cluster has not taken one, another identity sends all again in
        their order, which the service demands of each identity."""
        if not self._has_ids or now_ns < self._repeat_ns:
            return
        self._repeat_ns = now_ns + REPEAT_NS
        answered = [number for number in self._payloads if number in self._replies]
        if self._refused:
            self._client.begin_again(now_ns)
        elif answered:
            self._send(self._client.random.choice(answered))

    def _send(self, number: int) -> None:
        session = self._client.session
        if session is not None and session.outstanding_requests < OUTSTANDING_MAX:
            session.submit(self._payloads[number], on_done=self._on_done, id=self._id_of(number))
        elif number not in self._replies:
            self._refused.append(number)

    def _id_of(self, number: int) -> bytes:
        return b"%d/%d" % (self._client.client_id, number)

    def crash(self) -> None:
        if self._store is not None:
            self._store.crash()

    def submit(self, request: Request, padding: int) -> bool:
        """True when the client has taken it. A callback of an answer cannot wait for room."""
        session = self._client.session
        assert session is not None
        payload = request.encode(padding)
        if self._has_ids:
            self._payloads[request.number] = payload
            self._forget_old()
        session.submit(payload, on_done=self._on_done, id=self._id_of(request.number) if self._has_ids else None)
        return True

    def _forget_old(self) -> None:
        answered = [number for number in self._payloads if number in self._replies]
        for number in answered[:-ANSWERED_KEPT]:
            del self._payloads[number]

    def _on_done(self, pending: PendingRequest) -> None:
        client, request = self._client, decode_request(pending.payload)
        assert request is not None
        if isinstance(pending.error, SessionClosedError):
            return  # this client was closed: a journal goes on with it
        if isinstance(pending.error, RejectedError) and pending.error.message.startswith(LEFT_OUT):
            client.take_leaving_out(request)
            self._payloads.pop(request.number, None)
            return
        if _is_forgotten(pending.error):
            self._take_forgotten(request, pending.error.log_position)  # type: ignore[union-attr]
            return
        if isinstance(pending.error, RejectedError):
            payload = bytes.fromhex(pending.error.message)
        elif pending.answer is not None:
            payload = pending.answer.payload
        elif self._has_ids and pending.error is not None and pending.error.outcome is not RequestOutcome.EXECUTED:
            self._refused.append(request.number)
            if describe_want_of_request_ids() in pending.error.message:
                self._want_of_level.add(request.number)
            return
        else:
            client.world.fail(f"{client.name}: request {request.number} failed: {pending.error}")
            return
        reply = decode_reply(payload)
        answer: Any = pending.answer if pending.answer is not None else pending.error
        client.world.on_answer_numbered(answer.log_position, answer.sequence)
        self._check(request, reply, answer.log_position)

    def _take_forgotten(self, request: Request, position: int) -> None:
        """The request was executed; its answer is one of those for which there was no room."""
        client, world = self._client, self._client.world
        world.count_fault("answer not kept")
        if not world.options.kept_bytes_max:
            world.fail(f"{client.name}: request {request.number} has no answer any more")
        elif request.kind is Kind.POISON:
            client.take_leaving_out(request)
            self._payloads.pop(request.number, None)
        elif world.clients_history.executed.get((client.client_id, request.number)) != position:
            world.fail(f"{client.name}: request {request.number} was not executed at {position}, as its answer says")
        elif request.number not in self._replies:
            self._want_of_level.discard(request.number)
            self._forgotten.add(request.number)
            client.take_forgotten(request.number)

    def _check(self, request: Request, reply: Reply, position: int) -> None:
        client, world = self._client, self._client.world
        if (reply.client, reply.number) != (client.client_id, request.number):
            world.fail(f"{client.name}: request {request.number} got the answer to {reply.number} of {reply.client}")
        elif world.clients_history.executed.get((reply.client, reply.number)) != position:
            world.fail(f"{client.name}: request {request.number} was not executed at {position}, as its answer says")
        elif request.number not in self._replies:
            self._want_of_level.discard(request.number)
            self._forgotten.discard(request.number)
            self._replies[request.number] = reply, position
            client.take_reply(reply)
        elif not (self._store or self._has_ids) or self._replies[request.number] != (reply, position):
            world.fail(f"{client.name}: request {request.number} was answered again, by {reply}")

    def unanswered(self) -> list[int]:
        """Numbers of requests that were executed and never answered: with a journal there must be none in the end."""
        if self._store is None and not self._has_ids:
            return []
        executed = self._client.world.clients_history.executed
        mine = [number for client, number in executed if client == self._client.client_id]
        return sorted(set(mine) - set(self._replies) - self._forgotten)


def _is_forgotten(error: OrdoError | None) -> bool:
    """Of a refused request the text goes, too: it is known that it was refused."""
    is_refused = isinstance(error, RejectedError) and REJECTED_TEXT.decode() in error.message
    return is_refused or isinstance(error, AnswerForgottenError)
