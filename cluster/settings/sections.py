"""The tables of node.toml, each checked by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator

from ordo.cluster.module.state.settings import (
    MEBIBYTE,
)
from ordo.cluster.wire.app_version import parse_version
from ordo.cluster.wire.members import ENDPOINT_NAMES, Member, parse_member
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.security.authentication import TOPIC_ROLE, check_topic_role
from ordo.runtime.security.token_table import TokenTable
from ordo.runtime.settings.config import DurationNs, Settings, SizeBytes, duration_within
from ordo.transport.driver.channels.settings import MediaDriverSettings


class MemberSection(Settings):
    """One table for each member of the cluster: a host and a first port, or five endpoints."""

    id: Annotated[int, Field(ge=0)] = Field(
        description="Number of the member, different from all others.", examples=[0]
    )
    host: str | None = Field(
        default=None, description="Address or name of the member's machine.", examples=["10.0.0.1"]
    )
    port: Annotated[int | None, Field(ge=1, le=65531)] = Field(
        default=None,
        description="First of five UDP ports in a row: ingress, consensus, log, catchup, archive.",
        examples=[20000],
    )
    ingress: str | None = Field(
        default=None,
        description="host:port that clients send to; instead of host and port.",
        examples=["10.0.0.1:20000"],
    )
    consensus: str | None = Field(
        default=None, description="host:port for the other members' votes and positions.", examples=["10.0.0.1:20001"]
    )
    log: str | None = Field(
        default=None, description="host:port that takes the log from the leader.", examples=["10.0.0.1:20002"]
    )
    catchup: str | None = Field(
        default=None,
        description="host:port that takes what this member missed of the log.",
        examples=["10.0.0.1:20003"],
    )
    archive: str | None = Field(
        default=None,
        description="host:port that serves the log to programs that follow it.",
        examples=["10.0.0.1:20004"],
    )

    @model_validator(mode="after")
    def _has_endpoints(self) -> MemberSection:
        explicit = [getattr(self, name) for name in ENDPOINT_NAMES]
        if (self.host is None or self.port is None) and not all(explicit):
            raise ValueError("a member has host and port, or all of " + ", ".join(ENDPOINT_NAMES))
        return self

    def member(self) -> Member:
        return Member(self.id, *(self._endpoint(index, name) for index, name in enumerate(ENDPOINT_NAMES)))

    def _endpoint(self, index: int, name: str) -> str:
        explicit: str | None = getattr(self, name)
        return explicit if explicit else f"{self.host}:{(self.port or 0) + index}"


def new_member(text: str) -> Member:
    """Return a member from `id=host:port` (its first port) or `id=ingress,consensus,log,catchup,archive`.

    Raises ConfigurationError.
    """
    name, _, rest = text.partition("=")
    endpoints = rest.split(",")
    host, _, port = rest.rpartition(":")
    if len(endpoints) == 1 and host and port.isdecimal():
        endpoints = [f"{host}:{int(port) + index}" for index in range(len(ENDPOINT_NAMES))]
    if not name.isdecimal() or len(endpoints) != len(ENDPOINT_NAMES):
        raise ConfigurationError(f"{text!r}: a member is written ID=HOST:PORT, or ID= and five endpoints")
    return parse_member(int(name), ",".join([name, *endpoints]))


class NodeSection(Settings):
    """What differs between members."""

    member_id: Annotated[int, Field(ge=0)] = Field(
        description="Id of this member: one of those in [[members]].", examples=[0]
    )
    data_dir: Path = Field(
        description="Folder of log, snapshots and votes. Each member has its own; losing it takes the member's vote.",
        examples=["/var/lib/ordo/node0"],
    )
    learner: bool = Field(
        default=False, description="Whether this member joins without a vote, until the log says otherwise."
    )
    bind: Annotated[str | None, Field(pattern=r"^([\w.-]+|\[[0-9a-fA-F:.%]+\])$")] = Field(
        default=None,
        description="Address that the five ports are opened at, where that is not the one in [[members]], which others"
        " send to: 0.0.0.0 is every address of this machine, whichever it has today.",
        examples=["0.0.0.0"],
    )
    aeron_dir: Path | None = Field(
        default=None,
        description="Folder of the media driver, in shared memory; by default below /dev/shm, named after user, cluster"
        " and data_dir.",
        examples=["/dev/shm/ordo-node0"],
    )
    own_driver: bool = Field(
        default=True, description="false: uses the driver (`ordo driver`) that runs in aeron_dir instead of its own."
    )
    service_mode: Literal["process", "inline"] = Field(
        default="process",
        description="The service runs in a process of its own, or on the node's thread: the lowest latency, for short"
        " callbacks.",
    )
    sync: Literal["commit", "none"] = Field(
        default="commit",
        description="commit: nothing is acknowledged before it is on disk. none: the page cache will do; a power cut on"
        " a quorum loses messages.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="Lines below this level are not written. Read again, with log_format, at SIGUSR1.",
    )
    log_format: Literal["auto", "json", "text"] = Field(
        default="auto", description="auto: text on a terminal, one JSON object a line elsewhere."
    )
    file_access: Literal["owner", "group", "all"] = Field(
        default="owner", description="Who may read and write the node's files, shared memory included."
    )
    spins: Annotated[int, Field(ge=0)] = Field(
        default=20,
        description="While the log moves fast: the number of idle turns, each of which gives the core away, before the"
        " node's thread parks. 0: it parks at once, which takes less of the processor and makes round trips longer.",
    )
    rejoin: bool = Field(
        default=False,
        description="This member's folder was lost: with an empty one it takes no part in votes until it has the log"
        " again (`ordo node --rejoin`).",
    )
    check_log: bool = Field(
        default=False,
        description="All of the log is checked at a start, not only what is behind the newest snapshot"
        " (`ordo node --check-log`).",
    )
    max_replays: Annotated[int, Field(ge=0, le=64)] = Field(
        default=4,
        description="So many replays of the log may run at this node at a time; each takes three log terms of shared"
        " memory. Readers that have caught up with the whole log share one. 0: the archive endpoint is not served, for"
        " feeds neither.",
    )
    max_subscribers: Annotated[int, Field(ge=0, le=256)] = Field(
        default=32,
        description="So many programs may read feeds from this node at a time; each takes 1.2 MiB of shared memory and"
        " four descriptors. Where the limit of open files is small they are fewer.",
    )

    @model_validator(mode="after")
    def _has_driver(self) -> NodeSection:
        if not self.own_driver and self.aeron_dir is None:
            raise ValueError("own_driver = false: give aeron_dir, the folder of the running driver (`ordo driver`)")
        return self

    @property
    def subscribers_max(self) -> int:
        """The number of subscribers of feeds that are admitted; 0 without an archive service, which serves them."""
        return self.max_subscribers if self.max_replays else 0

    @property
    def logs_json(self) -> bool | None:
        """As `ordo.runtime.reporting.logging.configure_logging` takes it."""
        return None if self.log_format == "auto" else self.log_format == "json"


class ServiceCode(Settings):
    """The code of one service."""

    class_: Annotated[str | None, Field(alias="class")] = Field(
        default=None,
        description="The ClusteredService, as module:Class; `ordo node --service` overrides it.",
        examples=["mypackage.counter:Counter"],
    )
    versions: dict[str, str] = Field(
        default={},
        description="module:Class of each version that this member has, instead of class; a version is written as 1 or"
        " 1.4.0. The log says which one is in force, and `ordo cluster upgrade` changes it (docs/UPGRADES.md).",
        examples=[{"1": "bank.v1:Bank", "2": "bank.v2:Bank"}],
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.class_ is not None and self.versions:
            raise ValueError("give class or versions, not both: class is the code of the one version app_version")
        try:
            numbers = [parse_version(text) for text in self.versions]
        except ConfigurationError as error:
            raise ValueError(error.message) from None
        if len(set(numbers)) < len(numbers):
            raise ValueError(f"versions={sorted(self.versions)}: two of them are the same")
        return self

    def by_version(self, app_version: int) -> dict[int, str]:
        """module:Class by version; `app_version` is that of class. Empty where neither is given."""
        if self.class_ is not None:
            return {app_version: self.class_}
        return {parse_version(text): name for text, name in self.versions.items()}


class ServiceSection(ServiceCode):
    """The user's service, and what holds for all services of the node."""

    on_error: Literal["stop", "restore"] = Field(
        default="stop",
        description="What becomes of the member when its service raises anything but Reject: it stops, or it goes back "
        "to a snapshot and leaves the record out, when a quorum failed at it alike. The same on all members.",
    )
    state_hash_every_bytes: SizeBytes = Field(
        default=64 * MEBIBYTE,
        alias="state_hash_every",
        description="Services that implement state_hash are compared after so much log, once a second at most; 0: at"
        " snapshots only.",
    )


