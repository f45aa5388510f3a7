"""`ordo init`: a configuration for each member of a new cluster and, on one machine, a service and a client to try."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from ordo.cluster.commands.reaching import OPERATOR_TOKEN_FILE
from ordo.cluster.settings.config import load_config
from ordo.cluster.settings.config_file import render_config
from ordo.runtime.errors import ConfigurationError, StorageError
from ordo.runtime.io.durable_files import create_durably, make_folder_durably
from ordo.runtime.security.tokens import hash_token, new_token
from ordo.transport.secure.keys import public_text, write_new_secret

MEMBERS_MAX = 7
PORT_DEFAULT = 20_000
PORTS_APART = 10
"""Members on one machine have their five ports so far from each other."""
METRICS_PORT_OFFSET = 9
PORT_MAX = 65_535 - MEMBERS_MAX * PORTS_APART
LOOPBACK = "127.0.0.1"
DATA_ROOT = Path("/var/lib/ordo")
PORTS_PER_MEMBER = 5
TRUSTED_FILE = "trusted.keys"
CLIENT_KEY_FILE = "client.key"
ANONYMOUS_ROLES = ["ingress", "queries", "consumers", "administration", "log"]
"""On one machine: everything that a cluster without authentication lets its clients do."""
START_FUNCTION = "start() { ordo node --config node$1.toml >> node$1.log 2>&1 & echo $! > node$1.pid; }"
STARTER_SERVICE = "counter:Counter"
STARTER_FILES = ("counter.py", "add.py")


class Profile(StrEnum):
    """What a configuration is for; AUTO: development on one machine, production on several.

    CONTAINER is production in containers, whose shared memory and addresses are others' business.
    """

    AUTO = "auto"
    DEVELOPMENT = "development"
    PRODUCTION = "production"
    CONTAINER = "container"


DEVELOPMENT: dict[str, dict[str, Any]] = {
    "node": {"sync": "none"},
    "cluster": {"session_timeout": "5m", "log_term_length": "1m", "segment_length": "16m"},
}
"""Quick, small in memory, and patient with a client that stands at a breakpoint."""

PRODUCTION: dict[str, dict[str, Any]] = {
    "node": {"sync": "commit"},
    "snapshot": {"every_bytes": "1g", "every_seconds": 3600, "keep": 2},
    "retention": {"bytes": "10g", "seconds": 7 * 24 * 3600},
}
"""Nothing is acknowledged before it is on disk, and disks do not fill up with log that nobody needs."""

CONTAINER: dict[str, dict[str, Any]] = {
    **PRODUCTION,
    "node": {**PRODUCTION["node"], "bind": "0.0.0.0", "max_replays": 2, "max_subscribers": 16},
    "cluster": {"log_term_length": "2m"},
    "metrics": {"host": "0.0.0.0"},
}
"""Production in the 64 MiB of shared memory and with whatever address a container is given."""

ON_ERROR = "stop"
ON_ERROR_CHOICE = (
    'an exception but Reject: "stop" ends each member there, "restore" goes back to a snapshot and skips the record'
)
"""In one line of at most 120 characters, for `on_error` in node.toml."""

TABLES = {Profile.DEVELOPMENT: DEVELOPMENT, Profile.PRODUCTION: PRODUCTION, Profile.CONTAINER: CONTAINER}


class Written(NamedTuple):
    """What `write_cluster` made."""

    configs: list[Path]
    starters: list[Path]
    keys: list[Path]
    """The keys of the members in order, of clients, and the file of trusted keys; empty without encryption."""
    tokens: list[Path]
    """The operator's, of a cluster on one machine."""
    endpoints: list[str]
    """Every member's ingress, in order."""


