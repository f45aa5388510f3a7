"""Asks the other standbys of one primary, before one of them is promoted, whether another one is the one to take.

A command writes down that it asks, then asks, and what was written stands until the promotion has come about or is
refused: so of two that ask each other's standbys, one at least finds the other, and is refused. The others do not stand
still for it: one that copies on while the primary lives may have more a moment later. No logs are mixed then: each
standby proves that its log is a beginning of that of the cluster that it follows (follow.recordings.log_proof).
"""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ordo.archive.store.lmdb_store import open_lmdb
from ordo.backup.folder import read_json, write_json
from ordo.cluster.admin.remote import RemoteCluster
from ordo.cluster.client.operator import MemberLook
from ordo.runtime.errors import ClusterError, OrdoError, StorageInUseError
from ordo.runtime.io.storage import FileStorage
from ordo.salvage.holdings import examine
from ordo.standby.folder import ORDER, PROMOTING, is_begun_anew
from ordo.standby.report import ALIVE_S, describe_standby
from ordo.transport.secure.settings import Encryption

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ordo.cluster.settings.config import NodeSettings

LOOK_TIMEOUT_S = 5.0
LEFT_OUT = "leave it out of --others where it is lost for good"


class Other(NamedTuple):
    """What one that was asked says of itself, as far as it concerns who is to be promoted."""

    endpoint: str
    member_id: int
    is_standby: bool
    """It runs, and was not promoted."""
    position: int
    """Up to here it has the log, to the byte."""
    heard_ms: int
    """So long ago it heard the primary; negative: not since its start."""
    is_being_promoted: bool = False


def parse_other(endpoint: str, look: MemberLook) -> Other:
    """Return what a node's report says."""
    return Other(
        endpoint,
        look.get("member_id"),
        look.get("is_standby") == 1,
        look.get("append_position"),
        look.get("primary_heard_ms"),
        look.get("is_being_promoted") == 1,
    )


def find_refusal(own_id: int, position: int, others: list[Other], *, although_alive: bool) -> str:
    """Return why this standby, which has the log up to a position, is not the one to promote; empty: it may be."""
    for one in others:
        if one.member_id == own_id:
            return f"{one.endpoint} is this standby's own ingress, or has its id {own_id}: give the others' to --others"
        if not one.is_standby:
            return (
                f"{one.endpoint}, id {one.member_id}, is no standby: it was promoted, or is of an earlier release. "
                f"Where it was promoted, follow it (`ordo standby run --endpoints {one.endpoint}`)"
            )
        if one.is_being_promoted:
            return (
                f"{one.endpoint}, id {one.member_id}, is being promoted. Where nobody does that, a command was killed "
                f"there: give it again, or remove {PROMOTING} and {ORDER} from its data_dir"
            )
        if not although_alive and 0 <= one.heard_ms < ALIVE_S * 1000:
            return (
                f"the primary answered {one.endpoint} {one.heard_ms / 1000:g} s ago: it is not gone, and there would "
                "be two clusters. Stop it first, or give --although-alive"
            )
    most = max(others, key=lambda one: one.position, default=None)
    if most is not None and most.position > position:
        return (
            f"{most.endpoint}, id {most.member_id}, has the log up to position={most.position}, and this standby up to "
            f"{position}: promote that one, or leave it out of --others where it is not to count"
        )
    return ""


@contextmanager
def choosing(config: NodeSettings, endpoints: list[str], credentials: bytes, *, although_alive: bool) -> Iterator[None]:
    """Ask the others, if any are given, and keep a command that asks this standby from another promotion meanwhile.

    Raises ClusterError where another standby is the one to promote, or cannot be asked: it may be.
    """
    if not endpoints:
        yield
        return
    path, mark = config.node.data_dir / PROMOTING, secrets.token_hex(8)
    write_json(path, {"command": mark})
    try:
        _demand_none_better(config, endpoints, credentials, although_alive)
        if read_json(path).get("command") != mark:  # the other one ends what is written down for both
            raise ClusterError(f"{config.node.data_dir}: another command promotes this standby since: see what it says")
        yield
    finally:
        if read_json(path).get("command") == mark:  # or another command on this machine has begun since
            path.unlink(missing_ok=True)


def _demand_none_better(config: NodeSettings, endpoints: list[str], credentials: bytes, although_alive: bool) -> None:
    if is_begun_anew(config):
        raise ClusterError(
            f"{config.node.data_dir}: this standby copies a snapshot of the primary, and would go on with a log that "
            "ends before it: promote one of --others, or give the command without --others"
        )
    encryption, keys = config.encryption, None
    if encryption.is_on:
        keys = Encryption(str(encryption.key_file), str(encryption.trusted_file))
    others = [_ask(one, credentials, keys) for one in endpoints]
    own = _own_position(config)  # after what the others say of theirs
    if refusal := find_refusal(config.node.member_id, own, others, although_alive=although_alive):
        raise ClusterError(refusal)


def _own_position(config: NodeSettings) -> int:
    """Return up to where this standby has the log: by its process, or by what is on disk where none has the folder.

    What a process wrote down that was killed is a second old, or of more than the disk kept.
    """
    try:
        with FileStorage(open_lmdb).lock_directory(str(config.cluster_dir)):
            return examine(config).holding.end_position
    except StorageInUseError:
        return int(describe_standby(config).get("position", -1))


def _ask(endpoint: str, credentials: bytes, keys: Encryption | None) -> Other:
    try:
        with RemoteCluster(endpoint, credentials=credentials, encryption=keys) as remote:
            look = remote.look_at(endpoint, LOOK_TIMEOUT_S)
    except OrdoError as error:
        look = error
    if isinstance(look, OrdoError):
        raise ClusterError(
            f"standby {endpoint} may have more of the log, or be promoted, and cannot be asked: {look.message}. "
            f"Nothing was promoted: start it (`ordo standby run`), or {LEFT_OUT}"
        )
    return parse_other(endpoint, look)
