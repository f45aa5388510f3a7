"""The members of durable consumers that calls of `Consume` are: one for each call, with the caller's token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Generic, NamedTuple, Protocol, Self, TypedDict, TypeVar

from ordo.consumers.async_consumer import AsyncConsumer, AsyncSharedConsumer
from ordo.consumers.consumer import Consumer
from ordo.consumers.consumer_member import DEFAULT_KINDS, Start, archives_at
from ordo.consumers.shared_consumer import SharedConsumer
from ordo.consumers.shared_member import SharedSettings
from ordo.gateway.callers.batches import KINDS, encode_entry
from ordo.gateway.callers.settings import GatewaySettings
from ordo.runtime.errors import ConfigurationError
from ordo.service_api import ordo_pb2 as pb

TIMESTAMP_MAX = 253_402_300_799_999
"""The end of the year 9999, in milliseconds since 1970."""
NULL_EPOCH = -1
ACKNOWLEDGEMENTS_MAX = 1_024
"""In one request, which is carried out at once; a member has at most 256 messages at a time."""
SHARED_FIELDS = ("ack_timeout_ms", "tries_max", "in_flight_max")
C = TypeVar("C", AsyncConsumer, AsyncSharedConsumer)


class Standing(NamedTuple):
    """How a member stands: the fields of a response, but for its entries."""

    committed_position: int
    is_active: bool = False
    epoch: int = NULL_EPOCH
    is_paused: bool = False
    unsent_count: int = 0
    late_count: int = 0


class Named(NamedTuple):
    """What names a delivery."""

    position: int
    tries: int


class Member(Protocol):
    """What a call needs of its member. All raise OrdoError once it cannot go on."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def take(self) -> pb.ConsumedEntry | None:
        """Return the next message that has come."""

    def standing(self) -> Standing:
        """Return how things stand."""

    def carry_out(self, request: pb.ConsumeRequest) -> None:
        """Commit or acknowledge."""

    async def await_change(self) -> None:
        """Return when something may have come."""


class _Base(Generic[C]):
    """What both kinds have: the consumer that they are a member of."""

    def __init__(self, consumer: C) -> None:
        self._consumer: C = consumer

    async def __aenter__(self) -> Self:
        await self._consumer.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._consumer.close()

    async def await_change(self) -> None:
        await self._consumer.await_change()


class ExclusiveCall(_Base[AsyncConsumer]):
    """A member of an exclusive consumer."""

    _is_committed: Callable[[], bool] | None = None

    def take(self) -> pb.ConsumedEntry | None:
        found = self._consumer.take(1)
        return pb.ConsumedEntry(entry=encode_entry(found[0])) if found else None

    def standing(self) -> Standing:
        one = self._consumer
        if self._is_committed is not None and self._is_committed():
            self._is_committed = None  # a seek may yet move the consumer back behind it, which is no failure of it
        return Standing(one.position, one.is_active, one.epoch, one.is_paused, int(self._is_committed is not None))

    def carry_out(self, request: pb.ConsumeRequest) -> None:
        if request.WhichOneof("step") != "commit_position":
            raise ConfigurationError("requests to an exclusive consumer, after the first one, have commit_position")
        self._is_committed = self._consumer.begin_commit(request.commit_position)


class SharedCall(_Base[AsyncSharedConsumer]):
    """A member of a shared consumer."""

    _late = 0
    """Acknowledgements of messages that were not with this member any more."""

    def take(self) -> pb.ConsumedEntry | None:
        found = self._consumer.take(1)
        return pb.ConsumedEntry(entry=encode_entry(found[0].entry), try_count=found[0].tries) if found else None

    def standing(self) -> Standing:
        one = self._consumer
        return Standing(
            one.position, is_paused=one.is_paused, unsent_count=one.unsent, late_count=one.late + self._late
        )

    def carry_out(self, request: pb.ConsumeRequest) -> None:
        if request.WhichOneof("step") != "acknowledgements":
            raise ConfigurationError("requests to a shared consumer, after the first one, have acknowledgements")
        acknowledgements = request.acknowledgements.acknowledgements
        if len(acknowledgements) > ACKNOWLEDGEMENTS_MAX:
            raise ConfigurationError(
                f"{len(acknowledgements)} acknowledgements: at most {ACKNOWLEDGEMENTS_MAX} at once"
            )
        for one in acknowledgements:
            self._late += not self._finish(one)

    def _finish(self, one: pb.Acknowledgement) -> bool:
        named = Named(one.position, one.try_count)
        if one.is_given_back:
            return self._consumer.nack(named, delay_s=one.delay_ms / 1_000)
        return self._consumer.ack(named)


def open_member(begin: pb.BeginConsuming, settings: GatewaySettings, credentials: bytes) -> Member:
    """Return a member that joins once it is entered. Raises ConfigurationError, TransportError."""
    chosen = settings_of(begin, settings, credentials)
    if begin.is_shared:
        return SharedCall(AsyncSharedConsumer.over(SharedConsumer.of(chosen)))
    if any(begin.HasField(name) for name in SHARED_FIELDS):
        raise ConfigurationError(f"{', '.join(SHARED_FIELDS)} are for shared consumers: set is_shared, too")
    return ExclusiveCall(AsyncConsumer.over(Consumer.of(chosen)))


def settings_of(begin: pb.BeginConsuming, settings: GatewaySettings, credentials: bytes) -> SharedSettings:
    """Return the settings of a call's member. Raises ConfigurationError."""
    unknown = [kind for kind in begin.kinds if kind not in KINDS]
    if unknown:
        raise ConfigurationError(f"kind {unknown[0]!r}: must be one of {', '.join(KINDS)}")
    client = replace(settings.client, credentials=credentials, client_name="")
    return SharedSettings(
        name=begin.name,
        endpoints=settings.endpoints,
        start=_start(begin),
        kinds=list(dict.fromkeys(KINDS[kind] for kind in begin.kinds)) or DEFAULT_KINDS,
        session_ids=frozenset(begin.session_ids),  # however many: each entry is looked for among them
        repeats=begin.repeats,
        archives=archives_at(settings.archives, client),
        client=client,
        **_choices_of_shared(begin),
    )


class SharedChoices(TypedDict, total=False):
    """What a first member may choose for a shared consumer."""

    ack_timeout_s: float
    tries_max: int
    in_flight_max: int


def _choices_of_shared(begin: pb.BeginConsuming) -> SharedChoices:
    chosen: SharedChoices = {}
    if begin.HasField("ack_timeout_ms"):
        chosen["ack_timeout_s"] = begin.ack_timeout_ms / 1_000
    if begin.HasField("tries_max"):
        chosen["tries_max"] = begin.tries_max
    if begin.HasField("in_flight_max"):
        chosen["in_flight_max"] = begin.in_flight_max
    return chosen


def _start(begin: pb.BeginConsuming) -> Start:
    which = begin.WhichOneof("start")
    if which == "from_position":
        return begin.from_position
    if which == "from_timestamp":
        if not 0 <= begin.from_timestamp <= TIMESTAMP_MAX:
            raise ConfigurationError(f"from_timestamp={begin.from_timestamp}: must be milliseconds since 1970")
        return datetime.fromtimestamp(begin.from_timestamp / 1_000, UTC)
    return "live" if which == "live" and begin.live else "first"
