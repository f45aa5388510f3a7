"""A leader's notices to its clients: in the detail of a SessionEvent with the code OK.

It takes no messages for now, or takes them again; a session has used up its quota, or has some again; its service has
failed; or nobody has looked at the credentials that a session was opened with. Aeron's clients do not act on such an
event; their offers meet back pressure instead.
"""

from __future__ import annotations

CLOSED_PREFIX = "ingress=closed: "
OPEN_NOTICE = "ingress=open"
HELD_PREFIX = "quota=held: "
FREE_NOTICE = "quota=free"
FAILED_PREFIX = "service=failed: "
"""Before where the leader's service failed, and at what."""
UNCHECKED_NOTICE = "credentials=unchecked"
"""The cluster lets everybody in, and this client has shown credentials."""


def encode_closed(reason: str) -> str:
    """No messages are taken, for this reason."""
    return f"{CLOSED_PREFIX}{reason}"


def decode_notice(detail: str) -> str | None:
    """Return why messages are not taken; empty if they are; None if the detail is no such notice."""
    if detail == OPEN_NOTICE:
        return ""
    return detail.removeprefix(CLOSED_PREFIX) or "no reason given" if detail.startswith(CLOSED_PREFIX) else None


def encode_held(reason: str) -> str:
    """Return the detail for a session whose messages wait for its quota."""
    return f"{HELD_PREFIX}{reason}"


def decode_held(detail: str) -> str | None:
    """Return which quota a session's messages wait for; empty if for none; None if the detail is no such notice."""
    if detail == FREE_NOTICE:
        return ""
    return detail.removeprefix(HELD_PREFIX) or "no reason given" if detail.startswith(HELD_PREFIX) else None


def encode_failure(log_position: int, error: str) -> str:
    """Return the detail for a leader whose service raised an error of this type, and executes nothing more."""
    return f"{FAILED_PREFIX}the service failed at record {log_position}: {error}"


def decode_failure(detail: str) -> str | None:
    """Return the type of error that the service raised, or None if the detail is no such notice."""
    return detail.removeprefix(FAILED_PREFIX) if detail.startswith(FAILED_PREFIX) else None
