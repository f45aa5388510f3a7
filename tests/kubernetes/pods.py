"""The members that deploy/kubernetes makes, and a client in a pod beside them."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

from tests.docker.counting import PROGRAM, Counting, await_value
from tests.docker.engine import ROOT
from tests.kubernetes.cluster import is_ready, listed
from tests.kubernetes.control_plane import ControlPlane
from tests.snippets import Page

PODS = ("ordo-0", "ordo-1", "ordo-2")
ENDPOINTS = tuple(f"{pod}.ordo:20000" for pod in PODS)
SELECTOR = "app.kubernetes.io/name=ordo"
IMAGE_NAME, IMAGE_TAG = "ordo-test/ordo", "1.0"
READY_TIMEOUT_S = 180.0


def set_image(folder: Path) -> None:
    """To the one that is tested, in a copy of deploy/kubernetes."""
    kustomization = folder / "kustomization.yaml"
    text = kustomization.read_text()
    for line, value in (("newName: ordo", IMAGE_NAME), ("newTag: latest", f'"{IMAGE_TAG}"')):
        assert line in text
        text = text.replace(line, f"{line.partition(' ')[0]} {value}")
    kustomization.write_text(text)


class Pods:
    """Made of the folder with the image set."""

    def __init__(self, control: ControlPlane, folder: Path) -> None:
        self.control = control
        set_image(Path(shutil.copytree(ROOT / "deploy" / "kubernetes", folder)))
        control.kubectl("label", "namespace", "default", "pod-security.kubernetes.io/enforce=restricted")
        self.applied = self.type_in(Page("DEPLOYMENT.md").take("sh", "kubectl apply"), folder)

    def type_in(self, lines: str, folder: Path) -> str:
        """Commands of the page, with this folder in place of the checkout's; returns what they print."""
        said = ""
        for line in lines.splitlines():
            kubectl, *words = shlex.split(line)
            assert kubectl == "kubectl"
            said += self.control.kubectl(*(folder if word == "deploy/kubernetes" else word for word in words))
        return said

    def found(self) -> dict[str, dict[str, Any]]:
        """What Kubernetes says of each, by name."""
        return {one["metadata"]["name"]: one for one in self.control.get("pods", "-l", SELECTOR)["items"]}

    def ready(self) -> list[str]:
        """Those that are not about to end."""
        alive = {name: one for name, one in self.found().items() if "deletionTimestamp" not in one["metadata"]}
        return [name for name, one in alive.items() if is_ready(one)]

    def revision(self) -> str:
        """Of the StatefulSet; it changes when the last pod has been updated."""
        return str(self.control.get("statefulset", "ordo")["status"]["currentRevision"])

    def await_ready(self) -> dict[str, dict[str, Any]]:
        await_value(lambda: len(self.ready()) == len(PODS) or None, "three ready pods", self._explain, READY_TIMEOUT_S)
        return self.found()

    def _explain(self) -> str:
        said = [self.control.try_kubectl(*words) for words in (("get", "pods", "-o", "wide"), ("get", "events"))]
        said += [self.control.try_kubectl("logs", "--tail=20", pod) for pod in PODS]
        return "\n".join(one.stdout + one.stderr for one in said)

    def address(self, pod: str) -> str:
        return str(self.found()[pod]["status"]["podIP"])

    def execute(self, pod: str, command: str) -> str:
        """Returns what a line of shell prints in it."""
        return self.control.kubectl("exec", pod, "--", "sh", "-c", command)

    def members(self, asked: str) -> list[dict[str, Any]]:
        said = self.execute(asked, f"ordo cluster status --json --endpoints {','.join(ENDPOINTS)} 2>&1 || true")
        return list(json.loads(said)["members"]) if said.startswith("{") else []

    def leader(self, asked: str) -> str:
        """The pod that the members take for their leader."""

        def probe() -> str | None:
            leaders = [one["ingress"] for one in self.members(asked) if one.get("role") == "LEADER"]
            return str(leaders[0]).partition(".")[0] if len(leaders) == 1 else None

        return await_value(probe, "a leader", self._explain)

    def await_equal_positions(self) -> None:
        def probe() -> bool | None:
            names = ("service_position", "commit_position")
            positions = {one.get(name) for one in self.members(PODS[0]) for name in names}
            return (len(positions) == 1 and None not in positions) or None

        await_value(probe, "members with equal positions", self._explain)


class PodClient(Counting):
    """In a pod that may do as little as the members; `more` is what its page shows it with besides."""

    NAME = "client"

    def __init__(self, control: ControlPlane, folder: Path, more: dict[str, Any] | None = None) -> None:
        self._control = control
        control.kubectl("delete", "pod", self.NAME, "--ignore-not-found")  # of an earlier test
        shown = more or {"containers": [{}]}
        (own,) = shown["containers"]
        security = {
            "runAsNonRoot": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        container = {
            "name": self.NAME,
            "image": f"{IMAGE_NAME}:{IMAGE_TAG}",
            "command": ["python3", "/client/client.py", *ENDPOINTS],
            "securityContext": security,
            "env": own.get("env", []),
            "volumeMounts": [{"name": "program", "mountPath": "/client"}, *own.get("volumeMounts", [])],
        }
        volume = {"name": "program", "configMap": {"name": self.NAME}}
        spec = {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "containers": [container],
            "volumes": [volume, *shown.get("volumes", [])],
            "securityContext": shown.get("securityContext", {}),
        }
        metadata = {"name": self.NAME}
        program = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {"client.py": PROGRAM.read_text()},
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        (folder / "client.json").write_text(json.dumps(listed(program, pod)))
        control.kubectl("apply", "-f", folder / "client.json")

    def said(self) -> str:
        return self._control.try_kubectl("logs", self.NAME).stdout

    def end(self) -> str:
        self._control.kubectl("exec", self.NAME, "--", "sh", "-c", "kill 1")
        self._control.kubectl("wait", "pod", self.NAME, "--for=jsonpath={.status.phase}=Succeeded", "--timeout=70s")
        return self.said()
