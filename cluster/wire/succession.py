"""The end of a cluster's log for a standby to go on: a suspension that names who does.

It is a ClusterActionRequest that suspends, with the number that the standby has drawn in its flags. A cluster that has
executed it takes no ingress any more, under any leader, and no order but to end: nothing that a client is told of comes
behind this record. The standby whose number it is goes on once it has the record in its own log, which is then whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.cluster.wire.codecs import ClusterAction

if TYPE_CHECKING:
    from ordo.cluster.wire import records


IS_OVER = "the log has ended, and a standby goes on with it (`ordo standby switch`)"
"""Why nothing is changed any more."""
DISMISSED = "the cluster has handed over to its standby"
"""Why a session is over whose cluster has ended: its client looks among all endpoints that it was given."""


def find_successor(values: records.ClusterActionRequest) -> int:
    """Return the number of the standby that a record names to go on; 0: it names none."""
    return values.flags if values.action == ClusterAction.SUSPEND and values.flags > 0 else 0
