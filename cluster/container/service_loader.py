"""Finds the service class that a command line or a configuration names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from ordo.cluster.container.versions import ServiceVersions
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.reporting.failures import HOUSE, place_of
from ordo.service_api.callbacks import find_fault
from ordo.service_api.native import NativeClusteredService
from ordo.service_api.service import ClusteredService, Service

CLASS_FORM = "module:Class, such as mypackage.counter:Counter"
"""What a name of code must look like, in errors."""


def _refuse_clashes(folder: Path) -> None:
    """Refuse a user's module named `ordo`: one of the two would hide the other."""
    for path in (folder / f"{HOUSE.name}.py", folder / HOUSE.name / "__init__.py"):
        if path.exists() and path.resolve().parent != HOUSE.resolve():
            found = path.parent if path.name == "__init__.py" else path
            raise ConfigurationError(f"{found} has the name of Ordo's own package, which must not be: rename it")


def _extend_path(folder: Path | None) -> list[str]:
    """Have modules looked for in the current folder and in another one, too; return which these are."""
    folders = [Path.cwd()]
    if folder is not None and folder.resolve() != folders[0].resolve():
        folders.append(folder.absolute())
    for one in folders:
        _refuse_clashes(one)
    if "" not in sys.path and str(folders[0]) not in sys.path:
        sys.path.append(str(folders[0]))
    sys.path += [str(one) for one in folders[1:] if str(one) not in sys.path]
    return [str(one) for one in folders]


def _describe(error: Exception) -> str:
    """Return an error of the user's module in one line, with file and line number."""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__} at {place_of(error)}: {' '.join(text.split())}"


def load_service(name: str, folder: Path | None = None) -> type[Service]:
    """Return the class of `module:Class`.

    It is looked for on the path, in the current folder and, last, in `folder`, where the configuration is.

    Raises ConfigurationError, also where one of these folders has a module of the name of one of Ordo's packages.
    """
    service = load_class(name, "service", folder)
    if not issubclass(service, ClusteredService | NativeClusteredService):
        module_name, _, class_name = name.partition(":")
        raise ConfigurationError(
            f"service={name!r}: {module_name} has no class {class_name!r} derived from ClusteredService"
        )
    if fault := find_fault(service):
        raise ConfigurationError(f"service={name!r}: {fault}")
    return service


def load_versions(names: Mapping[int, str], folder: Path | None = None) -> ServiceVersions:
    """Return the code of each version, from `module:Class`. Raises ConfigurationError, as `load_service`."""
    return ServiceVersions({app_version: load_service(name, folder) for app_version, name in names.items()})


def load_class(name: str, key: str, folder: Path | None = None) -> type:
    """Load any class as `load_service` loads a service; `key` names it in errors."""
    found = load_attribute(name, key, folder)
    if not isinstance(found, type):
        module_name, _, class_name = name.partition(":")
        needed = " derived from ClusteredService" if key == "service" else ""
        raise ConfigurationError(f"{key}={name!r}: {module_name} has no class {class_name!r}{needed}")
    return found


def load_function(name: str, key: str) -> Callable[..., Any]:
    """Load the function `module:function`; `key` names it in errors. Raises ConfigurationError."""
    found = load_attribute(name, key, form="module:function, such as checks:is_balanced")
    if not callable(found):
        module_name, _, function_name = name.partition(":")
        raise ConfigurationError(f"{key}={name!r}: {module_name} has no function {function_name!r}")
    return found


def load_attribute(name: str, key: str, folder: Path | None = None, form: str = CLASS_FORM) -> object:
    """Load what `module:name` says, as `load_service` does a service; None where the module has no such name."""
    module_name, separator, attribute = name.partition(":")
    if not separator or not module_name or not attribute:
        raise ConfigurationError(f"{key}={name!r}: must be {form}")
    folders = _extend_path(folder)
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and not (module_name + ".").startswith(error.name + "."):
            raise ConfigurationError(f"{key}={name!r}: it needs {error.name!r}, which is not installed") from error
        raise ConfigurationError(
            f"{key}={name!r}: there is no module {module_name!r} on the path, nor in {' or '.join(folders)}: start this"
            " in the folder of the module, put the configuration there, or install the module"
        ) from error
    except Exception as error:
        raise ConfigurationError(f"{key}={name!r}: importing it raised {_describe(error)}") from error
    return getattr(module, attribute, None)
