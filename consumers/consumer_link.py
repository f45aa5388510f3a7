"""A member's conversation with the cluster: one command at a time, sent again until it is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ordo.cluster.client.requests.request_sending import offer_to_leader
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.sessions.consumer_codec import ConsumerAnswer, ConsumerCommand, decode_answer, encode_command
from ordo.runtime.errors import DecodeError

RETRY_NS = 1_000_000_000
NO_SESSION = (-1, -1)


class ConsumerClient(ClusterClient):
    """A session that carries commands of consumers; made with `wait=False`."""

    on_answer: Callable[[ConsumerAnswer], None] | None = None
    """Hears of every answer, and of what changes for this member without having been asked for."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings, wait=False)
        self._command: ConsumerCommand | None = None
        self._retry_ns = 0
        self._epoch = NO_SESSION
        self._loop.set_work(self._tick, self._work_command)

    @property
    def is_asking(self) -> bool:
        """Whether a command is not answered yet."""
        return self._command is not None

    @property
    def term(self) -> tuple[int, int]:
        """The session and leadership term; in another one, the cluster may have lost an answer."""
        return self.session_id, self.leadership_term_id

    def ask(self, command: ConsumerCommand) -> None:
        """Send a command, the only one under way, until it is answered."""
        assert self._command is None, f"{self._command} is not answered"
        self._command, self._retry_ns = command, 0
        self._work_command(self._transport.clock.now())

    def _work_command(self, now_ns: int) -> None:
        command = self._command
        if command is None or self._current.leader_ingress is None or self.session_id < 0:
            return
        if self.term != self._epoch:
            self._epoch, self._retry_ns = self.term, 0
        if now_ns < self._retry_ns:
            return
        if offer_to_leader(self._current, encode_command(command, self.leadership_term_id, self.session_id)):
            self._retry_ns = now_ns + RETRY_NS

    def _on_event(self, message: bytes, image: Any) -> None:
        found = ordo_codecs.decode(message)
        if found is None or found[0] is not ordo_codecs.CONSUMER_ANSWER:
            super()._on_event(message, image)
            return
        if self._connect is not None or found[1].cluster_session_id != self.session_id:
            return
        try:
            answer = decode_answer(message)
        except DecodeError:
            return
        command = self._command
        is_asked = command is not None and (answer.number, answer.member_key) == (command.number, command.member_key)
        if answer.number and not is_asked:
            return  # of an earlier copy of a command that was answered
        if answer.number:
            self._command = None
        if self.on_answer is not None:
            self.on_answer(answer)
