"""The longest message that a cluster's log takes, in the detail of the event that opens a session.

A leader that announces a session which another one has opened says so there, too: its process may be younger than the
client's publication, and hear that from the middle on.

Aeron's clients do not read the detail of such an event, and its cluster leaves it empty.
"""

from __future__ import annotations

PREFIX = "message-length-max="
_ANNOUNCED = "announced"


def encode_message_limit(length_bytes: int) -> str:
    """`length_bytes`: of a message with its header."""
    return f"{PREFIX}{length_bytes}"


def decode_message_limit(detail: str) -> int | None:
    """Return the limit, or None if the cluster does not send it. Other words may follow the first."""
    word = detail.partition(" ")[0]
    digits = word.removeprefix(PREFIX)
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= 10
    return int(digits) if is_number and word.startswith(PREFIX) else None


def encode_announcement(length_bytes: int) -> str:
    """Return the detail for a session that the leader did not open itself; `length_bytes` as for a new one."""
    return f"{encode_message_limit(length_bytes)} {_ANNOUNCED}"


def is_announcement(detail: str) -> bool:
    """Return whether the leader has not opened the session itself. Those of earlier releases do not say it."""
    return _ANNOUNCED in detail.split(" ")


LENGTH_BYTES_MAX = 16 * 1024 * 1024
"""No message is longer, whatever the length of the terms; otherwise it is an eighth of it."""
_PARTS_OF_TERM = 8
_MEGABYTE = 1024 * 1024


def term_length_for(length_bytes: int) -> int:
    """Return the shortest length of terms that takes a message so long: a power of two, whole megabytes."""
    return max(_MEGABYTE, 1 << (length_bytes * _PARTS_OF_TERM - 1).bit_length())


def describe_too_long(what: str, length_bytes: int, overhead_bytes: int, log_max: int, ingress_max: int) -> str:
    """Return the text about a message that is too long, with the settings to change.

    `overhead_bytes`: of its header; the others are the longest messages that the cluster's log and the client's ingress
    take, with their headers.
    """
    allowed = min(log_max, ingress_max) - overhead_bytes
    told = f"{what} of {length_bytes:,} bytes: at most {allowed:,} are taken here; send it in parts"
    whole_bytes = length_bytes + overhead_bytes
    if whole_bytes > LENGTH_BYTES_MAX:
        return f"{told} (no setting allows more than {LENGTH_BYTES_MAX - overhead_bytes:,})"
    term = f"{term_length_for(whole_bytes) // _MEGABYTE}m"
    settings = []
    if whole_bytes > log_max:
        settings.append(f'log_term_length = "{term}" on every member (`ordo cluster renew-log`)')
    if whole_bytes > ingress_max:
        settings.append(f'ClientSettings(ingress_channel="aeron:udp?term-length={term}")')
    return f"{told}, or set {' and '.join(settings)}" if settings else told
