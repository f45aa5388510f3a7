"""Planted bugs of requests with ids of their callers' choice (see `planted.py`)."""

from __future__ import annotations

from typing import Any

from ordo.cluster.container.service_container import ServiceContainer
from ordo.cluster.wire.snapshots import container_snapshot
from ordo.service_api import requests
from ordo.service_api.request_ids import RequestIdLimits, RequestIds
from ordo.service_api.requests import RequestTable
from tests.simulation.planted import Patch


class _OfEarlierLevels(RequestIds):
    """As if the log never had the level from which on the number of answers alone decides."""

    @property
    def is_in_force(self) -> bool:
        return False

    @is_in_force.setter
    def is_in_force(self, value: bool) -> None: ...


def snapshots_forget_ids(patch: Patch) -> None:
    """A member that starts from a snapshot executes again what has an id and comes from another identity."""
    original = container_snapshot.decode

    def decode(messages: Any) -> Any:
        return original(messages)._replace(request_ids=())

    patch(container_snapshot, "decode", decode)


def snapshots_forget_that_a_principal_has_a_bound(patch: Patch) -> None:
    """A member that starts from a snapshot executes what the others have wait."""
    original = container_snapshot.decode

    def decode(messages: Any) -> Any:
        return original(messages)._replace(takes_output_ids=False)

    patch(container_snapshot, "decode", decode)


def requests_wait_for_room_for_the_answers_of_their_service(patch: Patch) -> None:
    """Whether a request is executed depends on the answers that a service keeps, and each service keeps its own."""
    patch(requests, "RequestIds", _OfEarlierLevels)


def ids_expire_too_early(patch: Patch) -> None:
    """An id is forgotten while its caller still asks."""
    original = ServiceContainer.__init__

    def init(self: Any, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        self.set_requests(RequestTable(id_limits=RequestIdLimits(timeout=100)))

    patch(ServiceContainer, "__init__", init)
