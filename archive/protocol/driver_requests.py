"""Requests for resources of a driver, made without waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ordo.runtime.errors import OrdoError, RegistrationError
from ordo.transport.client.client import TransportClient
from ordo.transport.control.commands import ErrorCode as DriverErrorCode
from ordo.transport.streams.publication import Publication
from ordo.transport.streams.subscription import Subscription


class DriverRequest:
    """One requested resource. After `abandon`, it is closed as soon as it exists."""

    def __init__(
        self,
        ask: Callable[[], int],
        on_ready: Callable[[Any], object],
        on_failure: Callable[[OrdoError], object],
    ) -> None:
        self._ask = ask
        self._on_ready = on_ready
        self._on_failure = on_failure
        self._is_wanted = True
        self._registration_id = ask()

    def abandon(self) -> None:
        self._is_wanted = False

    def work(self, client: TransportClient) -> bool:
        """Look for the driver's response; return whether this request is over. Raises no errors of its own."""
        try:
            resource = client.get(self._registration_id)
            if resource is None:
                return False
        except RegistrationError as error:
            if error.code == DriverErrorCode.RESOURCE_TEMPORARILY_UNAVAILABLE and self._is_wanted:
                self._registration_id = self._ask()
                return False
            self._fail(error)
        except OrdoError as error:
            self._fail(error)
        else:
            if self._is_wanted:
                self._on_ready(resource)
            else:
                resource.close()
        return True

    def _fail(self, error: OrdoError) -> None:
        if self._is_wanted:
            self._on_failure(error)


class DriverRequests:
    """The publications and subscriptions that one archive has asked the driver for."""

    def __init__(self, client: TransportClient) -> None:
        self.client = client
        self._open: list[DriverRequest] = []

    @property
    def is_pending(self) -> bool:
        """Whether the driver still owes a response to any of them."""
        return bool(self._open)

    def add_exclusive_publication(
        self,
        channel: str,
        stream_id: int,
        on_ready: Callable[[Any], object],
        on_failure: Callable[[OrdoError], object],
    ) -> DriverRequest:
        """Request a publication; `on_ready(publication)` or `on_failure(error)` is called from a later `work`.

        Raises TransportError.
        """
        return self._add(lambda: self.client.async_add_exclusive_publication(channel, stream_id), on_ready, on_failure)

    def add_subscription(
        self,
        channel: str,
        stream_id: int,
        on_ready: Callable[[Any], object],
        on_failure: Callable[[OrdoError], object],
        on_image: Callable[[Any], object],
    ) -> DriverRequest:
        """Request a subscription like `add_exclusive_publication`. `on_image` may be called before `on_ready`."""
        return self._add(
            lambda: self.client.async_add_subscription(channel, stream_id, on_available_image=on_image),
            on_ready,
            on_failure,
        )

    def add_counter(
        self,
        type_id: int,
        label: str,
        key: bytes,
        on_ready: Callable[[Any], object],
        on_failure: Callable[[OrdoError], object],
    ) -> DriverRequest:
        """Request a counter like `add_exclusive_publication`."""
        return self._add(lambda: self.client.async_add_counter(type_id, label, key), on_ready, on_failure)

    def add_destination(
        self,
        publication: Publication,
        channel: str,
        on_ready: Callable[[int], object],
        on_failure: Callable[[OrdoError], object],
    ) -> None:
        """Request a destination, with `on_ready(destination_id)`; otherwise like `add_exclusive_publication`."""
        self._add(lambda: self.client.async_add_destination(publication, channel), on_ready, on_failure)

    def add_receive_destination(
        self,
        subscription: Subscription,
        channel: str,
        on_ready: Callable[[int], object],
        on_failure: Callable[[OrdoError], object],
    ) -> None:
        """Request one more transport for a subscription with `control-mode=manual`, as `add_destination` does."""
        self._add(lambda: self.client.async_add_receive_destination(subscription, channel), on_ready, on_failure)

    def remove_receive_destination(
        self,
        subscription: Subscription,
        channel: str,
        on_ready: Callable[[int], object],
        on_failure: Callable[[OrdoError], object],
    ) -> None:
        """Request that such a transport is removed, as `add_destination` does."""
        self._add(lambda: self.client.async_remove_receive_destination(subscription, channel), on_ready, on_failure)

    def _add(
        self, ask: Callable[[], int], on_ready: Callable[[Any], object], on_failure: Callable[[OrdoError], object]
    ) -> DriverRequest:
        request = DriverRequest(ask, on_ready, on_failure)
        self._open.append(request)
        return request

    def work(self) -> int:
        """Hand out the resources that have come, and return how many."""
        done = [request for request in self._open if request.work(self.client)]
        for request in done:
            self._open.remove(request)
        return len(done)
