"""The image: who it runs as, what it weighs, how a package of one's own gets in."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.docker.engine import BASE, ROOT, Engine

pytestmark = [pytest.mark.docker, pytest.mark.timeout(3000)]
OWN_BYTES_MAX = 60_000_000
"""Of what is put on the base."""
BARE = ("run", "--rm", "--read-only", "--cap-drop=ALL", "--network=none")


def size(engine: Engine, image: str) -> int:
    return int(engine.docker("image", "inspect", "-f", "{{.Size}}", image))


def test_the_image_is_small_and_its_user_is_nobody(engine: Engine, image: str) -> None:
    own = size(engine, image) - size(engine, BASE)
    print(f"\nimage: {size(engine, image) / 1e6:.0f} MB, {own / 1e6:.0f} MB of them on top of the base")
    assert own < OWN_BYTES_MAX
    (found,) = json.loads(engine.docker("image", "inspect", image))
    assert found["Config"]["User"] == "10001"
    assert engine.docker(*BARE, "--entrypoint", "id", image, "-u") == "10001"
    assert "gcc" not in engine.docker(*BARE, "--entrypoint", "sh", image, "-c", "command -v gcc || true")


def test_a_wrong_configuration_is_one_line_and_status_2(engine: Engine, image: str) -> None:
    done = subprocess.run(
        ["docker", *BARE, image], capture_output=True, text=True, env={**os.environ, **engine.environment}, check=False
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("ordo: /etc/ordo/node.toml")


def test_a_package_comes_with_an_image_of_its_own(engine: Engine, tally_images: tuple[str, str]) -> None:
    code = "import importlib.metadata as m, tally; print(m.version('tally'), tally.Tally.__name__)"
    for image, version in zip(tally_images, ("1.0", "1.1"), strict=True):
        assert engine.docker(*BARE, "--entrypoint", "python3", image, "-c", code) == f"{version} Tally"


def test_a_package_is_installed_by_its_name(engine: Engine, image_with_wheels: str) -> None:
    options = ("--build-arg", f"ORDO_IMAGE={image_with_wheels}", "--build-arg", "PACKAGE=tally==1.0")
    engine.build(ROOT / "examples" / "image", "by-name", *options, file="by-name.Dockerfile", wheels="/wheels")
    found = engine.docker(*BARE, "--entrypoint", "python3", "by-name", "-c", "import tally; print(tally.__file__)")
    assert found.startswith("/opt/ordo/")


def test_a_package_comes_on_a_volume(engine: Engine, image: str) -> None:
    volume = f"{ROOT / 'examples' / 'image' / 'tally'}:/opt/services:ro"
    found = engine.docker(
        *BARE, "-v", volume, "--entrypoint", "python3", image, "-c", "import tally; print(tally.__file__)"
    )
    assert found == "/opt/services/tally/__init__.py"
