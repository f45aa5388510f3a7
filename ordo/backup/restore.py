"""Makes the data folders of a new cluster from a backup.

A restored member has the log up to the chosen position, and the newest snapshot below it. Behind it stand records that
are the same on all restored members, and that make the cluster another one than that of the backup:

    NewLeadershipTermEvent   of a term far beyond those of the backup: the logs of the two clusters can be told apart
    LevelEvent               where the log may not have the next record yet
    ClusterIdentityEvent     the identity of the new cluster: no member takes another cluster's data for its own
    ConfigurationEvent       the members of the new cluster's configuration files, in place of the old cluster's
    ClusterActionRequest     to take messages, where the old cluster was suspended there
    SessionCloseEvent        for each session that was open: its client belongs to the old cluster, and would otherwise
                             be told of a new leader

Everything is checked before: each frame of the log, each snapshot against its digest, and that a record ends at the
position. A folder appears under its name only when it is whole.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ordo.backup.build import ClosingRecords, build_member
from ordo.backup.folder import BackupFolder, demand_backup
from ordo.backup.plan import Plan, Target, find_plan
from ordo.backup.survey import Survey
from ordo.cluster.module.state.folder_rows import Owner
from ordo.cluster.settings.config import NodeSettings
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.app_version import format_versions
from ordo.cluster.wire.configuration import NamedConfiguration
from ordo.cluster.wire.levels import IDENTITY_LEVEL
from ordo.cluster.wire.log_identity import IDENTITY_BYTES, TERM_LEAP, unpack_identity
from ordo.cluster.wire.streams import MAIN_SERVICE_ID
from ordo.runtime.errors import ConfigurationError, StorageError
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.native.cluster_time import describe_time
from ordo.runtime.native.file_access import choose_file_access
from ordo.runtime.settings.dates import parse_time as parse_date_or_time
from ordo.transport.frame_layout import FRAME_ALIGNMENT, FRAME_HEADER_LENGTH, align_frame

TERM_DRAW_BITS = 30
RESTORING = ".restoring"


@dataclass(frozen=True)
class Restored:
    """What was made."""

    plan: Plan
    term_id: int
    identity: bytes
    end_position: int
    folders: dict[int, Path]
    versions: list[int]
    """In force, by service."""
    missing: list[int]
    """Members of the new cluster whose folders were not made."""

    def lines(self) -> Iterator[str]:
        survey, snapshot = self.plan.survey, self.plan.snapshot
        yield from self.plan.findings
        time = describe_time(survey.timestamp)
        begin = "the beginning of the log" if snapshot is None else f"the snapshot at {snapshot.log_position}"
        versions = sorted(set(self.versions)) if len(set(self.versions)) == 1 else self.versions
        yield (
            f"restored to position {survey.position}, cluster time {time}, from {begin}; service version"
            f" {format_versions(versions)}{'' if len(versions) == 1 else ' (by service id)'}"
        )
        yield (
            f"the new cluster has identity {self.identity.hex()[:12]}, and goes on in term {self.term_id} at position"
            f" {self.end_position}; {len(survey.sessions)} sessions of the old one are closed"
        )
        for member_id, folder in self.folders.items():
            yield f"member {member_id}: {folder}"
        if self.missing:
            yield (
                f"still to be made, from the same backup with --position {survey.position}: the folders of members"
                f" {', '.join(map(str, self.missing))}"
            )


def parse_time(text: str) -> int:
    """Return a timestamp, whose size tells its unit, from itself or from a date with its offset.

    Raises ConfigurationError.
    """
    if text.isascii() and text.isdecimal():
        return int(text)
    found = parse_date_or_time(text)
    if found is None:
        raise ConfigurationError(
            f"--time {text}: must be like 2026-03-01T12:00:00Z, with its offset, or milliseconds since 1970 (or "
            "microseconds, or nanoseconds)"
        )
    return found


def restore_members(path: Path, configs: Sequence[NodeSettings], target: Target) -> Restored:
    """Make the data folder of each member whose configuration is given.

    Raises ConfigurationError, OrdoError; none of the folders is there then.
    """
    demand_backup(path)
    _check_configs(configs)
    with BackupFolder(path, None) as folder:
        plan = find_plan(folder, target)
        for config in configs:
            _check_services(config, plan)
            _check_versions(config, plan.survey)
            check_time_unit(config, plan.survey)
        members = configs[0].member_list
        closing = close_log(
            plan.survey,
            plan.digest,
            plan.stretch.term_length,
            NamedConfiguration(members, ()),
            configs[0].cluster.cluster_id,
            _draw(configs),
        )
        end_position = _build_all(folder, plan, configs, closing)
    made = {config.node.member_id: config.node.data_dir for config in configs}
    missing = [member.id for member in members if member.id not in made]
    versions = [plan.survey.version_of(one) for one in range(configs[0].module_config().service_count)]
    return Restored(plan, closing.term_id, closing.identity, end_position, made, versions, missing)


def _build_all(folder: BackupFolder, plan: Plan, configs: Sequence[NodeSettings], closing: ClosingRecords) -> int:
    """Build all folders, then give them their names; return where their logs end.

    All or none: the folders of one call have an identity of their own, so none of them fits to those of another call.
    """
    end_position, named = plan.survey.position, list[Path]()
    try:
        for config in configs:
            choose_file_access(config.node.file_access)
            shutil.rmtree(_part_of(config), ignore_errors=True)
            owner = Owner(config.cluster.cluster_id, config.node.member_id)
            end_position = build_member(folder, plan, _part_of(config), closing, owner)
        for config in configs:
            _name(_part_of(config), config.node.data_dir)
            named.append(config.node.data_dir)
    except BaseException:
        for path in (*map(_part_of, configs), *named):
            shutil.rmtree(path, ignore_errors=True)
        raise
    return end_position


def _name(part: Path, directory: Path) -> None:
    """Give a folder that is whole its name, for good. Raises StorageError."""
    try:
        with suppress(FileNotFoundError):
            directory.rmdir()
        os.rename(part, directory)
    except OSError as error:
        raise StorageError(f"{directory} cannot be made: {error.strerror}") from None
    FileStorage().sync_directory(str(directory.absolute().parent))


def _part_of(config: NodeSettings) -> Path:
    """Return the folder that becomes the data folder; on the same disk."""
    return config.node.data_dir.with_name(config.node.data_dir.name + RESTORING)


# -- what is allowed ---------------------------------------------------------------------------------------------------


def _check_configs(configs: Sequence[NodeSettings]) -> None:
    if not configs:
        raise ConfigurationError("--config: give node.toml of at least one member of the new cluster")
    if any(config.member_list != configs[0].member_list for config in configs):
        raise ConfigurationError("--config: the files have different [[members]]; they must be of one cluster")
    ids = [config.node.member_id for config in configs]
    if len(set(ids)) < len(ids):
        raise ConfigurationError(f"--config: the files are of members {ids}; give one of each")
    for config in configs:
        directory = config.node.data_dir
        if config.node.learner:
            raise ConfigurationError(
                f"member {config.node.member_id} is a learner: restore the voters, and add it to the running cluster"
            )
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise ConfigurationError(
                f"{directory} is not empty: a cluster is restored into new folders; move it away, or give another"
                " data_dir"
            )


def _check_versions(config: NodeSettings, survey: Survey) -> None:
    """Nothing is executed with the code of another version; better said now than by every member when it starts."""
    for service_id, code in enumerate(config.app_versions):
        own = code or [config.cluster.app_version]
        lacking = sorted(set(survey.versions_of(service_id)) - set(own))
        if lacking:
            name, table = "the service", "[service]"
            if len(config.app_versions) > 1:
                name, table = f"service {service_id}", "[[services]]"
            raise ConfigurationError(
                f"member {config.node.member_id} has code of version {format_versions(own)} of {name}, the backup"
                f" needs {format_versions(lacking)} at this position: give it in {table} versions, or as app_version"
            )


def check_time_unit(config: NodeSettings, survey: Survey) -> None:
    """Raise ConfigurationError for a member that would not start with the log's unit of time at its end."""
    cluster, found = config.cluster, survey.time_unit
    if survey.terms and found not in (cluster.cluster_time_unit, cluster.former_time_unit):
        raise ConfigurationError(
            f'member {config.node.member_id} has time_unit = "{cluster.time_unit}", and the log of the backup has'
            f' "{found.symbol}" at this position: give that in [cluster] as time_unit, or as time_unit_from where it is'
            " to go over"
        )


