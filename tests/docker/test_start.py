"""docs/START.md word for word, in a container that has nothing but Debian and Python."""

from __future__ import annotations

import shutil

import pytest

from tests.cli.pages import Shell, follow
from tests.docker.engine import BASE, ROOT, Engine
from tests.snippets import blocks_of

pytestmark = [pytest.mark.docker, pytest.mark.timeout(3000)]
PAGE = (ROOT / "docs" / "START.md").read_text()
INSTALL = "pip install /wheels/ordo_sequencer-*.whl"


def test_the_five_minutes_in_an_empty_container(engine: Engine, wheel_folder: str) -> None:
    """The wheel, and what an index of packages would give, lie in a folder."""
    five_minutes, _, _ = PAGE.partition("\n## Installing Ordo")
    assert INSTALL.replace("/wheels/", "dist/") in PAGE
    mount = ("-v", f"{wheel_folder}:/wheels:ro", "-e", "PIP_NO_INDEX=1", "-e", "PIP_FIND_LINKS=/wheels")
    container = engine.docker("run", "-d", "--network=none", *mount, BASE, "sleep", "1000")
    words = (str(shutil.which("docker")), "exec", "-i", "-w", "/root", container, "sh", "-e")
    shell = Shell(words, environment=engine.environment)
    try:
        assert "Python 3" in shell.run("python3 --version")
        shell.run(f"python3 -m venv ordo; . ordo/bin/activate; {INSTALL} > pip.txt")
        (_, made), *blocks = blocks_of(five_minutes)
        assert "next: cd try\n" in shell.run(made)
        follow(blocks, shell)
    finally:
        shell.close()
        engine.docker("rm", "-f", container)
