"""Every command that looks into a cluster or gives it orders does so from any machine, and for programs too.

The commands are taken from the command line itself, so a new one must follow the rule, or be entered here with its
reason.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from ordo.archive.inspection.recording_sources import FolderCommand
from ordo.cli import app, run

GROUPS = ("cluster", "archive", "app", "apps", "consumers")
HERE_ONLY = {
    "cluster trust": "gives up what a stopped member has lost, in its folder",
    "cluster new-token": "makes a secret, and asks no cluster",
    "cluster recovery-plan": "reads the folder of a member; a start of it is what it tells of",
    "cluster invalidate-snapshot": "changes the store of a stopped member, in its folder",
    "cluster renew-log": "changes the store of a stopped member, in its folder",
    "cluster adopt": "changes the store of a stopped member, in its folder",
    "cluster recover": "reads the folders of stopped members, and changes that of one",
    "cluster is-leader": "is for scripts on a member's machine; from elsewhere `ordo cluster status` says who leads",
    "archive serve": "is the archive that others ask",
    "archive mark-invalid": "changes the catalog, which a running archive owns",
    "archive mark-valid": "changes the catalog, which a running archive owns",
    "archive checksum": "writes into segment files, which a running archive reads and writes",
    "archive delete-orphans": "deletes files that a running archive may be about to enter into its catalog",
    "archive compact": "writes the catalog's file anew, which a running archive has open",
    "archive export-catalog": "writes files for Aeron's tool, which reads a folder",
}
PRINTS_NO_DATA = {
    "cluster trust": "one line, once in the life of a cluster that lost messages",
    "cluster new-token": "a table for node.toml, in TOML",
    "archive serve": "runs until it is told to end; its log is JSON",
    "app run": "runs until it is told to end; its log is JSON",
}
VALUES = {"member": "1=10.0.0.1:20000", "service": "ordo.bench.loads.echo:Echo"}
"""What a command needs besides, where it is no number."""


def commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Every command below a group, or the command itself, with its whole name."""
    if not hasattr(command, "list_commands"):
        yield " ".join(path), command
        return
    for name in command.list_commands(None):
        yield from commands(command.get_command(None, name), (*path, name))


def all_commands() -> dict[str, Any]:
    root: Any = typer.main.get_command(app)
    return {name: found for group in GROUPS for name, found in commands(root.get_command(None, group), (group,))}


def options_of(command: Any) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


def test_every_command_reaches_other_machines_or_says_why_not() -> None:
    found = all_commands()
    assert len(found) > 30, "the groups are read"
    assert {name for name, one in found.items() if "--endpoints" not in options_of(one)} == set(HERE_ONLY)
    in_folder = {name for name, one in found.items() if isinstance(one, FolderCommand)}
    assert in_folder == {name for name in HERE_ONLY if name.startswith("archive ")} - {"archive serve"}


def test_every_command_that_prints_data_does_so_for_programs() -> None:
    missing = {name for name, one in all_commands().items() if "--json" not in options_of(one)}
    assert missing == set(PRINTS_NO_DATA)


@pytest.mark.parametrize("name", sorted(set(all_commands()) - set(HERE_ONLY)))
def test_endpoints_that_are_none_are_one_line(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--endpoints=nowhere"]
    for parameter in all_commands()[name].params:
        if parameter.required and parameter.name != "endpoints":
            value = VALUES.get(parameter.name, "1")
            words += [value] if parameter.param_type_name == "argument" else [parameter.opts[0], value]
    assert run([*name.split(), *words]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("{")]
    assert line.startswith("ordo: ") and "nowhere" in line


@pytest.mark.parametrize(
    "modules",
    [
        "ordo.cluster.commands.cluster_commands ordo.cluster.commands.status ordo.cluster.admin.remote",
        "ordo.cluster.commands.top",
        "ordo.consumers.consumer_commands ordo.consumers.consumer_orders",
        "ordo.applications.commands.group_commands ordo.applications.commands.instance_commands",
        "ordo.archive.inspection.archive_commands",
    ],
)
def test_a_command_for_another_machine_loads_little(modules: str) -> None:
    """Neither the models of a configuration, nor archives, nor cryptography; nor tables, where not all show one."""
    program = f"import sys\nfor one in {modules.split()}: __import__(one)\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    heavy = {
        "pydantic",
        "ordo.archive.inspection.recording_inspection",
        "ordo.archive.client",
        "lmdb",
        "asyncio",
        "grpc",
        "typer.rich_utils",
    }
    heavy |= {"ordo.transport.secure.keys"} | (set() if modules == "ordo.cluster.commands.top" else {"rich.console"})
    assert heavy & set(done.stdout.split()) == set()
