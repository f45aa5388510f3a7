"""The hash that a service gives of its state, where it gives one (`ClusteredService.state_hash`)."""

from __future__ import annotations

from runtime.errors import ServiceError
from service_api.native import NativeClusteredService
from service_api.service import ClusteredService, Service

_NO_HASHES = (ClusteredService.state_hash, NativeClusteredService.state_hash)


def implements_state_hash(service_class: type) -> bool:
    """Whether the class says how to hash its state."""
    return getattr(service_class, "state_hash", None) not in (None, *_NO_HASHES)


def hash_state(service: Service) -> bytes:
    """What the service gives. Raises ServiceError for what is no hash."""
    found = service.state_hash()
    if not isinstance(found, bytes) or not found:
        raise ServiceError(f"state_hash must return bytes, at least one; returned {found!r:.40}")
    return found
