"""All planted bugs by name: the functions of the files `planted*` whose one parameter is `patch`."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction, signature
from typing import Any

from tests.simulation import (
    planted,
    planted_applications,
    planted_consumers,
    planted_copies,
    planted_disks,
    planted_feeds,
    planted_hashes,
    planted_numbers,
    planted_quotas,
    planted_raft,
    planted_recoveries,
    planted_renewals,
    planted_requests,
    planted_schemas,
    planted_services,
    planted_time,
    planted_volumes,
)

Plant = Callable[[Callable[[Any, str, Any], None]], None]

MODULES = (
    planted,
    planted_raft,
    planted_quotas,
    planted_applications,
    planted_consumers,
    planted_copies,
    planted_disks,
    planted_feeds,
    planted_hashes,
    planted_numbers,
    planted_schemas,
    planted_services,
    planted_recoveries,
    planted_renewals,
    planted_requests,
    planted_time,
    planted_volumes,
)
BY_NAME: dict[str, Plant] = {
    name: found
    for module in MODULES
    for name, found in vars(module).items()
    if isfunction(found) and found.__module__ == module.__name__ and list(signature(found).parameters) == ["patch"]
}
