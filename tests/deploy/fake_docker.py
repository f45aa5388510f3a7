"""What `ordo deploy docker` uses of a Docker daemon and its SDK, in memory, with a cluster in the containers."""

from __future__ import annotations

import io
import json
import tarfile
import tomllib
from dataclasses import dataclass, field
from typing import Any

from docker.errors import APIError, ImageNotFound

BROKEN_IMAGE = "broken"
"""Its containers end at once, with a line."""
STRANGE_LINE = b"ordo: no module named tally\n"


@dataclass
class FakeImage:
    id: str


@dataclass
class FakeObject:
    """A volume or a network."""

    name: str
    labels: dict[str, str]
    owner: list[Any]
    content: dict[str, str] = field(default_factory=dict)

    @property
    def attrs(self) -> dict[str, Any]:
        return {"Labels": self.labels}

    def remove(self) -> None:
        self.owner.remove(self)


class FakeContainer:
    def __init__(self, docker: FakeDocker, image: str, options: dict[str, Any]) -> None:
        self.docker, self.image, self.options = docker, image, options
        self.name, self.labels = options["name"], dict(options["labels"])
        self.status, self.restarts = "created", 0

    @property
    def member_id(self) -> int:
        return int(self.labels["ordo.member"])

    @property
    def configuration(self) -> dict[str, Any]:
        (volume,) = self.options["volumes"]
        return tomllib.loads(self.docker.volume(volume).content["node.toml"])

    @property
    def attrs(self) -> dict[str, Any]:
        health = "healthy" if self.status == "running" else "unhealthy"
        return {
            "Image": self.docker.known[self.image].id,
            "Config": {"Image": self.image},
            "RestartCount": self.restarts,
            "State": {"Status": self.status, "ExitCode": 2, "Health": {"Status": health}},
            "NetworkSettings": {"Networks": {self.options["network"]: {"IPAddress": f"172.18.0.{self.member_id + 2}"}}},
        }

    def put_archive(self, folder: str, data: bytes) -> None:
        ((volume, place),) = self.options["volumes"].items()
        assert place["bind"] == folder
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for entry in archive:
                content = archive.extractfile(entry)
                assert content is not None and entry.uid == 10001
                self.docker.volume(volume).content[entry.name] = content.read().decode()

    def start(self) -> None:
        if self.image == BROKEN_IMAGE:
            self.status, self.restarts = "restarting", 1
            return
        self.status = "running"
        self.docker.cluster.start(self)

    def stop(self, timeout: int) -> None:
        self.status = "exited"
        self.docker.events.append(f"stop {self.member_id}")
        self.docker.cluster.stop(self.member_id)

    def remove(self, force: bool = False) -> None:
        assert force or self.status != "running"
        self.docker.cluster.stop(self.member_id)
        self.docker.made.remove(self)

    def logs(self, tail: int) -> bytes:
        return STRANGE_LINE

    def exec_run(self, words: list[str], demux: bool) -> tuple[int, tuple[bytes | None, bytes | None]]:
        assert demux and words[:2] == ["ordo", "cluster"] and words[-2:] == ["--config", "/var/lib/ordo/node.toml"]
        status, text = self.docker.cluster.command(self.member_id, words[2:-2])
        return status, (text.encode() if status == 0 else None, None if status == 0 else f"ordo: {text}\n".encode())


