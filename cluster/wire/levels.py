"""The protocol levels of releases: which kinds of records each of them brought (docs/UPGRADES.md).

A release in which the same records leave another state than in the one before needs a level of its own as well, and has
to go by the level that is in force at each record. Level 1 is that of the first release.
"""

from __future__ import annotations

from typing import Any

from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.app_version import is_of_one_service
from ordo.cluster.wire.configuration import count_members
from ordo.cluster.wire.succession import find_successor
from ordo.runtime.sbe import Message

FIRST_LEVEL = 0
"""The level of releases that do not report one."""
STATE_HASH_LEVEL = 1
"""The log may have StateHashEvents."""
APPLICATION_LEVEL = 1
"""The log may have AppDifferences."""
SERVICE_VERSION_LEVEL = 2
"""The log may have VersionEvents that are for one service alone."""
REQUEST_ID_LEVEL = 3
"""The log may have requests with ids that their callers chose. The length of answers does not decide any more what is
executed (service_api/requests.pyx)."""
IDENTITY_LEVEL = 4
"""The log may have ClusterIdentityEvents."""
OUTPUT_ID_LEVEL = 5
"""The log may have outputs with ids that their applications chose, and reports that count refused outputs exactly. The
answers that are kept for one principal are bounded (service_api/requests.pyx)."""
SEQUENCE_LEVEL = 6
"""Snapshots of services hold the number of the last message (ordo.service_api.native.MessageSequence)."""
SUCCESSION_LEVEL = 7
"""The log may end with a suspension that names the standby which goes on (cluster.wire.succession)."""
SCHEMA_LEVEL = 8
"""The log may have SchemaEvents."""
CLOCK_LEVEL = 8
"""The log may have ClockEvents."""
REFUSALS_LEVEL = 8
"""Shared consumers whose members ask for it count only what is given back as tried (cluster.container.tables)."""
TIME_UNIT_LEVEL = 8
"""A term may begin with a finer unit of time than the log had (cluster.module.versions.log_time)."""
ARRIVAL_LEVEL = 8
"""The log may have messages and requests with the time at which they arrived at their leader
(cluster.wire.sessions.arrivals)."""
MEMBERS_LEVEL = 8
"""The log may have configurations with more than FEW_MEMBERS_MAX members: learners that are none of these."""
FEW_MEMBERS_MAX = 7
"""Voters and learners together, in a log of a lower level."""
COPY_LEVEL = 8
"""Standbys may take snapshots that members copy: services' parts say which hash the state has that they are of."""
PROTOCOL_LEVEL = 8
"""The level of this release."""
_LEVEL_OF: dict[Message, int] = {
    ordo_codecs.STATE_HASH_EVENT: STATE_HASH_LEVEL,
    ordo_codecs.APP_DIFFERENCE: APPLICATION_LEVEL,
    ordo_codecs.CLUSTER_IDENTITY_EVENT: IDENTITY_LEVEL,
    ordo_codecs.SCHEMA_EVENT: SCHEMA_LEVEL,
    ordo_codecs.CLOCK_EVENT: CLOCK_LEVEL,
    ordo_codecs.ARRIVED_REQUEST: ARRIVAL_LEVEL,
}
"""What each kind of record needs, whatever it says; those that are not here have always been there."""


def level_of(table: Message, values: Any) -> int:
    """Return the lowest level of a log that may have this record."""
    if table is ordo_codecs.VERSION_EVENT and is_of_one_service(values):
        return SERVICE_VERSION_LEVEL
    if table is ordo_codecs.CONFIGURATION_EVENT and count_members(values) > FEW_MEMBERS_MAX:
        return MEMBERS_LEVEL
    if table is codecs.CLUSTER_ACTION_REQUEST and find_successor(values):
        return SUCCESSION_LEVEL
    if table is codecs.CLUSTER_ACTION_REQUEST and codecs.is_copy_order(values.action, values.flags):
        return COPY_LEVEL
    return _LEVEL_OF.get(table, FIRST_LEVEL)


def describe_want_of_members(count: int) -> str:
    """Return why the cluster gets no further member."""
    return (
        f"{count} members need protocol level {MEMBERS_LEVEL} of the cluster's log, below it are at most "
        f"{FEW_MEMBERS_MAX}: it gets it once every member has a release that knows it (`ordo cluster versions`)"
    )


def describe_want_of_request_ids() -> str:
    """Return why a request with an id is not taken."""
    return (
        f"requests with an id need protocol level {REQUEST_ID_LEVEL} of the cluster's log: it gets it once every "
        "member has a release that knows it (`ordo cluster versions`)"
    )


def describe_want_of_output_ids() -> str:
    """Return why an output with an id waits, and those after it."""
    return (
        f"outputs with an id need protocol level {OUTPUT_ID_LEVEL} of the cluster's log: it gets it once every member "
        "has a release that knows it (`ordo cluster versions`); this output and those after it wait until then"
    )


def describe_want_of_service_versions(level: int) -> str:
    """Return why one service is not upgraded alone in a log of this protocol level."""
    return (
        f"an upgrade of one service alone needs protocol level {SERVICE_VERSION_LEVEL} of the log, which has "
        f"{max(level, FIRST_LEVEL)}: it gets it once every member has a release that knows it (`ordo cluster versions`)"
    )
