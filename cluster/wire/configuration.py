"""Who is in the cluster, with endpoints, as a ConfigurationEvent of the log or of a snapshot holds it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.members import SEPARATOR, Member, encode_members, parse_members
from ordo.consensus.state.configuration import Configuration
from ordo.runtime.errors import ClusterError, ConfigurationError

if TYPE_CHECKING:
    from ordo.cluster.wire import records


class NamedConfiguration(NamedTuple):
    """A configuration with endpoints, as a log record or a snapshot holds it."""

    voters: tuple[Member, ...]
    learners: tuple[Member, ...]

    def ids(self) -> Configuration:
        """Return what consensus needs of it."""
        return Configuration(_ids(self.voters), _ids(self.learners))

    def encode(self, leadership_term_id: int, timestamp: int) -> bytes:
        """Return the configuration as an encoded ConfigurationEvent."""
        return ordo_codecs.CONFIGURATION_EVENT.encode(
            leadership_term_id=leadership_term_id,
            timestamp=timestamp,
            voters=encode_members(self.voters),
            learners=encode_members(self.learners),
        )


def count_members(values: records.ConfigurationEvent) -> int:
    """Return how many members the text of a ConfigurationEvent names, of whatever form they are."""
    return sum(text.count(SEPARATOR) + 1 for text in (values.voters, values.learners) if text)


def decode_configuration(values: records.ConfigurationEvent) -> NamedConfiguration:
    """Return the configuration of a ConfigurationEvent. Raises ClusterError if it is invalid."""
    try:
        named = NamedConfiguration(*(parse_members(text) if text else () for text in (values.voters, values.learners)))
        named.ids()
    except ConfigurationError as error:
        raise ClusterError(f"a ConfigurationEvent that is none: {error.message}") from error
    return named


def _ids(members: Iterable[Member]) -> tuple[int, ...]:
    return tuple(member.id for member in members)
