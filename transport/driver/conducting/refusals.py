"""The words and the code with which a driver refuses a command, for the client and for the error log."""

from __future__ import annotations

from ordo.runtime.errors import ChannelError, OrdoError, RegistrationError, StorageFullError, TransportError
from ordo.transport.control.commands import ErrorCode
from ordo.transport.resolver import UNRESOLVED
from ordo.transport.uri import URI_LENGTH_MAX

ERROR_TEXT_MAX = URI_LENGTH_MAX + 1024
"""A reason has room behind the longest channel."""


def error_code(error: Exception) -> ErrorCode:
    """Return the error code that a client gets for an exception."""
    if isinstance(error, RegistrationError):
        return ErrorCode(error.code)
    if isinstance(error, ChannelError):
        return ErrorCode.INVALID_CHANNEL
    if isinstance(error, StorageFullError):
        return ErrorCode.STORAGE_SPACE
    if isinstance(error, TransportError) and UNRESOLVED in str(error):
        return ErrorCode.UNKNOWN_HOST
    return ErrorCode.GENERIC_ERROR


def reason(error: Exception, channel: str) -> str:
    """Return the reason of a refusal, which names the channel that the command was about."""
    text = str(error)
    if channel and channel not in text:
        text = f"channel {channel!r}: {text}"
    return text.encode("ascii", "replace").decode("ascii")[:ERROR_TEXT_MAX]


def log_entry(error: Exception, code: ErrorCode, text: str) -> str | None:
    """Return the error log's line, with the client's code; None for what nobody foresaw, which needs its traceback."""
    if not isinstance(error, OrdoError):
        return None
    return f"(-{code.value}) {code.name.lower().replace('_', ' ')}, see message: {text}"
