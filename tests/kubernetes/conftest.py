"""Needs root, what the tests of Docker need, and Go and Debian's containerd, runc and containernetworking-plugins."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker.conftest import engine, image
from tests.docker.engine import PROGRAMS, Engine, run
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.node import CNI_PROGRAMS, PAUSE
from tests.kubernetes.pods import IMAGE_NAME, IMAGE_TAG
from tests.kubernetes.programs import WORK, build_programs

__all__ = ["engine", "image"]
COMMANDS = ("go", "gcc", "openssl", "unshare", "nsenter", "ip", "containerd", "ctr", "runc")
NETWORK_PLUGINS = ("bridge", "host-local", "loopback")


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder of Kubernetes' programs."""
    plugins = (str(CNI_PROGRAMS / name) for name in NETWORK_PLUGINS)
    missing = [name for name in (*PROGRAMS, *COMMANDS, *plugins) if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root and {', '.join(missing) or 'nothing else'}")
    return build_programs()


@pytest.fixture(scope="session")
def images(programs: Path, engine: Engine, image: str) -> Path:
    """An archive of this checkout's image, and of what holds a pod's namespaces."""
    context = WORK / "pause"
    context.mkdir(parents=True, exist_ok=True)
    run("gcc", "-Os", "-static", "-s", "-o", context / "pause", Path(__file__).with_name("pause.c"))
    (context / "Dockerfile").write_text('FROM scratch\nCOPY pause /\nENTRYPOINT ["/pause"]\n')
    engine.docker("build", "-t", PAUSE, context)
    name = f"{IMAGE_NAME}:{IMAGE_TAG}"
    engine.docker("tag", image, name)
    archive = WORK / "images.tar"
    engine.docker("save", "-o", archive, name, PAUSE)
    return archive


@pytest.fixture(scope="session")
def control(programs: Path, images: Path) -> Iterator[ControlPlane]:
    """A Kubernetes of three ready nodes."""
    cluster = Cluster(programs, images)
    try:
        yield cluster.start()
    finally:
        cluster.close()
