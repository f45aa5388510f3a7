"""docs/CONFIGURATION.md, the reference of node.toml, out of the settings' models; and the files of deploy/.

`python -m tools.configuration` writes it; `python -m tools.verify configuration` says what is wrong with it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from ordo.cluster.settings.config import NodeSettings
from ordo.init import Profile, write_cluster
from ordo.runtime.settings.config import Settings
from ordo.runtime.settings.settings_text import Key, Table, tables_of
from tools.source import ROOT, Problem

PAGE = ROOT / "docs" / "CONFIGURATION.md"
COMPOSE = ROOT / "deploy" / "compose"
COMPOSE_HOSTS = ("node0", "node1", "node2")
KUBERNETES = ROOT / "deploy" / "kubernetes" / "config"
KUBERNETES_HOSTS = ("ordo-0.ordo", "ordo-1.ordo", "ordo-2.ordo")
HEAD = """# Configuration of a node

<!-- Written by `make fix` out of the settings' models; do not edit. -->

`ordo node --config node.toml` reads one TOML file; `ordo init` writes one for each member, with every key in it. A key
that nobody knows, and a value that is not allowed, end the start with one line each and exit status 2.

A duration is a number and a unit (`ns`, `us`, `ms`, `s`, `m`, `h`), as `"500ms"`; a size is bytes, or a number and `k`,
`m` or `g` (powers of 1024), as `"64k"`.
"""


def render(model: type[Settings] = NodeSettings) -> str:
    """Returns the whole page."""
    return "\n".join([HEAD, *(_section(table) for table in tables_of(model))])


def _section(table: Table) -> str:
    need = " Required." if table.is_required else ""
    lines = [
        f"## `{table.header}`",
        "",
        f"{table.description}{need}",
        "",
        "| key | allowed | default | what it is for |",
        "|---|---|---|---|",
    ]
    return "\n".join([*lines, *(_row(key) for key in table.keys), ""])


def _row(key: Key) -> str:
    default = "required" if key.is_required else f"`{key.default}`" if key.default else "not set"
    cells = (f"`{key.name}`", key.kind, default, key.description)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def undescribed(model: type[Settings] = NodeSettings) -> list[str]:
    """Tables and keys that say nothing of themselves."""
    tables = tables_of(model)
    keys = [f"{table.header} {key.name}" for table in tables for key in table.keys if not key.description]
    return [table.header for table in tables if not table.description] + keys


def check() -> list[Problem]:
    """Problems when a key has no description, or the page is not what the models say."""
    problems = [Problem(PAGE, 1, f"{name}: give its field a description") for name in undescribed()]
    if not PAGE.exists() or PAGE.read_text() != render():
        problems.append(Problem(PAGE, 1, "not what the settings' models say; write it with `make fix`"))
    for path, text in container_files().items():
        if not path.exists() or path.read_text() != text:
            problems.append(Problem(path, 1, "not what `ordo init` writes; write it with `make fix`"))
    return problems


def container_files() -> dict[Path, str]:
    """What `ordo init` writes for the hosts of deploy/compose.yaml and deploy/kubernetes."""
    texts: dict[Path, str] = {}
    for place, hosts in ((COMPOSE, COMPOSE_HOSTS), (KUBERNETES, KUBERNETES_HOSTS)):
        with tempfile.TemporaryDirectory() as folder:
            written = write_cluster(Path(folder), hosts=hosts, profile=Profile.CONTAINER, is_encrypted=False)
            texts |= {place / path.name: path.read_text() for path in written.configs}
    return texts


if __name__ == "__main__":
    PAGE.write_text(render())
    for path, text in container_files().items():
        path.write_text(text)
