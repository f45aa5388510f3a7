"""The hash that a service may compute of its state (`ClusteredService.state_hash`)."""

from __future__ import annotations

from ordo.service_api.composition import Composition
from ordo.service_api.native import NativeClusteredService
from ordo.service_api.service import ClusteredService, Service, check_hash

_NO_HASHES = (ClusteredService.state_hash, NativeClusteredService.state_hash)


def implements_state_hash(service_class: type) -> bool:
    """Return whether the class computes a hash of its state; a composition does if all its machines do."""
    if issubclass(service_class, Composition) and service_class.state_hash is Composition.state_hash:
        return all(isinstance(one, type) and implements_state_hash(one) for one in service_class.machines)
    return getattr(service_class, "state_hash", None) not in (None, *_NO_HASHES)


def hash_state(service: Service) -> bytes:
    """Return the service's hash. Raises ServiceError if it is not a hash."""
    return check_hash(service.state_hash())
