"""Kubernetes, etcd and CoreDNS, built from Go's registry the first time and kept in build/kubernetes."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from tests.docker.engine import ROOT, run

WORK = ROOT / "build" / "kubernetes"
VERSION, ETCD_VERSION, COREDNS_VERSION = "1.34.4", "v3.6.4", "v1.13.1"
"""etcd's is the one that this Kubernetes is made with."""
KUBERNETES = "k8s.io/kubernetes"
NAMES = ("kubelet", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
ETCD = "go.etcd.io/etcd/server/v3"
COREDNS = "github.com/coredns/coredns"
BUILD_TIMEOUT_S = 5400.0
STAMP = f"-X k8s.io/component-base/version.gitVersion=v{VERSION}"
"""What a release says when it is asked; the API server wants one."""


def build_programs() -> Path:
    """The folder with all of them."""
    folder = WORK / f"{VERSION}-{ETCD_VERSION}-{COREDNS_VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    missing = [name for name in (*NAMES, "etcd") if not (folder / name).is_file()]
    if missing:
        with tempfile.TemporaryDirectory(dir=WORK) as work:
            _make_kubernetes_module(work)
            for name in missing:
                _build(work, folder / name, ETCD if name == "etcd" else f"{KUBERNETES}/cmd/{name}")
    if not (folder / "coredns").is_file():
        with tempfile.TemporaryDirectory(dir=WORK) as work:
            _make_module(work, f"-require={COREDNS}@{COREDNS_VERSION}")
            shutil.copy(Path(__file__).with_name("coredns.go"), work)
            _build(work, folder / "coredns", ".")
    return folder


def _make_kubernetes_module(work: str) -> None:
    """Its repository keeps its libraries beside it; in the registry each has the version of the same release."""
    found = json.loads(run("go", "-C", work, "mod", "download", "-json", f"{KUBERNETES}@v{VERSION}"))
    replaced = json.loads(run("go", "mod", "edit", "-json", found["GoMod"]))["Replace"]
    libraries = [one["Old"]["Path"] for one in replaced if one["New"]["Path"].startswith("./staging/")]
    edits = [f"-replace={name}={name}@v0{VERSION.removeprefix('1')}" for name in libraries]
    _make_module(work, f"-require={KUBERNETES}@v{VERSION}", f"-require={ETCD}@{ETCD_VERSION}", *edits)


def _make_module(work: str, *edits: str) -> None:
    run("go", "-C", work, "mod", "init", "local/programs")
    run("go", "-C", work, "mod", "edit", *edits)


def _build(work: str, program: Path, package: str) -> None:
    print(f"building {program.name} (once)", flush=True)
    options = ("-mod=mod", "-trimpath", "-ldflags", f"-s -w {STAMP}")
    run("go", "-C", work, "build", *options, "-o", program, package, timeout_s=BUILD_TIMEOUT_S)
