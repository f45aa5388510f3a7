"""Requests for resources of a driver that run in the background: a name may take time, or be wrong."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ordo.runtime.errors import OrdoError

if TYPE_CHECKING:
    from ordo.transport.client.client import TransportClient

Purpose = TypeVar("Purpose")
LOOKS_MAX = 128
"""Registrations that one call looks at: thousands may be pending after a change of the leader."""


class Answer(NamedTuple, Generic[Purpose]):
    """The outcome of one registration: the resource, or the error if there is none."""

    purpose: Purpose
    resource: Any
    error: OrdoError | None


class PendingRegistrations(Generic[Purpose]):
    """What a client has begun with `async_add_*`, each with its purpose. Taking a resource means owning it."""

    def __init__(self, client: TransportClient) -> None:
        self._client = client
        self._purposes: dict[int, Purpose] = {}

    def __len__(self) -> int:
        return len(self._purposes)

    def __contains__(self, purpose: Purpose) -> bool:
        return purpose in self._purposes.values()

    def add(self, registration_id: int, purpose: Purpose) -> None:
        self._purposes[registration_id] = purpose

    def take(self) -> list[Answer[Purpose]]:
        """Return the outcomes since the last call, in the order asked for; when there are many, only the next few."""
        if not self._purposes:  # nearly always
            return []
        answers: list[Answer[Purpose]] = []
        for registration_id, purpose in list(islice(self._purposes.items(), LOOKS_MAX)):
            del self._purposes[registration_id]
            answer = self._ask(registration_id, purpose)
            if answer is not None:
                answers.append(answer)
            else:
                self._purposes[registration_id] = purpose  # after the others, whose turn is next
        return answers

    def _ask(self, registration_id: int, purpose: Purpose) -> Answer[Purpose] | None:
        try:
            resource = self._client.get(registration_id)
        except OrdoError as error:
            return Answer(purpose, None, error)
        return None if resource is None else Answer(purpose, resource, None)
