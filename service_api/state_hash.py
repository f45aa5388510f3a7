"""The hash that a service may compute of its state (`ClusteredService.state_hash`)."""

from __future__ import annotations

from ordo.service_api.optional_callbacks import overrides
from ordo.service_api.service import Service, check_hash


def implements_state_hash(service_class: type) -> bool:
    """Return whether the class computes a hash of its state; a composition does if all its machines do."""
    return overrides(service_class, "state_hash")


def hash_state(service: Service) -> bytes:
    """Return the service's hash. Raises ServiceError if it is not a hash."""
    return check_hash(service.state_hash())
