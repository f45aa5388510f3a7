"""Whether a service can save its state."""

from __future__ import annotations

from ordo.runtime.errors import ServiceError
from ordo.service_api.native import NativeClusteredService
from ordo.service_api.service import ClusteredService, Service

_NO_SNAPSHOTS = (ClusteredService.on_take_snapshot, NativeClusteredService.on_take_snapshot)


def implements_snapshots(service_class: type) -> bool:
    """Return whether the class implements saving its state."""
    return getattr(service_class, "on_take_snapshot", None) not in _NO_SNAPSHOTS


def demand_snapshots(service: Service) -> None:
    """Raise ServiceError for a service that does not implement saving its state.

    Without it, a snapshot that is empty would take the place of the log.
    """
    if not implements_snapshots(type(service)):
        raise ServiceError(
            f"{type(service).__name__} does not implement on_take_snapshot: no snapshot is taken; implement it, with "
            "an empty body where there is no state to keep"
        )
