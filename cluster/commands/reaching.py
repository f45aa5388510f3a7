"""How commands reach a running cluster: a member of this machine, or the cluster from anywhere."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ordo.runtime.errors import ConfigurationError

if TYPE_CHECKING:
    from ordo.cluster.admin.orders import MemberAccess
    from ordo.cluster.admin.remote import RemoteCluster
    from ordo.cluster.settings.config import NodeSettings

FIND_TIMEOUT_S = 5.0
OPERATOR_TOKEN_FILE = "operator.token"
"""Written by `ordo init` beside the configurations of a cluster on one machine."""
LOOPBACK = re.compile(r"(127(\.\d+){3}|localhost|\[::1\]):\d+")
OPTIONS: dict[str, tuple[Any, Any]] = {
    "config": (
        Annotated[Path | None, typer.Option(help="node.toml of a member that runs on this machine: the leader's")],
        None,
    ),
    "endpoints": (
        Annotated[str | None, typer.Option(help="from any machine instead: HOST:PORT,... of some members' ingress")],
        None,
    ),
    "token_file": (
        Annotated[
            Path | None,
            typer.Option(
                help="with --endpoints, file with a token that has the role operator; for members on this machine the"
                f" {OPERATOR_TOKEN_FILE} that `ordo init` wrote is taken from this folder"
            ),
        ],
        None,
    ),
    "egress": (
        Annotated[
            str, typer.Option(help="with --endpoints, HOST:PORT of this machine that members answer to; else found out")
        ],
        "",
    ),
}


@dataclass(frozen=True)
class Target:
    """The target that the options name. Raises ConfigurationError unless it is exactly one."""

    config: Path | None
    endpoints: str | None
    token_file: Path | None
    egress: str

    def __post_init__(self) -> None:
        if (self.config is None) == (self.endpoints is None):
            raise ConfigurationError("give either --config node.toml of a member on this machine, or --endpoints")
        if self.endpoints is None and (self.token_file is not None or self.egress):
            raise ConfigurationError("--token-file and --egress go with --endpoints only")

    @property
    def is_remote(self) -> bool:
        return self.endpoints is not None

    def load_config(self) -> NodeSettings:
        """Load the configuration of the member on this machine."""
        from ordo.cluster.settings.config import load_config

        assert self.config is not None, "a target elsewhere has no configuration"
        return load_config(self.config)

    def connect(self) -> RemoteCluster:
        """Connect to the cluster of --endpoints; the caller closes it."""
        from ordo.cluster.admin.remote import RemoteCluster
        from ordo.runtime.security.credentials import credentials_from_file

        assert self.endpoints is not None, "a target on this machine has no endpoints"
        token_file = self.token_file or find_token_file(self.endpoints)
        credentials = b"" if token_file is None else credentials_from_file(token_file)()
        return RemoteCluster(self.endpoints, credentials=credentials, egress=self.egress)

    @contextmanager
    def leader(self, timeout_s: float = FIND_TIMEOUT_S) -> Iterator[MemberAccess]:
        """Open the member that takes orders: the leader, which is found where only endpoints are known."""
        if not self.is_remote:
            from ordo.cluster.admin.local_member import LocalMember

            yield LocalMember(self.load_config())
            return
        with self.connect() as cluster:
            yield cluster.find_leader(min(timeout_s, FIND_TIMEOUT_S))

    @contextmanager
    def member(self) -> Iterator[MemberAccess]:
        """Open a member that knows the others: with endpoints alone the leader or, without one, any member."""
        if not self.is_remote:
            with self.leader() as local:
                yield local
            return
        with self.connect() as cluster:
            yield cluster.any_member(FIND_TIMEOUT_S)


def find_token_file(endpoints: str) -> Path | None:
    """Return the operator's token of a cluster that `ordo init` made, if the command runs in its folder.

    It is shown to members on this machine only.
    """
    path = Path(OPERATOR_TOKEN_FILE)
    is_here = all(LOOPBACK.fullmatch(one.strip()) for one in endpoints.split(","))
    return path if is_here and path.is_file() else None


def reaching(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command, whose first parameter is a Target, the options that make one."""

    @wraps(command)
    def wrapped(**given: Any) -> None:
        target = Target(**{name: given.pop(name) for name in OPTIONS})
        command(target, **given)

    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    ours = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
        for name, (kind, default) in OPTIONS.items()
    ]
    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own] + ours
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {one.name: one.annotation for one in parameters}
    del wrapped.__wrapped__
    return wrapped
