"""The protocol levels of releases: which kinds of records each of them brought (docs/UPGRADES.md).

A release in which the same records leave another state than in the one before needs a level of its own as well, and has
to go by the level that is in force at each record. Level 1 is that of the first release.
"""

from __future__ import annotations

from cluster.wire import ordo_codecs
from runtime.sbe import Message

FIRST_LEVEL = 0
"""Of releases that say nothing of it."""
STATE_HASH_LEVEL = 1
"""The log may have StateHashEvents."""
APPLICATION_LEVEL = 1
"""The log may have AppDifferences."""
PROTOCOL_LEVEL = STATE_HASH_LEVEL
"""Of this release."""
LEVEL_OF: dict[Message, int] = {
    ordo_codecs.STATE_HASH_EVENT: STATE_HASH_LEVEL,
    ordo_codecs.APP_DIFFERENCE: APPLICATION_LEVEL,
}
"""What each kind of record needs; those that are not here have always been there."""
