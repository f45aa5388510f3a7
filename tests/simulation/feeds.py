"""Readers of feeds: what ships, on simulated hosts, killed and stopped while they read."""

from __future__ import annotations

from typing import Protocol

from ordo.cluster.wire.streams import feed_alias
from ordo.follow.topics.feeds import INVALID_POSITION, FeedFollower, FeedMessage
from ordo.runtime.errors import ArchiveError, OrdoError, OtherClusterError
from tests.simulation.history import ExecutedLog
from tests.simulation.log_followers import FollowerWorld, LogFollowerProcess
from tests.simulation.service import FEED_TOPIC, feed_payload

BATCH_MAX = 40


class FeedWorld(FollowerWorld, Protocol):
    """What a reader needs of the world that it lives in."""

    executed: ExecutedLog


class SimulatedReader(LogFollowerProcess):
    """One reader through all its lives. `follower` is None while its process is dead.

    It keeps how far it has come where nothing is lost, and begins its next life there: with the next sequence number,
    or with the position of the last message, which are the same since each record publishes once.
    """

    def __init__(self, world: FeedWorld, index: int) -> None:
        super().__init__(world, f"reader{index}", f"10.0.4.{index + 1}")
        self.world = world
        self.index = index
        self.follower: FeedFollower | None = None
        self.sequence = 0
        self.position = 0
        self.has_skipped = False
        self.begins_anywhere = False
        """What it wants is deleted everywhere: it goes on with the oldest message that is left."""
        self.logs = [world.executed]
        """Those that have all that it was handed; after a recovery it may be that of either epoch."""
        self.is_refused = False
        """It has more than a cluster that goes on with less, and was told so."""

    def boot(self) -> None:
        """A new process."""
        transport = self.start_life()
        by_sequence = self.sequence > 0 and self.random.random() < 0.5
        self.follower = FeedFollower(
            transport.client,
            self.archives(self.index),
            FEED_TOPIC,
            "oldest" if self.begins_anywhere else "live" if by_sequence else self.position,
            self.sequence + 1 if by_sequence and not self.begins_anywhere else None,
            silence_s=0.3,
        )
        self._transport = transport

    def release(self) -> None:
        """Forgets the process without a word to anybody."""
        super().release()
        self.follower = None

    @property
    def is_alive(self) -> bool:
        return self.follower is not None

    def step(self, now_ns: int) -> None:
        """One duty cycle, and sleep until something is due."""
        follower = self.follower
        assert follower is not None
        self.begin_step(now_ns)
        try:
            follower.work(self._transport.drive())
            follower.poll_messages(self._on_message, BATCH_MAX)
        except ArchiveError as error:
            if error.code == INVALID_POSITION and not self._is_kept():
                self._begin_anywhere()
                return
            self.world.fail(f"{self.name} ended: {error}")
        except OtherClusterError as error:
            if self.world.executed in self.logs:
                self.world.fail(f"{self.name} ended: {error}")
            self.is_refused = True
            self.kill()
            return
        except OrdoError as error:
            self.world.fail(f"{self.name} ended: {type(error).__name__}: {error}")
        self.end_step(now_ns)

    def begin_epoch(self, former: ExecutedLog, base_position: int) -> None:
        """The world's log is another one from a position on. Who has more of the former log has that one only; if it
        has not heard which cluster that was, it cannot tell, and a person has to begin it anew."""
        self.logs = [former] if self.position > base_position else [self.world.executed, former]
        follower = self.follower
        if self.position > base_position and follower is not None and follower.cluster.origin is None:
            self.kill()

    def _is_kept(self) -> bool:
        """Whether a member that runs, and that it was told of, has the feed from its beginning on: disks are lost, and
        snapshots replace logs."""
        known = [self.world.nodes[one].node for one in self.known_ids]
        archives = [node.archive for node in known if node is not None]
        return any(
            one.start_position == 0 and f"alias={feed_alias(FEED_TOPIC)}" in one.original_channel
            for archive in archives
            for one in archive.recordings()
        )

    def _begin_anywhere(self) -> None:
        self.kill()
        self.begins_anywhere = True
        self.boot()

    def _on_message(self, message: FeedMessage) -> None:
        if self.begins_anywhere and message.sequence <= self.sequence:
            return  # a node that could not be reached before has more than the others
        if self.begins_anywhere:
            self.sequence, self.begins_anywhere = message.sequence - 1, False
            self.has_skipped = True
        elif self.sequence == message.sequence - 1:
            self.has_skipped = False
        found = [(log, self._find_wrong(message, log)) for log in self.logs]
        if all(wrong for _, wrong in found):
            self.world.fail(f"{self.name}: sequence {message.sequence} at {message.position} {found[0][1]}")
        self.logs = [log for log, wrong in found if not wrong]
        self.sequence, self.position = message.sequence, message.position

    def _find_wrong(self, message: FeedMessage, executed: ExecutedLog) -> str:
        """What must not be so about a message; '' where nothing is."""
        if message.position > self.world.committed_position:
            return "is of what nobody has committed"
        if message.sequence != self.sequence + 1:
            return f"follows {self.sequence}"
        index = executed.index_after(message.position) - 1
        if index < 0 or executed.records[index].position != message.position:
            return "is of a record that nobody has executed"
        if message.payload != feed_payload(message.position, executed.records[index].digest):
            return "differs from what was done"
        before = executed.records[index - 1].position if index else 0
        return "" if before == self.position or self.has_skipped else f"follows {self.position}: a record is missing"


def find_unread(readers: list[SimulatedReader]) -> str:
    """How far readers are behind what was executed; '' when they are not."""
    behind = [one for one in readers if one.position < one.world.executed.end_position]
    return ", ".join(f"{one.name} is at {one.position} of {one.world.executed.end_position}" for one in behind)
