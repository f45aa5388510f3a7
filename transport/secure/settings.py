"""Which keys a program's own media driver encrypts with."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ordo.runtime.errors import ConfigurationError

KEY_VARIABLE = "ORDO_KEY_FILE"
TRUSTED_VARIABLE = "ORDO_TRUSTED_FILE"


@dataclass(frozen=True)
class Encryption:
    """A key file and a file of trusted keys, as `ordo keys` makes them; both empty: nothing is encrypted.

    Raises ConfigurationError when only one is given.
    """

    key_file: str = ""
    trusted_file: str = ""

    def __post_init__(self) -> None:
        if bool(self.key_file) != bool(self.trusted_file):
            raise ConfigurationError("encryption: give key_file and trusted_file, or none; `ordo keys` makes them")

    @classmethod
    def chosen(cls, key_file: str = "", trusted_file: str = "") -> Encryption:
        """Return the given settings, with ORDO_KEY_FILE and ORDO_TRUSTED_FILE of the environment as defaults."""
        if key_file or trusted_file:
            return cls(key_file, trusted_file)
        return cls(os.environ.get(KEY_VARIABLE, ""), os.environ.get(TRUSTED_VARIABLE, ""))

    def driver_settings(self) -> dict[str, Any]:
        """Return the fields of MediaDriverSettings."""
        return {"encryption_key_file": self.key_file, "encryption_trusted_file": self.trusted_file}
