"""Mutants of the sample that no test can find, each with the reason."""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {}