def _check_services(config: NodeSettings, plan: Plan) -> None:
    """Check that the number of services stays the same; it is unknown for a log without a snapshot."""
    own, needed = config.module_config().service_count, plan.snapshot
    found = own if needed is None else len(needed.service_recording_ids)
    if found != own:
        raise ConfigurationError(
            f"member {config.node.member_id} is to run {own} service(s), the backup is of {found}: give one"
            " [[services]] table for each, in the order that the cluster had"
        )


# -- the records behind the position -----------------------------------------------------------------------------------


def _draw(configs: Sequence[NodeSettings]) -> bytes:
    """Return what tells this cluster from another one with the same members, restored from the same backup.

    It is random where all folders are made here, and empty where calls on several machines must make the same.
    """
    is_whole = len(configs) == len(configs[0].member_list)
    return secrets.token_bytes(IDENTITY_BYTES) if is_whole else b""


def close_log(
    survey: Survey, digest: bytes, term_length: int, members: NamedConfiguration, cluster_id: int, draw: bytes
) -> ClosingRecords:
    """Return the records that make a log, from where the survey ends, that of another cluster.

    `digest`: of the snapshot that it is executed from. `term_length`: of the log buffers. `draw`: see `_draw`.
    """
    last_term = survey.terms[-1][0] if survey.terms else 0
    said = f"{survey.position} {last_term} {digest.hex()} {members} {cluster_id} {draw.hex()}".encode()
    number = int.from_bytes(hashlib.blake2b(said, digest_size=8).digest()) % (1 << TERM_DRAW_BITS)
    term_id = last_term + TERM_LEAP + number
    identity = hashlib.blake2b(said, digest_size=IDENTITY_BYTES).digest()
    first = codecs.NEW_LEADERSHIP_TERM_EVENT.encode(
        leadership_term_id=term_id,
        log_position=_end_of_first(survey.position, term_length),
        timestamp=survey.timestamp,
        term_base_log_position=survey.position,
        leader_member_id=members.voters[0].id,
        log_session_id=0,
        time_unit=survey.time_unit,
        app_version=survey.version_of(MAIN_SERVICE_ID),
    )
    closed = [
        codecs.SESSION_CLOSE_EVENT.encode(
            leadership_term_id=term_id,
            cluster_session_id=session_id,
            timestamp=survey.timestamp,
            close_reason=codecs.CloseReason.TIMEOUT,
        )
        for session_id in sorted(survey.sessions)
    ]
    begin = [first, *_resume(survey, term_id, term_length), *_identify(identity, survey, term_id, members.voters[0].id)]
    records = [*begin, members.encode(term_id, survey.timestamp), *closed]
    return ClosingRecords(records, term_id, identity, begin_of_restored(survey))


