"""Finds the service class that a command line or a configuration names."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from runtime.errors import ConfigurationError
from service_api.native import NativeClusteredService
from service_api.service import ClusteredService, Service


def load_service(name: str) -> type[Service]:
    """The class of `module:Class`; the current folder counts as on the path. Raises ConfigurationError."""
    module_name, separator, class_name = name.partition(":")
    if not separator or not module_name or not class_name:
        raise ConfigurationError(f"service={name!r}: must be module:Class, such as mypackage.counter:Counter")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and not (module_name + ".").startswith(error.name + "."):
            raise
        raise ConfigurationError(f"service={name!r}: there is no module {module_name!r} on the path") from error
    service = getattr(module, class_name, None)
    if not isinstance(service, type) or not issubclass(service, ClusteredService | NativeClusteredService):
        raise ConfigurationError(
            f"service={name!r}: {module_name} has no class {class_name!r} derived from ClusteredService"
        )
    return service
