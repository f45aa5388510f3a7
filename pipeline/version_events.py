"""Records at which the version of the service in force changes (docs/UPGRADES.md)."""

from __future__ import annotations

import struct

from cluster.wire.app_version import format_version
from pipeline.errors import VersionChangesError
from pipeline.skips import ORDO_SCHEMA_ID

VERSION_EVENT_ID = 110
_HEADER = struct.Struct("<HHHH")
_APP_VERSION = 24


def refuse_version_event(message: bytes, position: int) -> None:
    """Raises VersionChangesError for a record of kind `other` behind which other code of the service executes."""
    if len(message) < _APP_VERSION + 4:
        return
    _, template_id, schema_id, _ = _HEADER.unpack_from(message)
    if (schema_id, template_id) == (ORDO_SCHEMA_ID, VERSION_EVENT_ID):
        (app_version,) = struct.unpack_from("<i", message, _APP_VERSION)
        raise VersionChangesError(position, format_version(app_version))
