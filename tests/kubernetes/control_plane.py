"""What makes nodes a cluster: etcd, the API, the controllers, the scheduler and the names, as processes of a space."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.docker.engine import run
from tests.kubernetes.space import GATEWAY, Space

TOKEN = "ordo-test"
ETCD_URL = "http://127.0.0.1:2379"
SERVER = f"https://{GATEWAY}:6443"
DOMAIN = "cluster.local"


class ControlPlane:
    """Answers when it is made; whoever knows the token may do everything."""

    def __init__(self, space: Space, programs: Path, folder: Path) -> None:
        self._space = space
        self._programs = programs
        self._folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self._write_files()
        self._start_etcd()
        self._start_api()
        leader = f"--kubeconfig={self.kubeconfig}", "--leader-elect=false"
        key = f"--service-account-private-key-file={folder / 'key'}"
        space.start("controllers", programs / "kube-controller-manager", *leader, key)
        space.start("scheduler", programs / "kube-scheduler", *leader)
        space.start("coredns", programs / "coredns", "-conf", folder / "Corefile")

    def _write_files(self) -> None:
        run("openssl", "genrsa", "-out", self._folder / "key", "2048")
        (self._folder / "tokens").write_text(f"{TOKEN},test,test,system:masters\n")
        cluster = {"server": SERVER, "insecure-skip-tls-verify": True}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": TOKEN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
        self.kubeconfig.write_text(json.dumps(config))
        names = f"errors\n bind {GATEWAY}\n kubernetes {DOMAIN} {{\n  kubeconfig {self.kubeconfig} test\n }}\n"
        (self._folder / "Corefile").write_text(f"{DOMAIN}:53 {{\n {names}}}\n")

    def _start_etcd(self) -> None:
        urls = (f"--listen-client-urls={ETCD_URL}", f"--advertise-client-urls={ETCD_URL}")
        data = f"--data-dir={self._folder / 'etcd'}"
        self._space.start("etcd", self._programs / "etcd", data, *urls, "--unsafe-no-fsync")

    def _start_api(self) -> None:
        key = self._folder / "key"
        self._space.start(
            "api",
            self._programs / "kube-apiserver",
            f"--etcd-servers={ETCD_URL}",
            f"--cert-dir={self._folder / 'certificates'}",
            f"--bind-address={GATEWAY}",
            f"--advertise-address={GATEWAY}",
            "--service-cluster-ip-range=10.89.0.0/24",
            "--service-account-issuer=https://test",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--token-auth-file={self._folder / 'tokens'}",
            "--authorization-mode=RBAC",
            "--kubelet-preferred-address-types=InternalIP",
        )
        self._space.await_start("api", lambda: self.try_kubectl("get", "--raw=/readyz").returncode == 0)

    def _command(self, words: tuple[str | Path, ...]) -> list[str]:
        return self._space.command(self._programs / "kubectl", f"--kubeconfig={self.kubeconfig}", *words)

    def kubectl(self, *words: str | Path, timeout_s: float = 120) -> str:
        """Returns what the command printed; fails the test with it when the command fails."""
        return run(*self._command(words), timeout_s=timeout_s)

    def try_kubectl(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """For commands that may fail."""
        return subprocess.run(self._command(words), capture_output=True, text=True, timeout=120, check=False)

    def get(self, *words: str) -> Any:
        """The object, or the list of objects."""
        return json.loads(self.kubectl("get", "-o", "json", *words))

    def run_on_network(self, name: str, *words: str | Path) -> None:
        """A program on the network of the pods, which asks their name server; it runs until the end."""
        names = self._folder / "resolv.conf"
        names.write_text(f"nameserver {GATEWAY}\n")
        script = f'mount --bind {names} /etc/resolv.conf && exec "$0" "$@"'
        self._space.start(name, "unshare", "--mount", "sh", "-ec", script, name, *words)

    def query(self, address: str, expression: str) -> list[Any]:
        """Asks a Prometheus that runs there; nothing while it does not answer."""
        url = f"http://{address}/api/v1/query?query={expression}"
        program = f"import urllib.request; print(urllib.request.urlopen({url!r}, timeout=5).read().decode())"
        said = subprocess.run(
            self._space.command(sys.executable, "-c", program), capture_output=True, text=True, timeout=60, check=False
        )
        return list(json.loads(said.stdout)["data"]["result"]) if said.returncode == 0 else []
