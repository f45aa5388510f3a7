"""Every type that a service's callbacks name can be imported from `ordo`."""

import inspect

import ordo
from ordo.service_api.service import ClusteredService


def test_the_types_of_every_callback_are_public() -> None:
    used: set[str] = set()
    for _, callback in inspect.getmembers(ClusteredService, inspect.isfunction):
        for annotation in callback.__annotations__.values():
            used.update(name.strip() for name in annotation.split("|"))
    assert used - {"None", "int", "bytes"} <= set(ordo.__all__)
