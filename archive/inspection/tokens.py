"""The clients of an archive of its own, in a file of [[tokens]] with their roles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ordo.runtime.security.token_table import TokenTable
from ordo.runtime.security.tokens import TokenAuthenticator
from ordo.runtime.settings.config import Settings

Role = Literal["log", "record", "delete"]


class ArchiveToken(TokenTable):
    """One [[tokens]] table."""

    roles: list[Role] = ["log"]


class TokenFile(Settings):
    """A whole file of tokens."""

    tokens: Annotated[list[ArchiveToken], Field(min_length=1)]


def load_tokens(path: Path) -> TokenAuthenticator:
    """Return an authenticator that lets in the holders of the tokens in a file. Raises ConfigurationError."""
    return TokenAuthenticator(one.token() for one in TokenFile.from_toml(path).tokens)
