"""Bugs that the simulator must find. None of them is an option of the product: they are put in from here."""

from __future__ import annotations

from collections.abc import Callable

BY_NAME: dict[str, Callable[[], None]] = {}
