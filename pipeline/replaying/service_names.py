"""Finds the service that a command line names."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module

from ordo.pipeline.decoding.errors import PipelineError
from ordo.service_api.native import NativeClusteredService
from ordo.service_api.service import ClusteredService, Service


def make_service(name: str) -> Callable[[], Service]:
    """Make instances of the class `module:Class`. Raises PipelineError when there is none."""
    module_name, separator, class_name = name.partition(":")
    if not separator:
        raise PipelineError(f"service={name!r}: must be module:Class, such as mypackage.counter:Counter")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        service = getattr(import_module(module_name), class_name)
    except (ImportError, AttributeError) as error:
        raise PipelineError(f"service={name!r} cannot be loaded: {error}; name module:Class on the path") from error
    if not isinstance(service, type) or not issubclass(service, ClusteredService | NativeClusteredService):
        raise PipelineError(f"service={name!r} is no ClusteredService; derive it from service_api.ClusteredService")
    return partial(_make, service)


def _make(service: type[Service]) -> Service:
    return service()
