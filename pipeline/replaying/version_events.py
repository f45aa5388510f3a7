"""Records at which the version of a service in force changes (docs/UPGRADES.md)."""

from __future__ import annotations

from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.app_version import concerns, format_version
from ordo.pipeline.decoding.errors import VersionChangesError
from ordo.runtime.errors import DecodeError


def refuse_version_event(message: bytes, position: int, service_id: int | None) -> None:
    """Raise VersionChangesError for a record of kind `version` after which other code executes.

    A service of None means that nobody says which of several services it is.
    """
    try:
        found = ordo_codecs.decode(message)
    except DecodeError:
        return  # the audit's to say
    if found is None or found[0] is not ordo_codecs.VERSION_EVENT:
        return
    if service_id is None or concerns(found[1], service_id):
        raise VersionChangesError(position, format_version(found[1].app_version))
