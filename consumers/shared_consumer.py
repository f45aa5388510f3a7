"""A shared consumer: its members divide the messages among themselves (docs/CONSUMERS.md).

with SharedConsumer(["10.0.0.1:20000", "10.0.0.2:20000", "10.0.0.3:20000"], "mail") as consumer:
    for delivery in consumer:
        handle(delivery.payload)
        consumer.ack(delivery)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Self

from ordo.cluster.client.opening import open_transport
from ordo.cluster.client.settings import ClientSettings
from ordo.consumers.client_face import MemberFace
from ordo.consumers.consumer import ConsumerChoices
from ordo.consumers.consumer_member import DEFAULT_KINDS, Start
from ordo.consumers.names import draw_member_key
from ordo.consumers.shared_member import Delivered, Delivery, SharedMember, SharedSettings
from ordo.follow.entries import EntryKind, LogEntry


class SharedConsumerChoices(ConsumerChoices, total=False):
    """The keyword arguments of SharedConsumer."""

    key: Callable[[LogEntry], bytes] | None
    ack_timeout_s: float
    tries_max: int
    in_flight_max: int


class SharedConsumer(MemberFace[Delivery]):
    """A member of a shared consumer: each message goes to one of the members, which acknowledges it.

    Belongs to one thread.

    `endpoints`, `name`, `start`, `kinds`, `session_ids` and `repeats` are as for `Consumer`. Without `key` messages go
    to the members in turn. With it, those for which it returns the same bytes go to one member at a time, in the order
    of the log; it must be the same function in all members. A message that is not acknowledged within `ack_timeout_s`
    is handed out again, to any member, and is a dead letter after `tries_max` times. `in_flight_max` messages are with
    one member at a time. What the first member gives for these three, and whether there is a key, holds for the
    consumer until it is removed.

    Raises ConfigurationError, TransportError; the cluster is looked for later, in `poll`.
    """

    _member: SharedMember

    def __init__(
        self,
        endpoints: Sequence[str],
        name: str,
        *,
        start: Start = SharedSettings.start,
        kinds: Collection[EntryKind] = DEFAULT_KINDS,
        session_ids: Collection[int] = (),
        repeats: bool = False,
        key: Callable[[LogEntry], bytes] | None = None,
        ack_timeout_s: float = SharedSettings.ack_timeout_s,
        tries_max: int = SharedSettings.tries_max,
        in_flight_max: int = SharedSettings.in_flight_max,
        settings: ClientSettings | None = None,
        aeron_dir: str | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        """Open a consumer.

        `settings` are those of the session with the cluster, such as its credentials and `egress_channel`.

        `timeout_s`: how long `flush` waits.
        """
        chosen = SharedSettings(
            name=name,
            endpoints=tuple(endpoints),
            start=start,
            kinds=tuple(kinds),
            session_ids=tuple(session_ids),
            repeats=repeats,
            client=settings or ClientSettings(),
            key=key,
            ack_timeout_s=ack_timeout_s,
            tries_max=tries_max,
            in_flight_max=in_flight_max,
        )
        self._open(chosen, aeron_dir, timeout_s)

    def _open(self, chosen: SharedSettings, aeron_dir: str | None, timeout_s: float) -> None:
        transport = open_transport(aeron_dir, chosen.client, "consumer")
        super().__init__(SharedMember(chosen, transport, draw_member_key()), transport, timeout_s)

    @classmethod
    def of(cls, settings: SharedSettings, *, timeout_s: float = 30.0) -> Self:
        """Return a consumer with settings that are made already. Raises TransportError."""
        consumer = cls.__new__(cls)
        consumer._open(settings, None, timeout_s)
        return consumer

    @property
    def in_flight(self) -> int:
        """The number of messages that this member holds as far as it knows: delivered, or about to be."""
        return self._member.in_flight

    @property
    def unsent(self) -> int:
        """Acknowledgements, and messages given back, that are not in the log yet."""
        return self._member.unsent

    @property
    def late(self) -> int:
        """The number of acknowledgements that came too late; these messages are delivered again."""
        return self._member.late

    def deliveries(self, *, timeout_s: float | None = None) -> Iterator[Delivery]:
        """Messages as they come to this member, for ever, or until none has come for `timeout_s`."""
        return self._items(timeout_s)

    def holds(self, delivery: Delivered) -> bool:
        """Return whether a message is still with this member, as far as it knows: whether `ack` would be in time."""
        self._demand_open()
        return self._member.holds(delivery)

    def ack(self, delivery: Delivered) -> bool:
        """Say that a message is done; does not wait. It is never handed out again once this is in the log (`flush`).

        Returns False when the message is not with this member any more, because it took too long or the session was
        lost: it is handed out again.
        """
        self._demand_open()
        return self._member.acknowledge(delivery)

    def nack(self, delivery: Delivered, *, delay_s: float = 0.0) -> bool:
        """Give a message back.

        It is handed out again after `delay_s`, to any member, or is a dead letter when that was its last try. Does not
        wait. Returns False as `ack`.
        """
        self._demand_open()
        return self._member.give_back(delivery, round(delay_s * 1000))

    def flush(self) -> None:
        """Wait until all acknowledgements are in the log on a quorum. Raises ClusterTimeoutError."""
        self._drive_until(lambda: self._member.unsent == 0, "acknowledgements were not taken")

    def close(self) -> None:
        """Leave the consumer.

        Acknowledgements are sent before, and what was not acknowledged goes to other members at once. Idempotent.
        """
        super().close()
