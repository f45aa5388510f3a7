"""deploy/kubernetes with its components: keys that pods may read, and a policy that names the ports of the members."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from ordo.transport.secure.keys import public_text, read_secret, read_trusted
from tests.deploy.kubernetes_api import KubernetesApi
from tests.deploy.test_kubernetes import FOLDER, LABELS, POD, SET, VERSIONS, apply, configs, endpoints
from tests.snippets import Page

COMPONENTS = FOLDER / "components"
POLICY = yaml.safe_load((COMPONENTS / "network-policy" / "networkpolicy.yaml").read_text())
PATCH = yaml.safe_load((COMPONENTS / "encryption" / "statefulset.yaml").read_text())["spec"]["template"]["spec"]
COMPONENTS_LINE = "# components: [components/encryption, components/network-policy]\n"
MEMBER_ENVIRONMENT = "$(ORDO_MEMBER_ID)"


def with_components(folder: Path) -> Path:
    """A copy of deploy/kubernetes with both components, and with keys that the page's commands make."""
    copy = Path(shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("keys")))
    kustomization = copy / "kustomization.yaml"
    text = kustomization.read_text()
    assert COMPONENTS_LINE in text
    kustomization.write_text(text.replace(COMPONENTS_LINE, COMPONENTS_LINE.removeprefix("# ")))
    script = Page("DEPLOYMENT.md").take("sh", "ordo keys new").replace("deploy/kubernetes", str(copy))
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(["sh", "-ec", script], check=True, timeout=60, env={**os.environ, "PATH": programs})
    return copy


@pytest.mark.parametrize("version", VERSIONS)
def test_the_policy_fits_the_schemas_of_kubernetes(version: str) -> None:
    kubernetes_validate.validate(POLICY, version, strict=True)


def test_the_policy_opens_the_ports_of_the_configurations_and_no_others() -> None:
    assert POLICY["spec"]["podSelector"] == {"matchLabels": LABELS}
    assert POLICY["spec"]["policyTypes"] == ["Ingress"]
    members, clients, prometheus = POLICY["spec"]["ingress"]
    assert members == {"from": [{"podSelector": {"matchLabels": LABELS}}], "ports": [{"protocol": "UDP"}]}
    config = configs()[0]
    ingress, *_, archive = (int(one.rpartition(":")[2]) for one in endpoints(config))
    assert clients["from"] == [{"podSelector": {"matchLabels": {"ordo-client": "true"}}}]
    assert clients["ports"] == [{"protocol": "UDP", "port": port} for port in (ingress, archive)]
    assert [set(one) for one in prometheus["from"]] == [{"namespaceSelector", "podSelector"}], "both, not either"
    assert prometheus["ports"] == [{"protocol": "TCP", "port": config.metrics.port}]


def test_the_patch_names_files_that_are_mounted_and_leaves_the_rest() -> None:
    (node,) = PATCH["containers"]
    plain, words = POD["containers"][0]["command"], node["command"]
    assert " ".join(plain).replace("--config ", "--config=").split() == words[:3]
    options = dict(word.split("=") for word in words[3:])
    environment = {one["name"]: one["value"] for one in node["env"]}
    assert environment == {"ORDO_KEY_FILE": options["--key-file"], "ORDO_TRUSTED_FILE": options["--trusted-file"]}
    own, trusted = node["volumeMounts"]
    assert own["mountPath"] == options["--key-file"] and own["subPathExpr"] == f"node{MEMBER_ENVIRONMENT}.key"
    assert trusted["mountPath"] == str(Path(options["--trusted-file"]).parent)
    assert own["readOnly"] is True and trusted["readOnly"] is True
    assert PATCH["volumes"][0]["secret"]["defaultMode"] == 0o400
    assert POD["securityContext"]["fsGroup"] == POD["securityContext"]["runAsGroup"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_makes_a_key_of_each_pod_a_secret_and_what_is_trusted_none(tmp_path: Path) -> None:
    folder = with_components(tmp_path / "kubernetes")
    with KubernetesApi(VERSIONS[-1]) as api:
        done = apply(folder, api)
        assert done.returncode == 0, done.stderr
    made = {f"{one['kind']}/{one['metadata']['name']}": one for one in api.objects}
    pod = next(one for one in api.objects if one["kind"] == "StatefulSet")["spec"]["template"]["spec"]
    volumes = {one["name"]: one for one in pod["volumes"]}
    secret = made[f"Secret/{volumes['keys']['secret']['secretName']}"]
    assert sorted(secret["data"]) == [f"node{member_id}.key" for member_id in range(SET["replicas"])]
    assert list(made["Secret/ordo-client-key"]["data"]) == ["client.key"]
    (text,) = made["ConfigMap/ordo-trusted"]["data"].values()
    assert "secret" not in text
    assert "NetworkPolicy/ordo" in made
    trusted = tmp_path / "trusted.keys"
    trusted.write_text(text)
    named = {key.name: public_text(key.public) for key in read_trusted(str(trusted))}
    keys = {**secret["data"], **made["Secret/ordo-client-key"]["data"]}
    assert named == {name.removesuffix(".key"): public_of(data, tmp_path / name) for name, data in keys.items()}


def public_of(data: str, path: Path) -> str:
    """The public key of a Secret's entry."""
    path.write_bytes(base64.b64decode(data))
    path.chmod(0o600)
    return public_text(read_secret(str(path)).public)


def client_pod() -> dict[str, Any]:
    """What the page shows of a pod of a client."""
    text = Page("DEPLOYMENT.md").take("yaml", "ordo-client-key")
    return dict(yaml.safe_load(text))


def test_the_page_shows_a_client_what_the_component_makes() -> None:
    spec = client_pod()["spec"]
    (container,) = spec["containers"]
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    environment = {one["name"]: one["value"] for one in container["env"]}
    assert environment == {
        "ORDO_KEY_FILE": f"{mounts['keys']}/client.key",
        "ORDO_TRUSTED_FILE": f"{mounts['trusted']}/trusted.keys",
    }
    component = yaml.safe_load((COMPONENTS / "encryption" / "kustomization.yaml").read_text())
    secrets = {one["name"] for one in component["secretGenerator"]}
    keys, trusted = spec["volumes"]
    assert keys["secret"]["secretName"] in secrets
    assert trusted["configMap"]["name"] == component["configMapGenerator"][0]["name"]
