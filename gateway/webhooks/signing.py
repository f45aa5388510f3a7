"""Signatures of posts, as the specification Standard Webhooks has them (symmetric, version v1)."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Sequence
from pathlib import Path

from ordo.gateway.webhooks.settings import read_text
from ordo.runtime.errors import ConfigurationError

PREFIX = "whsec_"
SECRET_BYTES_MIN, SECRET_BYTES_MAX = 24, 64


def parse_secret(text: str) -> bytes:
    """Return the bytes of a secret in base64, with or without its prefix. Raises ConfigurationError."""
    try:
        secret = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if not SECRET_BYTES_MIN <= len(secret) <= SECRET_BYTES_MAX:
        raise ConfigurationError(
            f"a secret must be {PREFIX} and {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes in base64, such as "
            f'`echo "{PREFIX}$(openssl rand -base64 32)"` prints'
        )
    return secret


def read_secrets(path: Path) -> list[bytes]:
    """Return the secrets in the lines of a file, at least one. Raises ConfigurationError, which shows none of them."""
    lines = [line.strip() for line in read_text(path).splitlines() if line.strip()]
    try:
        secrets = [parse_secret(line) for line in lines]
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error.message}") from None
    if not secrets:
        raise ConfigurationError(f"{path}: has no secret")
    return secrets


def sign(secrets: Sequence[bytes], message_id: str, timestamp_s: int, body: bytes) -> str:
    """Return the value of `webhook-signature`: a signature with each secret."""
    signed = f"{message_id}.{timestamp_s}.".encode() + body
    return " ".join("v1," + base64.b64encode(hmac.digest(one, signed, "sha256")).decode() for one in secrets)
