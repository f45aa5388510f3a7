"""The change of a log's unit of time, as a service executes it (`ClusteredService.on_time_unit`)."""

from __future__ import annotations

from ordo.service_api.composition import Composition
from ordo.service_api.native import NativeClusteredService
from ordo.service_api.service import ClusteredService

_NO_CONVERSIONS = (ClusteredService.on_time_unit, NativeClusteredService.on_time_unit)


def implements_time_unit(service_class: type) -> bool:
    """Return whether the class converts the times of its state; a composition does if all its machines do."""
    if issubclass(service_class, Composition) and service_class.on_time_unit is Composition.on_time_unit:
        return all(isinstance(one, type) and implements_time_unit(one) for one in service_class.machines)
    return getattr(service_class, "on_time_unit", None) not in (None, *_NO_CONVERSIONS)
