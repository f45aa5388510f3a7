"""Conversion of what users pass as messages and answers: bytes, or a clear error."""

from __future__ import annotations

from typing import Any

from ordo.runtime.errors import PayloadError


def to_bytes(payload: Any, what: str = "payload") -> bytes:
    """Return a payload as bytes. Raises PayloadError for anything that is not bytes-like: a str, a number, a dict."""
    if type(payload) is bytes:
        return payload
    try:
        return bytes(memoryview(payload))
    except TypeError:
        raise payload_error(payload, what) from None


def to_utf8(text: str) -> bytes:
    """Return what a user's program says, such as the reason of a refusal, as UTF-8.

    Halves of surrogate pairs, which `json.loads` takes from clients and UTF-8 cannot hold, are escaped as in `repr`.
    """
    return text.encode("utf-8", "backslashreplace")


def shorten_utf8(text: bytes, length_bytes_max: int) -> bytes:
    """Return the beginning of a text in UTF-8, of this many bytes at most, where it ends with an ellipsis."""
    return text[: max(length_bytes_max - 3, 0)].decode("utf-8", "ignore").encode() + b"..."


def view_of(payload: Any, what: str = "payload") -> memoryview:
    """Return a view of a payload's bytes.

    Raises PayloadError as `to_bytes` does, and for bytes that are not contiguous.
    """
    try:
        return memoryview(payload).cast("B")
    except TypeError:
        raise payload_error(payload, what) from None


def payload_error(payload: object, what: str = "payload") -> PayloadError:
    """Return the error message for a payload that is not bytes."""
    name = type(payload).__name__
    if isinstance(payload, str):
        return PayloadError(f"{what} is a str, must be bytes: encode it, as {_sample(payload)}.encode()")
    if isinstance(payload, dict | list | tuple | int | float | bool | None):
        return PayloadError(f"{what} is of type {name}, must be bytes: encode it, as json.dumps(...).encode()")
    return PayloadError(f"{what} is of type {name}, must be bytes, or a buffer in one piece (bytearray, memoryview)")


def _sample(text: str) -> str:
    return repr(text) if len(text) <= 20 else "text"
