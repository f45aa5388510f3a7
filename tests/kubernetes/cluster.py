"""A Kubernetes of three nodes on this machine, each with a local disk for one claim."""

from __future__ import annotations

import json
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from tests.docker.counting import await_value
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.node import Node, cgroup_roots
from tests.kubernetes.programs import WORK
from tests.kubernetes.space import Space

NODES = 3
PREFIX = "ordo-kubernetes-"
STORAGE_CLASS = "local"


class Cluster:
    """Its nodes are ready when it is started."""

    def __init__(self, programs: Path, images: Path) -> None:
        self._programs, self._images = programs, images
        for left in WORK.glob(f"{PREFIX}*"):  # by a run that was killed
            remove(left)
        self._folder = Path(tempfile.mkdtemp(dir=WORK, prefix=PREFIX))
        self._space = Space(self._folder)
        self._nodes = [Node(self._space, self._folder, number) for number in range(NODES)]

    def start(self) -> ControlPlane:
        """To be asked of it all."""
        control = ControlPlane(self._space, self._programs, self._folder)
        for node in self._nodes:
            node.start(self._programs / "kubelet", control.kubeconfig, self._images)

        def are_ready() -> bool | None:
            found = control.get("nodes")["items"]
            return (len(found) == NODES and all(is_ready(one) for one in found)) or None

        await_value(are_ready, "nodes that are ready", self._explain)
        disks = [self._disk(node) for node in self._nodes]
        (self._folder / "disks.json").write_text(json.dumps(listed(self._storage_class(), *disks)))
        control.kubectl("apply", "-f", self._folder / "disks.json")
        return control

    def _explain(self) -> str:
        return "\n".join(self._space.log(f"kubelet-{number}")[-1500:] for number in range(NODES))

    def _storage_class(self) -> dict[str, Any]:
        """That of claims which name none; a claim gets its disk when the pod has its node."""
        return {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": STORAGE_CLASS,
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        }

    def _disk(self, node: Node) -> dict[str, Any]:
        place = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node.name]}
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"disk-of-{node.name}"},
            "spec": {
                "capacity": {"storage": "20Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": STORAGE_CLASS,
                "local": {"path": str(node.data)},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [place]}]}},
            },
        }

    def close(self) -> None:
        """Ends all that runs; nothing is left."""
        self._space.close()
        remove(self._folder)


def remove(folder: Path) -> None:
    """The folder of a cluster that has ended, and its cgroups, when no process is left in them."""
    for root in cgroup_roots():
        found = (one for one in root.glob(f"{folder.name}/**") if one.is_dir())
        for one in sorted(found, reverse=True):
            await_value(partial(_is_removed, one), f"{one}: without processes")
    shutil.rmtree(folder)


def _is_removed(cgroup: Path) -> bool | None:
    try:
        cgroup.rmdir()
    except OSError:
        return None
    return True


def is_ready(one: dict[str, Any]) -> bool:
    """Of a node or a pod."""
    conditions = one.get("status", {}).get("conditions", [])
    return any(found["type"] == "Ready" and found["status"] == "True" for found in conditions)


def listed(*objects: dict[str, Any]) -> dict[str, Any]:
    """What kubectl takes as one."""
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}
