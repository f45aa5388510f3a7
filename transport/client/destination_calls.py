"""The calls of a client that add and remove destinations of manual channels."""

from __future__ import annotations

from collections.abc import Callable

from ordo.transport.control import commands
from ordo.transport.streams.publication import Publication
from ordo.transport.streams.subscription import Subscription


class DestinationCalls:
    """The calls for destinations; the client itself sends the commands."""

    client_id: int

    def next_correlation_id(self) -> int:
        raise NotImplementedError

    def _register(self, command: commands.Command, what: str, complete: Callable[[commands.Answer], int]) -> int:
        """Send a command; `complete` makes of its answer what `_await` returns."""
        raise NotImplementedError

    def _await(self, registration_id: int) -> int:
        raise NotImplementedError

    # Destinations

    def add_destination(self, publication: Publication, uri: str) -> int:
        """Send a publication with `control-mode=manual` to one more endpoint. Returns the destination's id."""
        return self._destination(commands.AddDestination, publication.original_registration_id, uri)

    def remove_destination(self, publication: Publication, uri: str) -> None:
        """Take a destination away again. Raises RegistrationError when the driver knows none like it."""
        self._destination(commands.RemoveDestination, publication.original_registration_id, uri)

    def remove_destination_by_id(self, publication: Publication, destination_id: int) -> None:
        """Take the destination away that `add_destination` gave this id; its name is not looked at."""
        self._remove_by_id(publication.original_registration_id, destination_id)

    def add_receive_destination(self, subscription: Subscription, uri: str) -> int:
        """Receive on one more transport for a subscription with `control-mode=manual`. Returns its id."""
        return self._destination(commands.AddReceiveDestination, subscription.registration_id, uri)

    def remove_receive_destination(self, subscription: Subscription, uri: str) -> None:
        """Stop receiving on the transport that `add_receive_destination` added."""
        self._destination(commands.RemoveReceiveDestination, subscription.registration_id, uri)

    def remove_receive_destination_by_id(self, subscription: Subscription, destination_id: int) -> None:
        """Take the destination away that `add_receive_destination` gave this id.

        Drivers of Ordo do that; Aeron's know ids of publications' destinations only (`remove_receive_destination`).
        """
        self._remove_by_id(subscription.registration_id, destination_id)

    def _remove_by_id(self, registration_id: int, destination_id: int) -> None:
        correlation_id = self.next_correlation_id()
        command = commands.RemoveDestinationById(self.client_id, correlation_id, registration_id, destination_id)
        self._await(self._register(command, f"removal of destination {destination_id}", lambda _: True))

    def async_add_destination(self, publication: Publication, uri: str) -> int:
        """Add a destination like `add_destination`, without waiting.

        `get` of the returned id gives the destination's id once it is there.
        """
        return self._async_destination(commands.AddDestination, publication.original_registration_id, uri)

    def async_add_receive_destination(self, subscription: Subscription, uri: str) -> int:
        """Add a destination like `add_receive_destination`, without waiting.

        `get` of the returned id gives the destination's id once it is there.
        """
        return self._async_destination(commands.AddReceiveDestination, subscription.registration_id, uri)

    def async_remove_receive_destination(self, subscription: Subscription, uri: str) -> int:
        """Remove a destination like `remove_receive_destination`, without waiting; `get` tells when it is done."""
        return self._async_destination(commands.RemoveReceiveDestination, subscription.registration_id, uri)

    def _async_destination(self, kind: Callable[..., commands.Command], registration_id: int, uri: str) -> int:
        correlation_id = self.next_correlation_id()
        command = kind(self.client_id, correlation_id, registration_id, uri)
        what = f"{type(command).__name__} of {uri}"
        return self._register(command, what, lambda _: correlation_id)

    def _destination(self, kind: Callable[..., commands.Command], registration_id: int, uri: str) -> int:
        return self._await(self._async_destination(kind, registration_id, uri))
