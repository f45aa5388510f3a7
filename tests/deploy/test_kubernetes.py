"""The manifests are what Kubernetes takes, and agree with the configurations that they mount.

No Kubernetes runs here: kubectl sends the objects to a stand-in of its API, and they are checked against its schemas
and against each other.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from ordo.cluster.checks.requirements import memory_used_bytes
from ordo.cluster.settings.config import NodeSettings, load_config
from ordo.cluster.wire.members import ENDPOINT_NAMES
from tests.deploy.kubernetes_api import KubernetesApi
from tests.snippets import Page

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
OBJECTS: dict[str, dict[str, Any]] = {
    one["kind"]: one for name in KUSTOMIZATION["resources"] for one in yaml.safe_load_all((FOLDER / name).read_text())
}
SET = OBJECTS["StatefulSet"]["spec"]
POD = SET["template"]["spec"]
(NODE,) = POD["containers"]
LABELS = {"app.kubernetes.io/name": "ordo"}
VERSIONS = ("1.29", "1.34")
MEBIBYTE = 1 << 20


def configs() -> list[NodeSettings]:
    (generated,) = KUSTOMIZATION["configMapGenerator"]
    return [load_config(FOLDER / name) for name in generated["files"]]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", OBJECTS)
def test_objects_fit_the_schemas_of_kubernetes(kind: str, version: str) -> None:
    kubernetes_validate.validate(OBJECTS[kind], version, strict=True)


def test_the_schemas_find_a_misspelt_field() -> None:
    wrong = {**OBJECTS["StatefulSet"], "spec": {**SET, "podManagmentPolicy": "Parallel"}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


def test_every_pod_has_the_configuration_of_the_member_that_it_is_called_by() -> None:
    assert len(configs()) == SET["replicas"]
    for index, config in enumerate(configs()):
        assert config.node.member_id == index
        name = f"{OBJECTS['StatefulSet']['metadata']['name']}-{index}.{SET['serviceName']}"
        assert {endpoint.rpartition(":")[0] for endpoint in endpoints(config)} == {name}
        assert config.node.bind == "0.0.0.0"
    assert "/etc/ordo/node$(ORDO_MEMBER_ID).toml" in NODE["command"]
    assert [one["name"] for one in NODE["env"]] == ["ORDO_MEMBER_ID"]


def endpoints(config: NodeSettings) -> list[str]:
    return [str(getattr(config.own_member, name)) for name in ENDPOINT_NAMES]


def test_ports_and_probes_are_those_of_the_configuration() -> None:
    config = configs()[0]
    ports = {one["name"]: one["containerPort"] for one in NODE["ports"]}
    own = dict(zip(ENDPOINT_NAMES, (int(one.rpartition(":")[2]) for one in endpoints(config)), strict=True))
    assert ports == {**own, "metrics": config.metrics.port}
    assert config.metrics.host == "0.0.0.0"
    assert {one["name"]: one["port"] for one in OBJECTS["Service"]["spec"]["ports"]}.items() <= ports.items()
    assert NODE["livenessProbe"]["httpGet"] == NODE["startupProbe"]["httpGet"] == {"path": "/livez", "port": "metrics"}
    assert NODE["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}


def test_members_find_each_other_before_they_are_ready_and_are_kept_apart() -> None:
    service = OBJECTS["Service"]
    assert service["metadata"]["name"] == SET["serviceName"]
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"] is True
    assert SET["podManagementPolicy"] == "Parallel"
    budget = OBJECTS["PodDisruptionBudget"]["spec"]
    assert budget["maxUnavailable"] == 1
    (rule,) = POD["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    for selector in (SET["selector"], budget["selector"], rule["labelSelector"]):
        assert selector == {"matchLabels": LABELS}
    assert service["spec"]["selector"] == SET["template"]["metadata"]["labels"] == LABELS


def test_volumes_hold_what_a_node_writes() -> None:
    config = configs()[0]
    mounts = {one["mountPath"]: one["name"] for one in NODE["volumeMounts"]}
    volumes = {one["name"]: one for one in POD["volumes"]}
    assert NODE["securityContext"]["readOnlyRootFilesystem"] is True
    data = next(name for path, name in mounts.items() if config.node.data_dir.is_relative_to(path))
    assert data in [one["metadata"]["name"] for one in SET["volumeClaimTemplates"]]
    shared = volumes[mounts[f"/{config.aeron_dir.relative_to('/').parts[0]}/shm"]]["emptyDir"]
    needed = memory_used_bytes(config)
    assert shared["medium"] == "Memory"
    assert int(shared["sizeLimit"].removesuffix("Mi")) * MEBIBYTE >= needed
    assert needed <= 64 * MEBIBYTE  # what a container has where nothing is said


def apply(folder: Path, api: KubernetesApi) -> subprocess.CompletedProcess[str]:
    """The page's command; the stand-in checks objects by itself."""
    words = shlex.split(Page("DEPLOYMENT.md").take("sh", "kubectl apply"))
    assert words[:3] == ["kubectl", "apply", "-k"]
    command = [str(folder) if word == "deploy/kubernetes" else word for word in words]
    return subprocess.run(
        [*command, "--server", api.url, "--validate=false"],
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_applies_the_folder_and_pods_mount_what_it_made_of_the_configurations(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FOLDER, tmp_path / "kubernetes"))
    with KubernetesApi(VERSIONS[-1]) as api:
        done = apply(folder, api)
        assert done.returncode == 0, done.stderr
        made = {one["kind"]: one for one in api.objects}
        configurations = made["ConfigMap"]
        name = configurations["metadata"]["name"]
        assert sorted(line.split()[0] for line in done.stdout.splitlines()) == [
            f"configmap/{name}",
            "poddisruptionbudget.policy/ordo",
            "service/ordo",
            "statefulset.apps/ordo",
        ]
        volumes = made["StatefulSet"]["spec"]["template"]["spec"]["volumes"]
        assert name in [one["configMap"]["name"] for one in volumes if "configMap" in one]
        assert configurations["data"] == {one.name: one.read_text() for one in (FOLDER / "config").iterdir()}

        (folder / "service.yaml").write_text((folder / "service.yaml").read_text().replace("clusterIP:", "clustrIP:"))
        assert apply(folder, api).returncode == 1, "a mistake is seen"
        (refusal,) = api.refusals
        assert "clustrIP" in refusal
