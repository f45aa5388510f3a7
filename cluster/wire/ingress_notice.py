"""What a leader tells its clients beside their messages: in the detail of a SessionEvent with the code OK.

It takes no messages for now, or takes them again; or nobody has looked at the credentials that a session was opened
with. Aeron's clients do not act on such an event; their offers meet back pressure instead.
"""

from __future__ import annotations

CLOSED_PREFIX = "ingress=closed: "
OPEN_NOTICE = "ingress=open"
UNCHECKED_NOTICE = "credentials=unchecked"
"""The cluster lets everybody in, and this client has shown credentials."""


def encode_closed(reason: str) -> str:
    """No messages are taken, for this reason."""
    return f"{CLOSED_PREFIX}{reason}"


def decode_notice(detail: str) -> str | None:
    """Why messages are not taken; empty when they are; None when the detail says nothing about it."""
    if detail == OPEN_NOTICE:
        return ""
    return detail.removeprefix(CLOSED_PREFIX) or "no reason given" if detail.startswith(CLOSED_PREFIX) else None