def begin_of_restored(survey: Survey) -> int:
    """Return from where on the restored log is another one: no record ends between the backup's end and here."""
    return survey.position + FRAME_ALIGNMENT


def _resume(survey: Survey, term_id: int, term_length: int) -> Iterator[bytes]:
    """Yield the record that has the new cluster take messages where the former one was suspended, or had ended."""
    if survey.is_suspended:
        yield codecs.CLUSTER_ACTION_REQUEST.encode(
            leadership_term_id=term_id,
            log_position=_end_of(
                codecs.CLUSTER_ACTION_REQUEST.block_length, _end_of_first(survey.position, term_length), term_length
            ),
            timestamp=survey.timestamp,
            action=codecs.ClusterAction.RESUME,
            flags=0,
        )


def _end_of_first(position: int, term_length: int) -> int:
    """Return where the NewLeadershipTermEvent ends."""
    return _end_of(codecs.NEW_LEADERSHIP_TERM_EVENT.block_length, position, term_length)


def _end_of(block_length: int, position: int, term_length: int) -> int:
    """Return where a record ends that follows a position; if the rest of the term is too short, it is in the next."""
    length = codecs.HEADER_LENGTH_BYTES + block_length
    aligned, rest = align_frame(FRAME_HEADER_LENGTH + length), term_length - position % term_length
    return position + aligned + (rest if aligned > rest else 0)


def _identify(identity: bytes, survey: Survey, term_id: int, member_id: int) -> Iterator[bytes]:
    """Yield the record that says whose the log is from here on, after the level that it needs."""
    if survey.level < IDENTITY_LEVEL:
        yield ordo_codecs.LEVEL_EVENT.encode(
            leadership_term_id=term_id, timestamp=survey.timestamp, level=IDENTITY_LEVEL, member_id=member_id
        )
    yield ordo_codecs.CLUSTER_IDENTITY_EVENT.encode(
        leadership_term_id=term_id,
        timestamp=survey.timestamp,
        log_position=begin_of_restored(survey),
        member_id=member_id,
        **unpack_identity(identity),
    )
