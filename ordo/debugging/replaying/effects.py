"""What a service did in one record, as far as it can be seen from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ordo.follow.log_commands import describe_message
from ordo.runtime.reporting.output import printable

if TYPE_CHECKING:
    from ordo.follow.log_schemas import LogSchemas

PAYLOAD_SHOWN_MAX = 200
RAISED = "raise"
"""The kind of what stands for the end: the service raised."""


class Effect(NamedTuple):
    """Something that a service did in the record that ends at `position`.

    `kind`: answer, egress, offer, publish, schedule, cancel, close or reject; `key`: what it concerns, a session, a
    timer, or the number of a message in a topic.
    """

    position: int
    kind: str
    key: int
    value: bytes | int = b""

    def describe(self, schemas: LogSchemas | None = None) -> str:
        """Return one line for people, a message as an object where one of `schemas` has it."""
        if self.kind == "schedule":
            return f"schedule timer={self.key} at={self.value!r}"
        if self.kind == "cancel":
            return f"cancel timer={self.key}"
        if self.kind == "close":
            return f"close session={self.key}"
        if self.kind == "publish" and isinstance(self.value, bytes):
            topic, _, payload = self.value.partition(b":")
            return f"publish topic={topic.decode()} number={self.key} {shown(payload, schemas)}"
        what = str(self.value) if isinstance(self.value, int) else shown(self.value, schemas)
        return f"{self.kind} {what}" if self.kind in ("offer", RAISED) else f"{self.kind} session={self.key} {what}"


def shown(payload: bytes, schemas: LogSchemas | None = None) -> str:
    """Return a payload as an object where one of `schemas` has it, else as a literal of Python, cut."""
    if schemas is not None and (said := describe_message(schemas.decode(payload))):
        return printable(said)
    more = "..." if len(payload) > PAYLOAD_SHOWN_MAX else ""
    return f"{payload[:PAYLOAD_SHOWN_MAX]!r}{more}"


def first_difference(left: list[Effect], right: list[Effect]) -> tuple[Effect | None, Effect | None] | None:
    """Return the first pair that differs, or None; one of a pair is None where there is nothing beside the other."""
    if left == right:
        return None
    for index in range(max(len(left), len(right))):
        pair = (left[index] if index < len(left) else None, right[index] if index < len(right) else None)
        if pair[0] != pair[1]:
            return pair
    return None