class ServiceTable(ServiceCode):
    """One table for each service of a node that runs several, in the order of their ids 0, 1, ..., up to ten.

    Instead of class and versions in [service]. The same ones on every member, for as long as the cluster's log lives.
    Each runs in a container of its own. See SERVICES.md.
    """


class MetricsSection(Settings):
    """Metrics for Prometheus and probes of health over HTTP: /metrics, /livez, /readyz."""

    port: Annotated[int | None, Field(ge=0, le=65535)] = Field(
        default=None, description="TCP port to serve them on; not set: they are not served.", examples=[20009]
    )
    host: str = Field(default="127.0.0.1", description="Address to listen on; 0.0.0.0: all of the machine's.")
    disk_free_bytes_min: SizeBytes = Field(
        default=1 << 30,
        alias="disk_free_min",
        description="With less room on the disk of data_dir the node is not ready.",
    )
    clock_error_ns_max: Annotated[DurationNs, duration_within("1us", "16s")] = Field(
        default=1_000_000_000,
        alias="clock_error_max",
        description="With a greater bound on the error of the machine's clock an alert fires, and `ordo doctor` warns.",
    )


class TracingSection(Settings):
    """Traces of a share of the requests, as spans for an OpenTelemetry collector."""

    endpoint: str = Field(
        default="",
        description="URL of the collector's traces, OTLP over HTTP; empty: nothing is traced.",
        examples=["http://127.0.0.1:4318/v1/traces"],
    )
    rate: float = Field(
        default=0.001,
        gt=0,
        le=1,
        description="Share of the requests that is traced; alike on members and clients.",
    )

    @field_validator("endpoint")
    @classmethod
    def _is_url(cls, value: str) -> str:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError(f"{value!r}: give an http:// or https:// URL")
        return value


