"""Configuration of a node: node.toml, checked before anything starts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PrivateAttr, model_validator

from ordo.cluster.module.sessions.quota_settings import PrincipalSettings, QuotaSettings
from ordo.cluster.module.state.settings import (
    ArchiveSettings,
    ClusterSettings,
    ModuleSettings,
    RetentionSettings,
    SnapshotSettings,
)
from ordo.cluster.settings.sections import (
    AuthenticationSection,
    EncryptionSection,
    MemberSection,
    MetricsSection,
    NodeSection,
    ServiceCode,
    ServiceSection,
    ServiceTable,
    TokenSection,
    TracingSection,
)
from ordo.cluster.wire.app_version import NO_VERSION
from ordo.cluster.wire.members import ENDPOINT_NAMES, Member
from ordo.cluster.wire.streams import SERVICES_MAX, SEVERAL_SERVICES_CLUSTER_ID_MAX
from ordo.consensus.state.configuration import VOTERS_MAX
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.settings.config import Settings, read_toml
from ordo.runtime.user import user_name
from ordo.sequencer.leader_ingress import check_group
from ordo.transport.driver.channels.settings import ENCRYPTED_MTU_MAX

RESTORES_ONE = (
    'service.on_error = "restore": is for a node with one service; of several, one may have answered a record that'
    " another one failed at, and what is answered is not left out"
)


class NodeSettings(Settings):
    """The file of one member."""

    node: NodeSection
    members: Annotated[list[MemberSection], Field(min_length=1)]
    cluster: ClusterSettings = ClusterSettings()
    snapshot: SnapshotSettings = SnapshotSettings()
    retention: RetentionSettings = RetentionSettings()
    archive: ArchiveSettings = ArchiveSettings()
    quotas: QuotaSettings = QuotaSettings()
    principals: list[PrincipalSettings] = []
    service: ServiceSection = ServiceSection()
    services: Annotated[list[ServiceTable], Field(max_length=SERVICES_MAX)] = []
    metrics: MetricsSection = MetricsSection()
    tracing: TracingSection = TracingSection()
    authentication: AuthenticationSection = AuthenticationSection()
    tokens: list[TokenSection] = []
    encryption: EncryptionSection = EncryptionSection()
    _folder: Path | None = PrivateAttr(None)

    @property
    def folder(self) -> Path | None:
        """Where the file is; None for a configuration from elsewhere."""
        return self._folder

    @model_validator(mode="after")
    def _encryption_fits(self) -> NodeSettings:
        if not self.encryption.is_on:
            return self
        if not self.node.own_driver:
            raise ValueError("encryption: belongs to the driver of its own that this node uses; put it in its file")
        if self.cluster.ingress_channel is not None:
            raise ValueError("cluster.ingress_channel: multicast cannot be encrypted; leave out one of both")
        if self.cluster.mtu_bytes > ENCRYPTED_MTU_MAX:
            raise ValueError(f"cluster.mtu={self.cluster.mtu_bytes}: at most {ENCRYPTED_MTU_MAX} with encryption")
        return self

    @model_validator(mode="after")
    def _quotas_fit(self) -> NodeSettings:
        names = [one.name for one in self.principals]
        if len(set(names)) < len(names):
            raise ValueError(f"principals: names={sorted(names)} must be different")
        known = self.tokens or self.authentication.by_key or self.authentication.class_ is not None
        wants = "principals" if names else "quotas.principal_messages" if self.quotas.principal_messages else ""
        wants = wants or ("quotas.principal_bytes" if self.quotas.principal_bytes else "")
        if wants and not known:
            raise ValueError(
                f"{wants}: no client has a principal without [[tokens]], or by_key or class of [authentication]"
            )
        if self.tokens and self.authentication.class_ is None and not self.authentication.by_key:
            unknown = sorted(set(names) - {one.principal for one in self.tokens})
            if unknown:
                raise ValueError(f"principals: no token is of {unknown[0]!r}; correct the name")
        return self

    @model_validator(mode="after")
    def _services_fit(self) -> NodeSettings:
        if not self.services:
            return self
        if self.service.class_ is not None or self.service.versions:
            raise ValueError("services: each table has a class or versions, and [service] has none beside them")
        if not all(one.class_ is not None or one.versions for one in self.services):
            raise ValueError("services: each table has a class or versions")
        if len(self.services) > 1 and (misfit := self._misfit_of_several()):
            raise ValueError(misfit)
        return self

    def _misfit_of_several(self) -> str:
        """Return what in this file does not go with several services; empty where all does."""
        if self.service.on_error == "restore":
            return RESTORES_ONE
        if not 0 <= self.cluster.cluster_id <= SEVERAL_SERVICES_CLUSTER_ID_MAX:
            return f"cluster.id={self.cluster.cluster_id}: 0 to {SEVERAL_SERVICES_CLUSTER_ID_MAX} with several services"
        return ""

    @model_validator(mode="after")
    def _member_listed(self) -> NodeSettings:
        ids = [member.id for member in self.members]
        if len(set(ids)) != len(ids):
            raise ValueError(f"members: ids={ids} must be different")
        if self.tokens and self.authentication.class_ is not None:
            raise ValueError("authentication.class and tokens: give one of both")
        if self.authentication.anonymous_roles and (not self.tokens or self.authentication.by_key):
            raise ValueError("authentication.anonymous_roles: goes with [[tokens]], and without by_key; set it to []")
        if self.authentication.by_key and not self.encryption.is_on:
            raise ValueError("authentication.by_key: needs [encryption] with key_file and trusted_file")
        if self.authentication.by_key and self.authentication.class_ is not None:
            raise ValueError("authentication.class and by_key: give one of both; a class sees proxy.key_name")
        if self.node.member_id not in ids:
            raise ValueError(f"node.member_id={self.node.member_id}: must be one of the members' ids {ids}")
        return self

    @model_validator(mode="after")
    def _voters_are_few(self) -> NodeSettings:
        count = len(self.members) - self.node.learner
        if count > VOTERS_MAX:
            raise ValueError(
                f"members: {count} of these have a vote, allowed are {VOTERS_MAX}; learners are named by the log, "
                "only this node is listed where it is one (node.learner)"
            )
        return self

    @model_validator(mode="after")
    def _group_has_a_port_of_its_own(self) -> NodeSettings:
        if self.cluster.ingress_channel is None:
            return self
        group = check_group(self.cluster.ingress_channel).endpoint
        own = [getattr(self.own_member, name).rpartition(":")[2] for name in ENDPOINT_NAMES]
        if group is not None and str(group.port) in own:
            raise ValueError(f"cluster.ingress_channel: port {group.port} is this member's own; take another")
        return self

    @model_validator(mode="after")
    def _no_endpoint_is_shared(self) -> NodeSettings:
        """Refuse a port that was copied and not changed: two members would be one for others."""
        taken: dict[str, str] = {}
        for member in self.member_list:
            for name in ENDPOINT_NAMES:
                endpoint, where = getattr(member, name), f"{name} of member {member.id}"
                if taken.setdefault(endpoint, where) != where:
                    raise ValueError(
                        f"members: {endpoint} is {taken[endpoint]} and {where}; give each a port of its own"
                    )
        return self

    @property
    def member_list(self) -> tuple[Member, ...]:
        return tuple(member.member() for member in self.members)

    @property
    def own_member(self) -> Member:
        return next(member for member in self.member_list if member.id == self.node.member_id)

    @property
    def bound_member(self) -> Member:
        """This member's endpoints as they are bound, which differ from those that others send to with [node] bind."""
        return self.own_member.bound_at(self.node.bind)

    @property
    def archive_dir(self) -> Path:
        return self.node.data_dir / "archive"

    @property
    def cluster_dir(self) -> Path:
        return self.node.data_dir / "cluster"

    @property
    def aeron_dir(self) -> Path:
        if self.node.aeron_dir is not None:
            return self.node.aeron_dir
        digest = hashlib.sha256(str(self.node.data_dir.resolve()).encode()).hexdigest()[:8]
        return Path(f"/dev/shm/ordo-{user_name()}-{self.cluster.cluster_id}-{self.node.member_id}-{digest}")

    def with_subscribers(self, subscribers_max: int) -> NodeSettings:
        """Return the same node with room for this many readers of feeds."""
        return self.model_copy(update={"node": self.node.model_copy(update={"max_subscribers": subscribers_max})})

    def with_sessions(self, sessions_max: int) -> NodeSettings:
        """Return the same node with room for this many sessions while it leads."""
        return self.model_copy(update={"cluster": self.cluster.model_copy(update={"sessions_max": sessions_max})})

    def with_services(self, names: Sequence[str]) -> NodeSettings:
        """Return the same node with these services, module:Class, by service id; without any, with its own.

        Raises ConfigurationError.
        """
        if not names:
            return self
        if self.service.versions or any(one.versions for one in self.services):
            raise ConfigurationError(f"--service {names[0]}: the configuration has versions; give one of both")
        if len(names) > SERVICES_MAX:
            raise ConfigurationError(f"--service: {len(names)} services; a node runs {SERVICES_MAX} at most")
        if len(names) > 1 and (misfit := self._misfit_of_several()):
            raise ConfigurationError(misfit)
        changes: dict[str, Any] = {"services": []}
        if len(names) > 1:
            changes["services"] = [ServiceTable.model_validate({"class": name}) for name in names]
        own_class = names[0] if len(names) == 1 else None
        changes["service"] = self.service.model_copy(update={"class_": own_class})
        return self.model_copy(update=changes)

    @property
    def _codes(self) -> Sequence[ServiceCode]:
        return self.services or [self.service]

    @property
    def services_by_id(self) -> list[dict[int, str]]:
        """Return module:Class by version for each service. Raises ConfigurationError if there is none."""
        found = [one.by_version(self.cluster.app_version) for one in self._codes]
        if not all(found):
            raise ConfigurationError(
                "service: missing; give --service module:Class, or class or versions in the [service] table"
            )
        return found

    @property
    def app_versions(self) -> list[list[int]]:
        """The versions that this member has code of, lowest first, by service; none where the code is not named."""
        return [sorted(one.by_version(self.cluster.app_version)) for one in self._codes]

    @property
    def _first_version(self) -> int:
        """What this member would begin a log with: the lowest version that all services have; NO_VERSION.

        They have none in common.
        """
        if not any(self.app_versions):
            return self.cluster.app_version
        return min(set.intersection(*map(set, self.app_versions)), default=NO_VERSION)

    def module_config(self) -> ModuleSettings:
        """Return the settings of this node's consensus module."""
        return ModuleSettings(
            **{**dict(self.cluster), "app_version": self._first_version or self.cluster.app_version},
            first_version=self._first_version,
            service_count=len(self.services) or 1,
            member_id=self.node.member_id,
            is_learner=self.node.learner,
            bind_host=self.node.bind,
            snapshot=self.snapshot,
            retention=self.retention,
            archive=self.archive,
            quotas=self.quotas,
            principals=tuple(self.principals),
            is_unsynced=self.node.sync == "none",
            rejoin=self.node.rejoin,
            check_log=self.node.check_log,
            on_error=self.service.on_error,
            state_hash_every_bytes=self.service.state_hash_every_bytes,
        )


def load_config(path: Path, key_file: Path | None = None, trusted_file: Path | None = None) -> NodeSettings:
    """Read node.toml. Raises ConfigurationError: one line for each wrong key, with its value and what is allowed.

    `key_file` and `trusted_file` go before those of the file, in which a path that is relative begins beside it.
    """
    tables = read_toml(path)
    given = {"key_file": key_file, "trusted_file": trusted_file}
    if own := {name: str(file.absolute()) for name, file in given.items() if file is not None}:
        encryption = tables.get("encryption", {})
        tables["encryption"] = {**encryption, **own} if isinstance(encryption, dict) else encryption
    config = NodeSettings.from_mapping(tables, str(path))
    config._folder = path.absolute().parent
    encryption = config.encryption
    if encryption.key_file is not None and encryption.trusted_file is not None:
        files = {"key_file": path.parent / encryption.key_file, "trusted_file": path.parent / encryption.trusted_file}
        config = config.model_copy(update={"encryption": encryption.model_copy(update=files)})
    config.module_config().consensus(config.member_list)
    return config
