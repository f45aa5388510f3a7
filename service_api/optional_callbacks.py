"""Callbacks that a service has only if its class overrides them, such as `state_hash` and `on_time_unit`."""

from __future__ import annotations

from ordo.service_api.composition import Composition
from ordo.service_api.native import NativeClusteredService
from ordo.service_api.service import ClusteredService


def overrides(service_class: type, callback: str) -> bool:
    """Return whether the class has the callback; a composition without its own has it if all its machines do."""
    own = getattr(service_class, callback, None)
    if issubclass(service_class, Composition) and own is getattr(Composition, callback):
        return all(isinstance(one, type) and overrides(one, callback) for one in service_class.machines)
    return own not in (None, getattr(ClusteredService, callback), getattr(NativeClusteredService, callback))
