"""The containers, volumes and network of one cluster, by the Docker SDK.

Each member has a container `<cluster>-node<id>` and a volume of the same name with its data and its node.toml, so that
nothing of this machine's file system is mounted, and the daemon may be on another one. In the cluster's network members
are called `node<id>`.
"""

from __future__ import annotations

import io
import os
import re
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ordo.runtime.errors import ClusterTimeoutError, ConfigurationError, OrdoError
from ordo.runtime.native.time_units import SECOND_NS

CLUSTER_LABEL = "ordo.cluster"
MEMBER_LABEL = "ordo.member"
SERVICE_LABEL = "ordo.service"
REMOVED_LABEL = "ordo.removed"
"""The label of the empty volume that stays of a removed member: its id is not used again."""
FOLDER = "/var/lib/ordo"
CONFIG = f"{FOLDER}/node.toml"
USER_ID = 10001
METRICS_PORT = 20009
STOP_TIMEOUT_S = 30
POLL_INTERVAL_S = 0.25
RESTARTS_MAX = 30
READY = f"import urllib.request as u; u.urlopen('http://127.0.0.1:{METRICS_PORT}/readyz', timeout=2)"
HEALTH_CHECK = {
    "test": ["CMD", "python3", "-c", READY],
    "interval": SECOND_NS,
    "timeout": 3 * SECOND_NS,
    "start_period": 30 * SECOND_NS,
}


class DockerError(OrdoError):
    """Docker cannot be reached or does not do what it is asked, or a container has ended.

    What to do: The line names the container and what Docker, or the node's last line, says.
    """


class Ran(NamedTuple):
    """A command in a container that has ended."""

    status: int
    output: str
    error: str


@contextmanager
def open_docker() -> Iterator[Any]:
    """Open a client of the daemon that DOCKER_HOST names, or of this machine's; its errors become OrdoErrors."""
    try:
        import docker
        from docker.errors import APIError, DockerException
        from requests.exceptions import RequestException
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"the Python package {error.name} is not installed: pip install 'ordo-sequencer[docker]'"
        ) from error
    try:
        client = docker.from_env()
    except DockerException as error:
        place = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
        raise DockerError(f"Docker cannot be reached at {place}: start it, or set DOCKER_HOST") from error
    try:
        yield client
    except APIError as error:
        raise DockerError(f"Docker refuses: {_one_line(error.explanation or error)}") from error
    except (DockerException, RequestException) as error:
        raise DockerError(f"Docker does not answer: {_one_line(error)}") from error
    finally:
        client.close()


def _one_line(text: object) -> str:
    return " ".join(str(text).split())


def host_of(member_id: int) -> str:
    """Name of a member in the cluster's network."""
    return f"node{member_id}"