def write_cluster(
    folder: Path,
    *,
    hosts: Sequence[str] = (),
    member_count: int = 3,
    port: int = PORT_DEFAULT,
    profile: Profile = Profile.AUTO,
    data_dir: Path | None = None,
    service: str | None = None,
    is_encrypted: bool | None = None,
) -> Written:
    """Write `node<id>.toml` for each member, one a host; without hosts `member_count` of them on this machine.

    `is_encrypted`: with a key for each member and one for clients; by default on several hosts.
    Every member has a data folder of its own, `data_dir`/node<id>. Without a service, on one machine, the starter's
    files are written, too. Nothing that is there is changed. Raises ConfigurationError, or StorageError.
    """
    _check_hosts(hosts, member_count)
    starts = service is None and not hosts
    configs = [folder / f"node{member_id}.toml" for member_id in range(len(hosts) or member_count)]
    starters = [folder / name for name in STARTER_FILES] if starts else []
    encrypts = len(hosts) > 1 if is_encrypted is None else is_encrypted
    keys = [folder / name for name in _key_names(len(configs))] if encrypts else []
    tokens = [] if hosts else [folder / OPERATOR_TOKEN_FILE]
    for path in (*configs, *starters, *keys, *tokens):
        if path.exists():
            raise ConfigurationError(f"{path} is there already: remove it, or give another folder")
    members = _members(hosts, member_count, port)
    root = data_dir or (DATA_ROOT if hosts else folder / "data")
    if profile is Profile.AUTO:
        profile = Profile.PRODUCTION if hosts else Profile.DEVELOPMENT
    tables = TABLES[profile]
    try:
        make_folder_durably(folder)
        if keys:
            _write_keys(keys, members)
        access = _write_token(tokens[0]) if tokens else {}
        for member_id, path in enumerate(configs):
            node = {"member_id": member_id, "data_dir": str(root.absolute() / f"node{member_id}"), **tables["node"]}
            code = STARTER_SERVICE if starts else service
            named: dict[str, Any] = {"service": {**({"class": code} if code else {}), "on_error": ON_ERROR}}
            own_tables: dict[str, Any] = {"node": node, "members": members}
            if profile is not Profile.DEVELOPMENT:
                metrics_port = members[member_id]["port"] + METRICS_PORT_OFFSET
                own_tables["metrics"] = {"port": metrics_port, **tables.get("metrics", {})}
            if keys:
                own_tables["encryption"] = {"key_file": keys[member_id].name, "trusted_file": TRUSTED_FILE}
            create_durably(path, _explain_choice(render_config({**tables, **named, **own_tables, **access})))
            load_config(path)
        for path in starters:
            create_durably(path, _starter_text(path.name, members))
    except OSError as error:
        raise StorageError(f"{folder}: cannot write: {error.strerror}") from error
    return Written(configs, starters, keys, tokens, [f"{one['host']}:{one['port']}" for one in members])


def _explain_choice(text: str) -> str:
    """Return a node.toml whose line of `on_error` says what the choice is between."""
    line = f'on_error = "{ON_ERROR}"'
    assert line in text
    return text.replace(line, f"# {ON_ERROR_CHOICE}\n{line}", 1)


def container_config(member_id: int, hosts: Mapping[int, str], service: str, is_learner: bool) -> str:
    """Return the node.toml of one member of a cluster in containers, which call each other by their hosts' names."""
    tables = TABLES[Profile.CONTAINER]
    own = {"member_id": member_id, "data_dir": str(DATA_ROOT / hosts[member_id]), "learner": is_learner}
    members = [{"id": each, "host": host, "port": PORT_DEFAULT} for each, host in hosts.items()]
    metrics = {"port": PORT_DEFAULT + METRICS_PORT_OFFSET, **tables["metrics"]}
    named = {"service": {"class": service}, "metrics": metrics}
    return render_config({**tables, **named, "node": {**own, **tables["node"]}, "members": members})


def _key_names(member_count: int) -> list[str]:
    return [*(f"node{member_id}.key" for member_id in range(member_count)), CLIENT_KEY_FILE, TRUSTED_FILE]


