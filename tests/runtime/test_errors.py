"""One tree of errors, drawn in the module's docstring."""

import inspect
import re

from ordo.runtime import errors
from ordo.runtime.errors import Category, OrdoError


def test_docstring_draws_every_error_of_the_module() -> None:
    defined = {name for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, OrdoError)}
    assert set(re.findall(r"\w+Error\b|\bReject\b", (errors.__doc__ or "").split("The category")[0])) == defined


def test_category_comes_from_the_type_and_can_be_narrowed() -> None:
    assert errors.StorageFullError("x").category is Category.FATAL
    assert errors.ClusterError("x").category is Category.ERROR
    assert errors.ClusterError("x", category=Category.WARN).category is Category.WARN
    assert errors.RegistrationError("refused", code=11).code == 11
    assert errors.CorruptFrameError("torn").code == 0
