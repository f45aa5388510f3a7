"""The members of the cluster and which of them vote, as the log states it (Raft dissertation, chapter 4).

A configuration is in force at a member from the moment its record is in the member's durable log, committed or not
(§4.1); a truncation below the record brings the one before back. Records of configurations change the vote of one
member at a time, so that any quorum of one meets any quorum of the next (§4.1).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from ordo.runtime.errors import ConfigurationError
from ordo.runtime.native.sentinels import NULL_POSITION

VOTERS_MAX = 7
LEARNERS_MAX = 8
MEMBERS_MAX = VOTERS_MAX + LEARNERS_MAX


@dataclass(frozen=True)
class Configuration:
    """Voters, who elect and commit, 1 to VOTERS_MAX of them, and learners, who only follow, at most LEARNERS_MAX.

    Raises ConfigurationError on anything else.
    """

    voter_ids: tuple[int, ...]
    learner_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "voter_ids", tuple(sorted(self.voter_ids)))
        object.__setattr__(self, "learner_ids", tuple(sorted(self.learner_ids)))
        ids = self.member_ids
        if not ids or len(set(ids)) != len(ids) or min(ids) < 0:
            raise ConfigurationError(f"member_ids={ids}: allowed are 1 or more different ids of 0 or more")
        if not self.voter_ids:
            raise ConfigurationError(f"learner_ids={self.learner_ids}: at least one member must be a voter")
        for name, limit in (("voter_ids", VOTERS_MAX), ("learner_ids", LEARNERS_MAX)):
            found = getattr(self, name)
            if len(found) > limit:
                raise ConfigurationError(f"{name}={found}: allowed are at most {limit}")

    @cached_property
    def member_ids(self) -> tuple[int, ...]:
        """Voters and learners, by ascending id."""
        return tuple(sorted(self.voter_ids + self.learner_ids))

    @cached_property
    def quorum_threshold(self) -> int:
        """The number of voters that must agree to a decision."""
        return (len(self.voter_ids) >> 1) + 1

    def describe(self) -> str:
        """Return the configuration as one stable phrase for logs."""
        return f"voters={list(self.voter_ids)} learners={list(self.learner_ids)}"


def count_changed_members(a: Configuration, b: Configuration) -> int:
    """Return how many members have another standing (voter, learner, absent) in one configuration than in the other."""
    stay = set(a.voter_ids) & set(b.voter_ids) | set(a.learner_ids) & set(b.learner_ids)
    return len({*a.member_ids, *b.member_ids} - stay)


class ConfigurationTable:
    """Configurations by the log position at which their record ends, oldest first; the last one is in force.

    The first is the base: that of a snapshot at its log position, or the one this member was set up with, which no
    record stands for (NULL_POSITION).
    """

    def __init__(self, base: Configuration, base_position: int = NULL_POSITION) -> None:
        self._rows = [(base_position, base)]

    @property
    def in_force(self) -> Configuration:
        """The configuration in force: the newest one found in the durable log."""
        return self._rows[-1][1]

    @property
    def position(self) -> int:
        """The position where the record in force ends, or NULL_POSITION when the log states no members."""
        return self._rows[-1][0]

    @property
    def before(self) -> Configuration | None:
        """The configuration before the one in force, or None."""
        return self._rows[-2][1] if len(self._rows) > 1 else None

    @property
    def rows(self) -> list[tuple[int, Configuration]]:
        """Every configuration that may still matter, with the position at which its record ends, oldest first."""
        return list(self._rows)

    def names(self, member_id: int) -> bool:
        """Return whether a record or the snapshot names a member, even one that later records superseded."""
        return any(member_id in one.member_ids for position, one in self._rows if position != NULL_POSITION)

    def has_removed(self, member_id: int, commit_position: int) -> bool:
        """Return whether a configuration named a member, and neither the newest committed one nor any after it does.

        Every leader since then has that record in its log (Raft §5.4), and so is named by it.
        """
        live = max((n for n, (position, _) in enumerate(self._rows) if position <= commit_position), default=0)
        is_named = [member_id in configuration.member_ids for _, configuration in self._rows]
        return any(is_named) and not any(is_named[live:])

    def append(self, position: int, configuration: Configuration) -> None:
        """Add the configuration of a record that ends at `position` of the log."""
        assert position > self.position, f"{position=} after {self._rows}"
        self._rows.append((position, configuration))

    def truncate(self, position: int) -> None:
        """Forget the records that end beyond `position`; the base is never above the commit position."""
        while len(self._rows) > 1 and self._rows[-1][0] > position:
            self._rows.pop()
        assert self.position <= position, f"truncated to {position=} below the base {self._rows}"

    def at(self, position: int) -> Configuration | None:
        """Return the newest configuration of the log up to `position`, or None if there is none."""
        found = None
        for end_position, configuration in self._rows:
            if NULL_POSITION != end_position <= position:
                found = configuration
        return found


def changed(
    configuration: Configuration, *, voters: Iterable[int] = (), learners: Iterable[int] = (), gone: Iterable[int] = ()
) -> Configuration:
    """Return the configuration with some members made voters, made learners, or taken out."""
    moved = {*voters, *learners, *gone}
    return Configuration(
        tuple(one for one in configuration.voter_ids if one not in moved) + tuple(voters),
        tuple(one for one in configuration.learner_ids if one not in moved) + tuple(learners),
    )
