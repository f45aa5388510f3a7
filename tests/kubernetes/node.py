"""A node: a kubelet and a containerd, with folders, an address and a part of the cgroups of its own."""

from __future__ import annotations

import json
from pathlib import Path

from tests.kubernetes.space import BRIDGE, SUBNET, Space

CNI_PROGRAMS = Path("/usr/lib/cni")
CGROUPS = Path("/sys/fs/cgroup")
PAUSE = "docker.io/ordo-test/pause:latest"
RUNTIME_CONFIG = """
version = 2
root = "{folder}/containerd"
state = "{run}/containerd"
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  netns_mounts_under_state_dir = true
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{programs}"
    conf_dir = "{folder}/cni"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
"""


class Node:
    """`number` from 0; its pods have the addresses from `SUBNET`.(20 + 70 * number) on."""

    def __init__(self, space: Space, folder: Path, number: int) -> None:
        self.name = f"node-{number}"
        self._space = space
        self._number = number
        self.folder = folder / self.name
        self._run = Path(f"/run/{self.name}")
        self.socket = self._run / "sock"
        self.data = self.folder / "data"
        """What a claim gets."""
        for one in (space.path(self._run), self.data, self.folder / "cni"):
            one.mkdir(parents=True)
        self._cgroup = f"{folder.name}/{self.name}"

    def start(self, kubelet: Path, kubeconfig: Path, images: Path) -> None:
        """Returns when the runtime has the images and the kubelet has been started."""
        self._write_configs()
        self._make_cgroups()
        runtime = f"containerd-{self._number}"
        self._space.start(runtime, "containerd", "--config", self.folder / "containerd.toml")
        self._space.await_start(runtime, self._space.path(self.socket).exists)
        self._space.run("ctr", "-a", self.socket, "-n", "k8s.io", "images", "import", images, timeout_s=300)
        self._space.start(
            f"kubelet-{self._number}",
            kubelet,
            f"--config={self.folder / 'kubelet.json'}",
            f"--kubeconfig={kubeconfig}",
            f"--root-dir={self.folder / 'kubelet'}",
            f"--cert-dir={self.folder / 'certificates'}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address}",
        )

    @property
    def address(self) -> str:
        return f"{SUBNET}.{10 + self._number}"

    def _write_configs(self) -> None:
        values = {"folder": self.folder, "run": self._run, "socket": self.socket, "programs": CNI_PROGRAMS}
        (self.folder / "containerd.toml").write_text(RUNTIME_CONFIG.format(pause=PAUSE, **values))
        (self.folder / "cni" / "ordo.conflist").write_text(json.dumps(self._network()))
        (self.folder / "kubelet.json").write_text(json.dumps(self._settings()))
        self._space.run("ip", "addr", "add", f"{self.address}/16", "dev", BRIDGE)

    def _network(self) -> dict[str, object]:
        first = 20 + 70 * self._number
        addresses = {
            "type": "host-local",
            "dataDir": str(self.folder / "addresses"),
            "subnet": f"{SUBNET}.0/24",
            "rangeStart": f"{SUBNET}.{first}",
            "rangeEnd": f"{SUBNET}.{first + 69}",
        }
        bridge = {"type": "bridge", "bridge": BRIDGE, "ipam": addresses}
        return {"cniVersion": "0.4.0", "name": "ordo", "plugins": [bridge]}

    def _settings(self) -> dict[str, object]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.address,
            "healthzPort": 0,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._cgroup}",
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            "clusterDNS": [f"{SUBNET}.1"],
            "clusterDomain": "cluster.local",
            "resolvConf": "",
            "failSwapOn": False,
            "registerNode": True,
            "podLogsDir": str(self.folder / "logs"),
            "volumePluginDir": str(self.folder / "plugins"),
            "nodeStatusUpdateFrequency": "2s",
            # the disk and the memory are shared with whatever else the machine does
            "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
            "imageGCHighThresholdPercent": 100,
        }

    def _make_cgroups(self) -> None:
        for root in cgroup_roots():
            (root / self._cgroup).mkdir(parents=True)


def cgroup_roots() -> list[Path]:
    """That of version 2, or one for each controller of version 1."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [one for one in CGROUPS.iterdir() if (one / "cgroup.procs").exists()]
