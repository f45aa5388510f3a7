"""Settings that a page shows, read as a node reads them."""

from __future__ import annotations

from pathlib import Path

import tomlkit

from ordo.cli import run
from ordo.cluster.settings.config import NodeSettings, load_config


def load_with(folder: Path, text: str) -> NodeSettings:
    """A node's configuration with the settings that a page shows, in the file that `ordo init` has written."""
    path = folder / "made" / "node0.toml"
    if not path.exists():
        assert run(["init", str(folder / "made"), "--no-encryption"]) == 0
        run(["keys", "new", str(folder / "made" / "node.key")])
    document = tomlkit.parse(path.read_text()).unwrap()
    for name, table in tomlkit.parse(text).unwrap().items():
        document[name] = table if isinstance(table, list) else {**document.get(name, {}), **table}
    changed = path.with_name("changed.toml")
    changed.write_text(tomlkit.dumps(document))
    return load_config(changed)
