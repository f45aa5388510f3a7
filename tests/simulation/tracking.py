"""Clients that are told what became of their messages: what is said to be lost may not be executed, nor the reverse."""

from __future__ import annotations

from typing import Any

from ordo.cluster.client.acknowledgements import Acknowledged, Unsequenced
from tests.simulation.operations import Request, decode_request


class Tracking:
    """The messages of one client in one session of ClusterClient, and in what that opens after it."""

    def __init__(self, client: Any) -> None:
        """`client`: a SimulatedClient, which is made of this."""
        self._client = client
        self._offered: dict[int, Request] = {}
        self.lost: set[int] = set()
        self.sequenced: set[int] = set()
        """Numbers of the client's requests that were said never to be in the log, or to be in it."""

    def begin(self) -> None:
        """Another ClusterClient, which numbers its messages from 1 on. Nothing more is heard of those before."""
        self._offered.clear()

    def offered(self, number: int, request: Request) -> None:
        self._offered[number] = request

    def on_unsequenced(self, message: Unsequenced) -> None:
        request = decode_request(message.payload)
        assert request is not None
        known = self._offered.pop(message.number, None)
        if known is None or known.number != request.number:
            self._client.world.fail(f"{self._client.name}: message {message.number} was given back, and is not {known}")
        if message.is_certain:
            self.lost.add(request.number)
            self._check_lost([request.number])

    def on_acknowledged(self, acknowledged: Acknowledged) -> None:
        executed, client = self._client.world.clients_history.executed, self._client
        for number in [number for number in self._offered if number <= acknowledged.number]:
            request = self._offered[number]
            self.sequenced.add(request.number)
            if acknowledged.level == "executed":
                del self._offered[number]
                if (client.client_id, request.number) not in executed:
                    client.world.fail(f"{client.name}: {request.number} was not executed, and is said to be")

    def _check_lost(self, numbers: Any) -> None:
        executed, client = self._client.world.clients_history.executed, self._client
        for number in numbers:
            if (client.client_id, number) in executed:
                client.world.fail(f"{client.name}: {number} was executed, and is said not to be in the log")

    def check(self) -> None:
        """When all is over."""
        self._check_lost(sorted(self.lost))
        executed, client = self._client.world.clients_history.executed, self._client
        for number in sorted(self.sequenced):
            if (client.client_id, number) not in executed:
                client.world.fail(f"{client.name}: {number} was never executed, and is said to be in the log")
