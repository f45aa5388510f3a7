"""Resources that a driver was asked for and that nobody waits for: a name may take its time, or be wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from runtime.errors import OrdoError

if TYPE_CHECKING:
    from transport.client import TransportClient

Purpose = TypeVar("Purpose")


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
        """Returns the outcomes since the last call, in the order in which they were asked for."""
        answers: list[Answer[Purpose]] = []
        for registration_id, purpose in list(self._purposes.items()):
            answer = self._ask(registration_id, purpose)
            if answer is not None:
                del self._purposes[registration_id]
                answers.append(answer)
        return answers

    def _ask(self, registration_id: int, purpose: Purpose) -> Answer[Purpose] | None:
        try:
            resource = self._client.get(registration_id)
        except OrdoError as error:
            return Answer(purpose, None, error)
        return None if resource is None else Answer(purpose, resource, None)