class FakeCluster:
    """Who votes and leads, as the log has it. A learner is behind when it is first to be promoted."""

    def __init__(self, events: list[str]) -> None:
        self.roles: dict[int, str] = {}
        self.running: set[int] = set()
        self.leader: int | None = None
        self.events = events
        self._asked: set[int] = set()

    def start(self, container: FakeContainer) -> None:
        node = container.configuration["node"]
        if not node.get("learner"):
            self.roles.setdefault(container.member_id, "voter")
        self.running.add(container.member_id)
        self.elect()

    def stop(self, member_id: int) -> None:
        self.running.discard(member_id)
        self.elect()

    def elect(self) -> None:
        voters = sorted(one for one in self.running if self.roles.get(one) == "voter")
        has_quorum = len(voters) * 2 > sum(role == "voter" for role in self.roles.values())
        if not has_quorum:
            self.leader = None
        elif self.leader not in voters:
            self.leader = voters[-1]

    def command(self, asked: int, words: list[str]) -> tuple[int, str]:
        if words[0] == "list":
            rows = [
                {"member_id": one, "role": role, "log_position": 4096, "is_leader": one == self.leader}
                for one, role in sorted(self.roles.items())
            ]
            return 0, json.dumps(rows)
        if asked != self.leader:
            return 1, "this member does not lead"
        self.events.append(" ".join(words))
        orders = {
            "add-learner": self._on_add_learner,
            "promote": self._on_promote,
            "remove": self._on_remove,
            "transfer": self._on_transfer,
        }
        return orders[words[0]](words[1:])

    def _on_add_learner(self, words: list[str]) -> tuple[int, str]:
        member_id = int(words[0].partition("=")[0])
        if member_id not in self.running:
            return 1, f"{member_id} cannot be reached"
        self.roles[member_id] = "learner"
        return 0, ""

    def _on_promote(self, words: list[str]) -> tuple[int, str]:
        member_id = int(words[0])
        if member_id not in self._asked:
            self._asked.add(member_id)
            return 1, f"learner {member_id} has not caught up"
        self.roles[member_id] = "voter"
        return 0, ""

    def _on_remove(self, words: list[str]) -> tuple[int, str]:
        if int(words[0]) == self.leader:
            return 1, "a leader cannot be removed"
        del self.roles[int(words[0])]
        return 0, ""

    def _on_transfer(self, words: list[str]) -> tuple[int, str]:
        others = sorted(one for one in self.running - {self.leader} if self.roles.get(one) == "voter")
        self.leader = int(words[1]) if words else others[0]
        return 0, ""


class FakeDocker:
    """The client, and the daemon behind it."""

    def __init__(self, *images: str) -> None:
        self.known = {name: FakeImage(f"sha256:{name}") for name in images}
        self.made: list[FakeContainer] = []
        self.volumes_made: list[FakeObject] = []
        self.networks_made: list[FakeObject] = []
        self.events: list[str] = []
        self.cluster = FakeCluster(self.events)
        self.api = _Api()
        self.containers = _Containers(self)
        self.volumes, self.networks = _Objects(self.volumes_made), _Objects(self.networks_made)
        self.images = _Images(self)
        self.is_closed = False

    def volume(self, name: str) -> FakeObject:
        return next(one for one in self.volumes_made if one.name == name)

    def close(self) -> None:
        self.is_closed = True


class _Api:
    def create_endpoint_config(self, aliases: list[str]) -> dict[str, Any]:
        return {"Aliases": aliases}


class _Images:
    def __init__(self, docker: FakeDocker) -> None:
        self._docker = docker

    def get(self, name: str) -> FakeImage:
        if name not in self._docker.known:
            raise ImageNotFound(f"no such image: {name}")
        return self._docker.known[name]


class _Containers:
    def __init__(self, docker: FakeDocker) -> None:
        self._docker = docker

    def create(self, image: str, **options: Any) -> FakeContainer:
        if any(one.name == options["name"] for one in self._docker.made):
            raise APIError(f"Conflict. The container name {options['name']} is in use")
        made = FakeContainer(self._docker, image, options)
        self._docker.made.append(made)
        return made

    def list(self, all: bool, filters: dict[str, str] | None = None) -> list[FakeContainer]:
        assert all
        return _chosen(self._docker.made, filters)


class _Objects:
    def __init__(self, made: list[FakeObject]) -> None:
        self._made = made

    def create(self, name: str, labels: dict[str, str], driver: str = "") -> FakeObject:
        one = FakeObject(name, labels, self._made)
        self._made.append(one)
        return one

    def get(self, name: str) -> FakeObject:
        return next(one for one in self._made if one.name == name)

    def list(self, filters: dict[str, str] | None = None) -> list[FakeObject]:
        return _chosen(self._made, filters)


def _chosen(made: list[Any], filters: dict[str, str] | None) -> list[Any]:
    if filters is None:
        return [*made]
    name, _, value = filters["label"].partition("=")
    return [one for one in made if one.labels.get(name) == value]