Role = Literal["ingress", "queries", "consumers", "administration", "operator", "log", "topics"]


def check_role(role: str) -> str:
    """Return a role of a client of a cluster. Raises ValueError if it is none."""
    if role.startswith(TOPIC_ROLE):
        try:
            check_topic_role(role)
        except ConfigurationError as error:
            raise ValueError(error.message) from None
    elif role not in get_args(Role):
        raise ValueError(f"role {role!r}: must be one of {', '.join(get_args(Role))}, topic:<name>")
    return role


class TokenSection(TokenTable):
    """One table for each token that opens sessions, as `ordo cluster new-token` prints it; the same on every member.

    With none, and no class in [authentication], everybody may open sessions.
    """

    roles: list[str] = Field(
        default=["ingress", "queries"],
        description="What its holder may do: ingress (messages, requests), queries, consumers (be a member of durable"
        " consumers), administration (AdminRequest; pause, move and remove consumers),"
        " operator (every `ordo cluster` command with --endpoints), log (read the log from"
        " the archive: `ordo backup`, `ordo log`, consumers, applications, Spark), topics (read all topics, but not"
        " the log), topic:<name> (read this topic; topic:desk7.* those that begin so).",
    )

    @field_validator("roles")
    @classmethod
    def _are_roles(cls, value: list[str]) -> list[str]:
        return [check_role(role) for role in value]


class AuthenticationSection(Settings):
    """Who may open a session, where [[tokens]] do not say it: a class of your own.

    The same on every member. With neither everybody may, and do everything.
    """

    class_: Annotated[str | None, Field(alias="class")] = Field(
        default=None,
        description="An Authenticator, as module:Class, made without arguments; instead of [[tokens]].",
        examples=["mypackage.auth:Gate"],
    )
    by_key: bool = Field(
        default=False,
        description="Clients are known by the key that they encrypt with: its name in the file of trusted keys is their"
        " principal, and its roles say what they may do (`ordo keys trust --role`). Beside it, clients may show"
        " [[tokens]].",
    )
    anonymous_roles: list[str] = Field(
        default=[],
        description="With [[tokens]], what a client may do that shows none: roles as of a token, but not operator. One"
        " that shows a token has the roles of that token alone, and with a wrong one gets no session.",
        examples=[["ingress", "queries", "consumers", "log"]],
    )

    @field_validator("anonymous_roles")
    @classmethod
    def _anonymous_roles_are_known(cls, value: list[str]) -> list[str]:
        for role in value:
            if check_role(role) == "operator":
                raise ValueError("role 'operator': is given to tokens and keys only")
        return value


class EncryptionSection(Settings):
    """Encrypted datagrams; off without the two files, which `ordo keys` and `ordo init` make.

    Relative paths are below the folder of this file. See SECURITY.md.
    """

    key_file: Path | None = Field(
        default=None,
        description="This node's own key (`ordo keys new`), readable by its user only.",
        examples=["/etc/ordo/node0.key"],
    )
    trusted_file: Path | None = Field(
        default=None,
        description="Keys of the members and clients that may take part (`ordo keys trust`); read again when changed.",
        examples=["/etc/ordo/trusted.keys"],
    )
    rekey_ns: Annotated[DurationNs, duration_within("1s")] = Field(
        default=MediaDriverSettings.encryption_rekey_ns,
        alias="rekey",
        description="How long keys are used that two sockets agreed on, before they agree on others.",
    )

    @model_validator(mode="after")
    def _both_or_none(self) -> EncryptionSection:
        if (self.key_file is None) != (self.trusted_file is None):
            raise ValueError("give key_file and trusted_file, or none; `ordo keys` makes them")
        return self

    @property
    def is_on(self) -> bool:
        return self.key_file is not None

    def driver_settings(self) -> dict[str, Any]:
        """Fields of MediaDriverSettings."""
        return {
            "encryption_key_file": str(self.key_file or ""),
            "encryption_trusted_file": str(self.trusted_file or ""),
            "encryption_rekey_ns": self.rekey_ns,
        }
