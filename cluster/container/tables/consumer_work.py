"""The work of a shared consumer: which member has each message, what is done, and where the rest begins.

    waits --handed out--> with a member --acknowledged--> done
      ^                       |
      |                       +-- given back, not acknowledged in time, the member is gone --> waits, or
      |                                                                                        dead after the last try
      +------------------------------------------------------------------------------------------+ redelivered

With `counts_refusals` only what is given back counts towards the last try, and nothing else that ends one.

A member that let a message time out, and has said nothing since, may be dead: until it is heard, or its session ends,
it is given one message at a time, and none that was tried before. So its silence costs a message one try at most.

A function of the commands and of their times, nothing else: the same on every member of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ordo.cluster.wire.sessions.consumer_codec import Row, Work
from ordo.runtime.native.sentinels import NULL_VALUE

WINDOW_MAX = 1024
"""Messages of one consumer that are read and not done, counted from the oldest that is not."""
DEAD_MAX = 256
"""Dead letters of one consumer that are remembered; the oldest is forgotten first."""


@dataclass(slots=True)
class WorkItem:
    """One message. Without an owner (-1) it waits until `due`; with one, that is when it is taken back."""

    position: int
    key: int
    owner: int = NULL_VALUE
    tries: int = 0
    due: int = 0
    is_done: bool = False
    refusals: int = 0
    """How often it was given back, where only that counts."""
    refused: int = 0
    """The number of the last of these tries."""


class SharedWork:
    """The messages of one shared consumer, in log order. Times in ms of cluster time."""

    def __init__(self, position: int, *, ack_timeout: int, in_flight_max: int, tries_max: int, by_key: bool) -> None:
        self.floor = position
        """Everything before is done."""
        self.frontier = position
        """Everything before has been read."""
        self.ack_timeout = ack_timeout
        self.in_flight_max = in_flight_max
        self.tries_max = tries_max
        self.by_key = by_key
        self.counts_refusals = False
        """Whether only what was given back has been tried: not what a member had that is gone, or was too slow."""
        self.dead: list[tuple[int, int]] = []
        """(position, tries) of dead letters, the oldest first."""
        self.dead_count = 0
        self._items: dict[int, WorkItem] = {}
        self._turn = 0
        self._silent: set[int] = set()
        """Members that let a message time out, and were not heard since."""

    @property
    def room(self) -> int:
        """The number of messages that may still be read ahead."""
        return WINDOW_MAX - len(self._items)

    @property
    def waiting(self) -> int:
        """The number of messages that were read and are neither done nor handed out."""
        return sum(item.owner == NULL_VALUE and not item.is_done for item in self._items.values())

    def count_in_flight(self, owner: int) -> int:
        return sum(item.owner == owner for item in self._items.values())

    def work_of(self, owner: int) -> tuple[Work, ...]:
        """Return the messages that a member has."""
        counts = self.counts_refusals
        return tuple(
            Work(item.position, item.tries, item.refusals + 1 if counts else 0)
            for item in self._items.values()
            if item.owner == owner
        )

    def by_owner(self) -> dict[int, list[int]]:
        """Return the positions that each member has."""
        found: dict[int, list[int]] = {}
        for item in self._items.values():
            if item.owner != NULL_VALUE:
                found.setdefault(item.owner, []).append(item.position)
        return found

    def next_due(self, time: int) -> int:
        """Return when a message is to be taken back or may be handed out again; -1: no message has such a time."""
        due = [item.due for item in self._items.values() if not item.is_done and item.due > time]
        return min(due, default=NULL_VALUE)

    # Commands

    def extend(self, from_position: int, to_position: int, found: Iterable[Row]) -> bool:
        """Take what a member has read.

        Return False if it does not follow the last read position, or is not in order.
        """
        rows = list(found)
        positions = [row.position for row in rows]
        is_rising = all(one < other for one, other in zip([from_position, *positions], positions, strict=False))
        if from_position != self.frontier or to_position < max([from_position, *positions]) or not is_rising:
            return False
        if len(rows) > self.room:
            return False
        for row in rows:
            self._items[row.position] = WorkItem(row.position, row.key)
        self.frontier = to_position
        self._forget_done()
        return True

    def acknowledge(self, owner: int, positions: Iterable[int]) -> int:
        """Note what the member has done, of what it still has; return how many that were."""
        accepted = 0
        for position in positions:
            item = self._items.get(position)
            if item is not None and item.owner == owner:
                item.owner, item.is_done = NULL_VALUE, True
                accepted += 1
        self._forget_done()
        return accepted

    def give_back(self, owner: int, rows: Iterable[Row], time: int) -> None:
        """Take back what the member could not do; it is handed out again after a delay."""
        for row in rows:
            item = self._items.get(row.position)
            if item is None or not (self._refuse(item, owner, row) if self.counts_refusals else item.owner == owner):
                continue
            self._put_back(item, time + max(row.delay, 0))
        self._forget_done()

    def _refuse(self, item: WorkItem, owner: int, row: Row) -> bool:
        """Count a refusal; return False where it does not count, or another member has the message by now.

        It may be of an earlier try: a member that loses its session tells it in the next one. A try that is not above
        the last one that counted was heard before, or a later one was, and so was the delay.
        """
        number = row.key or (item.tries if item.owner == owner else 0)
        if item.is_done or item.owner not in (owner, NULL_VALUE) or not item.refused < number <= item.tries:
            return False
        item.refusals, item.refused = item.refusals + 1, number
        return True

    def leave(self, owner: int) -> None:
        """Take back what a member had that is gone; it waits for another one."""
        self._silent.discard(owner)
        for item in list(self._items.values()):
            if item.owner == owner:
                self._put_back(item, 0)
        self._forget_done()

    def hear(self, owner: int) -> None:
        """Note that a member has said something: it is there."""
        self._silent.discard(owner)

    def take_back(self, time: int, *, notes_silence: bool) -> None:
        """Take back what was not acknowledged in time, and note whose it was if the log's protocol level has that."""
        for item in list(self._items.values()):
            if item.owner != NULL_VALUE and item.due <= time:
                if notes_silence:
                    self._silent.add(item.owner)
                self._put_back(item, 0)
        self._forget_done()

    def seek(self, position: int) -> None:
        """Begin anew at a position: nothing is with anybody."""
        self.floor = self.frontier = position
        self._items.clear()

    def hand_out(self, members: list[int], time: int) -> None:
        """Give what waits to members in turn, as far as they have room."""
        room = self._rooms(members)
        owners: dict[int, int] = {item.key: item.owner for item in self._items.values() if item.owner != NULL_VALUE}
        blocked: set[int] = set()
        for item in self._items.values():
            if item.is_done or item.owner != NULL_VALUE:
                continue
            owner = self._choose(item, members, room, owners, blocked) if item.due <= time else NULL_VALUE
            if owner == NULL_VALUE:
                blocked.add(item.key)
                continue
            item.owner, item.tries, item.due = owner, item.tries + 1, time + self.ack_timeout
            room[owner] -= 1
            owners[item.key] = owner

    def _rooms(self, members: list[int]) -> dict[int, int]:
        """Return how many messages each member may be given."""
        held = {member: len(positions) for member, positions in self.by_owner().items()}
        if self._silent.issuperset(members):
            self._silent.clear()  # nobody else would be left
        return {
            member: (1 if member in self._silent else self.in_flight_max) - held.get(member, 0) for member in members
        }

    def _choose(
        self,
        item: WorkItem,
        members: list[int],
        room: Mapping[int, int],
        owners: Mapping[int, int],
        blocked: set[int],
    ) -> int:
        """Return the member that gets a message; -1 where none has room, or an earlier one of its key is waiting."""
        if self.by_key and item.key in blocked:
            return NULL_VALUE
        if self.by_key and item.key in owners:
            owner = owners[item.key]
            return owner if self._takes(owner, item, room) else NULL_VALUE
        for _ in range(len(members)):
            self._turn = (self._turn + 1) % len(members)
            if self._takes(members[self._turn], item, room):
                return members[self._turn]
        return NULL_VALUE

    def _takes(self, member: int, item: WorkItem, room: Mapping[int, int]) -> bool:
        return room.get(member, 0) > 0 and not (item.tries and member in self._silent)

    def _put_back(self, item: WorkItem, due: int) -> None:
        item.owner, item.due = NULL_VALUE, due
        tries = item.refusals if self.counts_refusals else item.tries
        if tries >= self.tries_max:
            item.is_done = True
            self.dead.append((item.position, tries))
            self.dead_count += 1
            del self.dead[:-DEAD_MAX]

    def _forget_done(self) -> None:
        """Move the floor behind what is done from the beginning on."""
        for position in list(self._items):
            if not self._items[position].is_done:
                return
            del self._items[position]
            self.floor = position
        self.floor = self.frontier

    # Snapshots

    def state(self) -> dict[str, Any]:
        """Return the whole state, for a snapshot."""
        items = [
            [item.position, item.key, item.owner, item.tries, item.due, int(item.is_done)]
            + [item.refusals, item.refused] * self.counts_refusals
            for item in self._items.values()
        ]
        # Without these two, it is as earlier releases have it.
        refusals = {"counts_refusals": True} if self.counts_refusals else {}
        silent = {"silent": sorted(self._silent)} if self._silent else {}
        return {
            "floor": self.floor,
            "frontier": self.frontier,
            "ack_timeout": self.ack_timeout,
            "in_flight_max": self.in_flight_max,
            "tries_max": self.tries_max,
            "by_key": self.by_key,
            "dead": [list(one) for one in self.dead],
            "dead_count": self.dead_count,
            "turn": self._turn,
            "items": items,
            **refusals,
            **silent,
        }

    @classmethod
    def restored(cls, state: dict[str, Any]) -> SharedWork:
        """Restore what `state` returned. Raises KeyError, TypeError, ValueError where it is not that."""
        work = cls(
            state["floor"],
            ack_timeout=state["ack_timeout"],
            in_flight_max=state["in_flight_max"],
            tries_max=state["tries_max"],
            by_key=bool(state["by_key"]),
        )
        work.frontier, work.dead_count, work._turn = state["frontier"], state["dead_count"], state["turn"]
        work.counts_refusals = bool(state.get("counts_refusals", False))
        work._silent = {int(one) for one in state.get("silent", ())}
        work.dead = [(position, tries) for position, tries in state["dead"]]
        for position, key, owner, tries, due, is_done, *refusals in state["items"]:
            work._items[position] = WorkItem(position, key, owner, tries, due, bool(is_done), *refusals)
        return work