class Containers:
    """What Docker has of the cluster `name`."""

    def __init__(self, client: Any, name: str) -> None:
        if re.fullmatch(r"[a-z0-9][a-z0-9_.-]{0,40}", name) is None:
            raise ConfigurationError(f"--name {name}: must be lower-case letters, digits, `-`, `_` and `.`")
        self.name = name
        self._client = client
        self._filter = {"label": f"{CLUSTER_LABEL}={name}"}

    def find(self) -> dict[int, Any]:
        """Return the containers by member id, running or not."""
        found = self._client.containers.list(all=True, filters=self._filter)
        return {
            int(one.labels[MEMBER_LABEL]): one for one in sorted(found, key=lambda one: int(one.labels[MEMBER_LABEL]))
        }

    def demand(self) -> dict[int, Any]:
        """As `find`; raises DockerError where there is no such cluster."""
        found = self.find()
        if not found:
            raise DockerError(f"no cluster {self.name} here: `ordo deploy docker start` starts one")
        return found

    def image(self, image: str) -> Any:
        """Return the image. Raises ConfigurationError where Docker does not have it; nothing is fetched."""
        from docker.errors import ImageNotFound

        try:
            return self._client.images.get(image)
        except ImageNotFound:
            raise ConfigurationError(
                f"--image {image}: Docker has none: `docker build -f deploy/Dockerfile -t {image} .` in a checkout"
                f" builds it, `docker pull {image}` fetches it"
            ) from None

    def demand_free_name(self) -> None:
        """Raise ConfigurationError where something is called as the cluster would be."""
        kinds = (
            ("container", self._client.containers.list(all=True)),
            ("volume", self._client.volumes.list()),
            ("network", self._client.networks.list()),
        )
        own = re.compile(rf"{re.escape(self.name)}(-node\d+)?")
        for kind, found in kinds:
            for one in found:
                if own.fullmatch(one.name):
                    raise ConfigurationError(
                        f"--name {self.name}: there is a {kind} {one.name} already: take another name, or remove it"
                        f" (`ordo deploy docker remove --name {self.name}`)"
                    )

    def make_network(self) -> None:
        """Make the network in which members and clients find each other by name."""
        self._client.networks.create(self.name, driver="bridge", labels={CLUSTER_LABEL: self.name})

    def make(self, member_id: int, image: str, service: str, configuration: str) -> None:
        """Make the volume and the container of a new member, and start it."""
        labels = {CLUSTER_LABEL: self.name, MEMBER_LABEL: str(member_id), SERVICE_LABEL: service}
        self._client.volumes.create(self._name_of(member_id), labels=labels)
        container = self._create(member_id, image, labels)
        container.put_archive(FOLDER, _archive(configuration))
        container.start()

    def replace(self, member_id: int, image: str) -> None:
        """Stop a member properly, and start it from an image on the data that it has."""
        container = self.demand()[member_id]
        container.stop(timeout=STOP_TIMEOUT_S)
        container.remove()
        self._create(member_id, image, container.labels).start()

    def _create(self, member_id: int, image: str, labels: dict[str, str]) -> Any:
        aliases = self._client.api.create_endpoint_config(aliases=[host_of(member_id)])
        return self._client.containers.create(
            image,
            entrypoint=["ordo", "node", "--config", CONFIG],
            name=self._name_of(member_id),
            hostname=host_of(member_id),
            labels=labels,
            network=self.name,
            networking_config={self.name: aliases},
            volumes={self._name_of(member_id): {"bind": FOLDER, "mode": "rw"}},
            healthcheck=HEALTH_CHECK,
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges:true"],
            restart_policy={"Name": "on-failure", "MaximumRetryCount": RESTARTS_MAX},
        )

    def run(self, member_id: int, *words: str) -> Ran:
        """Run a command in a member's container. What is not running gives status 1."""
        container = self.demand()[member_id]
        if container.status != "running":
            return Ran(1, "", f"{container.name} is {container.status}")
        status, (output, error) = container.exec_run(list(words), demux=True)
        return Ran(status, (output or b"").decode(), (error or b"").decode())

    def await_ready(self, member_ids: Sequence[int], timeout_s: float, tell: Callable[[str], None]) -> None:
        """Wait until the members are in touch with a quorum.

        Raises DockerError where one has ended, ClusterTimeoutError where they are not ready in time.
        """
        waiting, deadline_s = set(member_ids), time.monotonic() + timeout_s
        while waiting:
            found = self.demand()
            for member_id in sorted(waiting):
                if self._is_ready(found[member_id]):
                    waiting.remove(member_id)
                    tell(f"{found[member_id].name} is ready")
            if waiting and time.monotonic() > deadline_s:
                names = ", ".join(found[member_id].name for member_id in sorted(waiting))
                last = _last_line(found[min(waiting)])
                raise ClusterTimeoutError(f"{names}: not ready within {timeout_s:g} s; the last line was: {last}")
            if waiting:
                time.sleep(POLL_INTERVAL_S)

    def _is_ready(self, container: Any) -> bool:
        state = container.attrs["State"]
        if container.attrs.get("RestartCount") or state["Status"] in ("exited", "dead"):
            raise DockerError(f"{container.name} ended with status {state['ExitCode']}: {_last_line(container)}")
        return bool(state.get("Health", {}).get("Status") == "healthy")

    def discard(self, member_id: int) -> None:
        """Remove a member's container and its data; an empty volume says that its id was used."""
        self.demand()[member_id].remove(force=True)
        volume = self._name_of(member_id)
        self._client.volumes.get(volume).remove()
        labels = {CLUSTER_LABEL: self.name, MEMBER_LABEL: str(member_id), REMOVED_LABEL: "true"}
        self._client.volumes.create(volume, labels=labels)

    def used_ids(self) -> set[int]:
        """Ids of members that are, or were, in the cluster."""
        volumes = self._client.volumes.list(filters=self._filter)
        return {int(one.attrs["Labels"][MEMBER_LABEL]) for one in volumes}

    def remove_all(self) -> list[str]:
        """Remove containers, volumes and network of the cluster; return the containers' names."""
        names = []
        for container in self.find().values():
            container.remove(force=True)
            names.append(container.name)
        for volume in self._client.volumes.list(filters=self._filter):
            volume.remove()
        for network in self._client.networks.list(filters=self._filter):
            network.remove()
        return names

    def address_of(self, container: Any) -> str | None:
        """Where it is in the cluster's network, while it runs."""
        networks = container.attrs["NetworkSettings"]["Networks"]
        return networks.get(self.name, {}).get("IPAddress") or None

    def _name_of(self, member_id: int) -> str:
        return f"{self.name}-{host_of(member_id)}"


def _last_line(container: Any) -> str:
    lines = container.logs(tail=1).decode(errors="replace").strip().splitlines()
    return str(lines[-1]).removeprefix("ordo: ") if lines else "(none)"


def _archive(configuration: str) -> bytes:
    content = configuration.encode()
    entry = tarfile.TarInfo(CONFIG.removeprefix(f"{FOLDER}/"))
    entry.size, entry.mode, entry.uid, entry.gid = len(content), 0o600, USER_ID, USER_ID
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()
