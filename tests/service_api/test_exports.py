"""The public names of service_api are those a service's signature needs."""

import inspect

import service_api
from service_api.service import ClusteredService


def test_every_exported_name_is_there_and_sorted() -> None:
    assert service_api.__all__ == sorted(service_api.__all__)
    assert all(hasattr(service_api, name) for name in service_api.__all__)


def test_the_types_of_every_callback_are_exported() -> None:
    used: set[str] = set()
    for _, callback in inspect.getmembers(ClusteredService, inspect.isfunction):
        for annotation in callback.__annotations__.values():
            used.update(name.strip() for name in annotation.split("|"))
    assert used - {"None", "int", "bytes"} <= set(service_api.__all__)
