"""A subscription that survives the loss of its source: a replay, then live, and a replay again when too slow.

with PersistentSubscription.connect("10.0.0.1:8010", 0, "aeron:udp?endpoint=224.20.30.39:9000", 7) as subscription:
    for message in subscription:
        handle(message.payload)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, Self, Unpack

from ordo.archive.client.connection import client_transport
from ordo.archive.client.recording_identity import check_identity
from ordo.archive.client.replay import FRAGMENTS_PER_POLL, PARK_NS, RecordedMessage
from ordo.archive.client.settings import ArchiveClientOptions, ArchiveClientSettings
from ordo.archive.client.stream_follower import StreamFollower
from ordo.runtime.closing import Closing
from ordo.runtime.errors import ConfigurationError, OrdoError
from ordo.runtime.polled_items import PolledMessages
from ordo.transport.client.client_transport import ClientTransport

SILENCE_S_DEFAULT = 1.0


class SubscriptionOptions(ArchiveClientOptions, total=False):
    """What `PersistentSubscription.connect` takes by name."""

    position: int | Literal["live"] | None
    identity: str | None
    silence_s: float
    on_change: Callable[[bool], object] | None
    aeron_dir: str | None


class PersistentSubscription(Closing):
    """Every message of a recorded stream from a position on, once and in order, for as long as the stream lives.

    It begins with a replay of the recording, joins the live stream when it has caught up, and goes back to the replay
    when it was too slow for the live stream or lost it. An archive that does not answer is asked again and again. Call
    `poll`, or iterate, every few seconds at least; belongs to one thread, and another one, or the handler of a signal,
    may close it. A live message may not be recorded yet.
    """

    def __init__(
        self,
        settings: ArchiveClientSettings,
        recording_id: int,
        channel: str,
        stream_id: int,
        *,
        position: int | Literal["live"] | None = None,
        identity: str | None = None,
        silence_s: float = SILENCE_S_DEFAULT,
        on_change: Callable[[bool], object] | None = None,
        aeron_dir: str | None = None,
        transport: ClientTransport | None = None,
    ) -> None:
        """Prepare a subscription without waiting.

        `channel`, `stream_id`: where the stream is live; it is read as `tether=false`.

        `position`: where to begin, in bytes, as `position` of this object or of a message gives it; None for the start
        of the recording, "live" for what comes from now on. `identity`: of the recording that the position is in, as
        this object gives it; another one is refused. `silence_s`: how long the live stream may be silent before
        the archive is asked whether it has more. `on_change(is_live)` is called from within `poll` and `work`.
        `aeron_dir`: the driver to use, default one of its own. Raises ConfigurationError, ChannelError, TransportError.
        """
        if not 0 < silence_s < float("inf"):
            raise ConfigurationError(f"silence_s={silence_s!r}: must be a number above 0")
        if not (position is None or position == "live" or (isinstance(position, int) and position >= 0)):
            raise ConfigurationError(f'position={position!r}: must be None, "live", or a number of bytes')
        self._polled: PolledMessages[RecordedMessage] = PolledMessages(position if isinstance(position, int) else None)
        self._transport = transport or client_transport(settings, aeron_dir)
        try:
            self._follower = StreamFollower(
                self._transport.client,
                settings,
                recording_id,
                channel,
                stream_id,
                position=position,
                identity=check_identity(identity),
                silence_ns=round(silence_s * 1e9),
                on_change=on_change or (lambda _: None),
            )
        except BaseException:
            self._transport.close()
            raise

    @classmethod
    def connect(
        cls,
        address: str,
        recording_id: int,
        channel: str,
        stream_id: int,
        *,
        position: int | Literal["live"] | None = None,
        identity: str | None = None,
        silence_s: float = SILENCE_S_DEFAULT,
        on_change: Callable[[bool], object] | None = None,
        aeron_dir: str | None = None,
        **settings: Unpack[ArchiveClientOptions],
    ) -> Self:
        """Return a subscription to a recording of the archive at `host:port`, or at a channel.

        Further settings as in ArchiveClientSettings.
        """
        return cls(
            ArchiveClientSettings.at(address, **settings),
            recording_id,
            channel,
            stream_id,
            position=position,
            identity=identity,
            silence_s=silence_s,
            on_change=on_change,
            aeron_dir=aeron_dir,
        )

    @property
    def position(self) -> int | None:
        """The position after the delivered messages, in bytes; None until that is known.

        Another subscription can begin there.
        """
        return self._polled.position(self._follower.position)

    @property
    def identity(self) -> str | None:
        """Which recording is read, to be kept beside a position of it; None until the archive has said it."""
        return self._follower.identity

    @property
    def is_live(self) -> bool:
        """Whether messages come from the live stream now, and not from the archive."""
        return self._follower.is_live

    @property
    def problem(self) -> str:
        """The last error, after which it tries again; None without one."""
        return self._follower.problem

    def work(self) -> int:
        """Run one duty cycle without messages, for a program that takes none for a while; return the things done.

        Raises UnknownRecordingError; OtherRecordingError for another recording than that which was read before, and at
        the recording's end for another live stream with its session id; ArchiveError for a position that was deleted
        and for credentials that are refused; RegistrationError for a channel that the driver does not take.
        """
        with self._transport.use:
            work_count = self._follower.work(self._transport.drive())
        if self._follower.error is not None:
            raise self._follower.error
        return work_count

    def poll(self, handler: Callable[[RecordedMessage], object], limit: int = FRAGMENTS_PER_POLL) -> int:
        """Call `handler(message)` for what has come, at most `limit` fragments; return how many. Raises as `work`."""
        with self._transport.use:
            if self._polled:
                return self._polled.hand_out(handler, limit)
            self.work()
            return self._follower.poll(handler, limit)

    @property
    def descriptor(self) -> int | None:
        """A descriptor that is readable when `poll` would find something; None with the driver of another process."""
        return self._transport.descriptor

    def take(self) -> RecordedMessage | None:
        """Return the next message, or None when nothing has come. Does not wait. Raises as `work`."""
        self._transport.use.check()
        return self._polled.take_from(self.poll)

    def park(self, timeout_ns: int) -> None:
        """Wait until something came in, or the timeout passed."""
        self._transport.park(timeout_ns)

    def __iter__(self) -> Iterator[RecordedMessage]:
        """Yield every message until this is closed, waiting for them.

        Another loop goes on after the last message of this one.
        """
        while not self._has_ended():
            try:
                message = self.take()
                if message is None:
                    self.park(PARK_NS)
            except OrdoError:
                if self._has_ended():  # meanwhile, by another thread
                    return
                raise
            if message is not None:
                yield message

    def _has_ended(self) -> bool:
        return self._transport.is_closed

    def close(self) -> None:
        """End the subscription; another one can continue at its `position`.

        Idempotent. A call that is under way ends first; then loops end, and calls raise TransportError. In a
        process that was forked from this one's it does nothing.
        """
        self._transport.close(before=self._follower.close)
