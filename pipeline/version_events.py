"""Records at which the version of the service in force changes (docs/UPGRADES.md)."""

from __future__ import annotations

from cluster.wire import ordo_codecs
from cluster.wire.app_version import format_version
from pipeline.errors import VersionChangesError
from runtime.errors import DecodeError


def refuse_version_event(message: bytes, position: int) -> None:
    """Raises VersionChangesError for a record of kind `other` behind which other code of the service executes."""
    try:
        found = ordo_codecs.decode(message)
    except DecodeError:
        return  # the audit's to say
    if found is not None and found[0] is ordo_codecs.VERSION_EVENT:
        raise VersionChangesError(position, format_version(found[1].app_version))
