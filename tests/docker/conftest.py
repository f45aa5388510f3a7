"""Needs root and Debian's docker.io, docker-compose, debootstrap and iproute2."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator

import pytest

from tests.docker.engine import BASE, COMPILER, PROGRAMS, ROOT, WORK, Engine, run, stage

IMAGE = "ordo"
GATEWAY_IMAGE = "ordo-gateway"
TALLY_VERSIONS = ("1.0", "1.1")


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """A running daemon with the base images."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root and {', '.join(missing) or 'nothing else'}")
    WORK.mkdir(parents=True, exist_ok=True)
    engine = Engine()
    try:
        engine.start()
        engine.base()
        yield engine
    finally:
        engine.close()


@pytest.fixture(scope="session")
def image(engine: Engine) -> str:
    """The image of this checkout."""
    stage(WORK / "context")
    arguments = ("--build-arg", f"PYTHON_IMAGE={BASE}", "--build-arg", f"BUILD_IMAGE={COMPILER}")
    engine.build(WORK / "context", IMAGE, *arguments, file="deploy/Dockerfile", wheels="/src/wheels")
    return IMAGE


@pytest.fixture(scope="session")
def gateway_image(engine: Engine, image: str) -> str:
    """The image of a gateway."""
    bases = ("--build-arg", f"PYTHON_IMAGE={BASE}", "--build-arg", f"BUILD_IMAGE={COMPILER}")
    extras = ("--build-arg", "EXTRAS=gateway")
    engine.build(WORK / "context", GATEWAY_IMAGE, *bases, *extras, file="deploy/Dockerfile", wheels="/src/wheels")
    return GATEWAY_IMAGE


@pytest.fixture(scope="session")
def wheel_folder(engine: Engine, image: str) -> str:
    """Wheels of what Ordo needs, and of Ordo, as the image's build made it."""
    arguments = ("--target", "build", "--build-arg", f"PYTHON_IMAGE={BASE}", "--build-arg", f"BUILD_IMAGE={COMPILER}")
    engine.build(WORK / "context", f"{image}:build", *arguments, file="deploy/Dockerfile", wheels="/src/wheels")
    folder = WORK / "with-ordo"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(WORK / "wheels", folder)
    container = engine.docker("create", f"{image}:build", "true")
    engine.docker("cp", f"{container}:/built/.", folder)
    engine.docker("rm", container)
    return str(folder)


@pytest.fixture(scope="session")
def image_with_wheels(engine: Engine, image: str) -> str:
    """The image, and beside it what an index of packages would give."""
    context = WORK / "wheels-image"
    shutil.rmtree(context, ignore_errors=True)
    shutil.copytree(WORK / "wheels", context / "wheels")
    shutil.copytree(ROOT / "examples" / "image" / "tally", context / "tally")
    wheels = context / "wheels"
    run(
        sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", wheels, context / "tally"
    )
    (context / "Dockerfile").write_text(f"FROM {image}\nCOPY wheels /wheels\n")
    engine.build(context, f"{image}:wheels", wheels="/wheels")
    return f"{image}:wheels"


@pytest.fixture(scope="session")
def tally_images(engine: Engine, image_with_wheels: str) -> tuple[str, str]:
    """The example's image, and that of its next version."""
    context = WORK / "example"
    shutil.rmtree(context, ignore_errors=True)
    shutil.copytree(ROOT / "examples" / "image", context)
    project = context / "tally" / "pyproject.toml"
    text = project.read_text()
    for version in TALLY_VERSIONS:
        project.write_text(text.replace('version = "1.0"', f'version = "{version}"'))
        engine.build(context, f"tally:{version}", "--build-arg", f"ORDO_IMAGE={image_with_wheels}", wheels="/wheels")
    return f"tally:{TALLY_VERSIONS[0]}", f"tally:{TALLY_VERSIONS[1]}"
