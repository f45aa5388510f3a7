"""How a cluster tells a client what its log takes: in the detail of the event that opens a session.

Aeron's clients do not read the detail of such an event, and its cluster leaves it empty.
"""

from __future__ import annotations

PREFIX = "message-length-max="


def encode_message_limit(length_bytes: int) -> str:
    """`length_bytes`: of a message with its header."""
    return f"{PREFIX}{length_bytes}"


def decode_message_limit(detail: str) -> int | None:
    """None when the cluster does not say."""
    digits = detail.removeprefix(PREFIX)
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= 10
    return int(digits) if is_number and detail.startswith(PREFIX) else None