def _write_keys(paths: Sequence[Path], members: Sequence[dict[str, Any]]) -> None:
    """Write a key for each member, trusted at its host and only at its ports, and one for clients, trusted everywhere.

    The hosts' names need not be known on this machine.
    """
    *secrets, trusted = paths
    places = [f"{each['host']}:{each['port']}-{each['port'] + PORTS_PER_MEMBER - 1}" for each in members]
    names = [*(f"member-{member_id}" for member_id in range(len(members))), "client"]
    lines = [
        " ".join([public_text(write_new_secret(str(path)).public), name, *place])
        for path, name, place in zip(secrets, names, [*([place] for place in places), []], strict=True)
    ]
    create_durably(trusted, "\n".join(lines) + "\n")


def _write_token(path: Path) -> dict[str, Any]:
    """Write the token that operators show to a cluster on one machine; return the tables that know it.

    Clients need none there.
    """
    token = new_token()
    create_durably(path, f"{token}\n", mode=0o600)
    operator = {"principal": "operator", "hash": hash_token(token), "roles": ["operator"]}
    return {"tokens": [operator], "authentication": {"anonymous_roles": ANONYMOUS_ROLES}}


def _check_hosts(hosts: Sequence[str], member_count: int) -> None:
    if len(hosts) > MEMBERS_MAX or len(set(hosts)) != len(hosts):
        raise ConfigurationError(f"--host {' '.join(hosts)}: 1 to {MEMBERS_MAX} different hosts are allowed")
    if not 1 <= member_count <= MEMBERS_MAX:
        raise ConfigurationError(f"--members {member_count}: allowed are 1 to {MEMBERS_MAX}")
    for host in hosts:
        if re.fullmatch(r"[\w.-]+|\[[0-9a-fA-F:.]+\]", host) is None:
            raise ConfigurationError(
                f"--host {host}: must be a name or an address, without a port (--port), IPv6 in brackets as [::1]"
            )


def _members(hosts: Sequence[str], member_count: int, port: int) -> list[dict[str, Any]]:
    if hosts:
        return [{"id": member_id, "host": host, "port": port} for member_id, host in enumerate(hosts)]
    return [
        {"id": member_id, "host": LOOPBACK, "port": port + member_id * PORTS_APART} for member_id in range(member_count)
    ]


def _starter_text(name: str, members: Sequence[dict[str, Any]]) -> str:
    """Return a file of the starter; the client gets the endpoints of this cluster."""
    lines = (Path(__file__).parent / "starter" / name).read_text().splitlines(keepends=True)
    endpoints = ", ".join(f'"{member["host"]}:{member["port"]}"' for member in members)
    return "".join(f"ENDPOINTS = [{endpoints}]\n" if line.startswith("ENDPOINTS = ") else line for line in lines)


def next_steps(folder: Path, written: Written, hosts: Sequence[str]) -> Iterator[str]:
    """Yield what to do with what was written, a line each."""
    names = [path.name for path in (*written.configs, *written.starters, *written.keys, *written.tokens)]
    yield f"wrote {', '.join(names)} in {folder.absolute()}"
    if hosts:
        pairs = ", ".join(f"{path.name} to {host}" for path, host in zip(written.configs, hosts, strict=True))
        yield f"next: copy {pairs}"
        if written.keys:
            yield f"      each with its .key file and {TRUSTED_FILE} beside it; clients need {CLIENT_KEY_FILE} and"
            yield f"      {TRUSTED_FILE}: ClientSettings(key_file=..., trusted_file=...)"
        yield "      and start each there: ordo node --config nodeN.toml --service module:Class"
    else:
        yield f"next: cd {shlex.quote(str(folder))}"
        starts = "; ".join(f"start {member_id}" for member_id in range(len(written.configs)))
        steps = [START_FUNCTION, starts, f"ordo cluster wait --endpoints {','.join(written.endpoints)}"]
        yield from (f"      {step}" for step in steps)
        if written.starters:
            yield "      python add.py 40 2"
            yield f"or, while you write the service: ordo dev --service {STARTER_SERVICE}"
