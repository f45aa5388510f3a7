"""`ordo cluster status --endpoints`, from anywhere; and how little a start of the command line brings in."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import typer

from ordo.cli import ELSEWHERE, run
from tests.cluster.integration.command import demand_one_line, ordo
from tests.cluster.integration.conftest import LendCluster, lend_cluster

__all__ = ["lend_cluster"]

HEAVY = ("pyspark", "pyarrow", "lmdb", "pydantic", "structlog", "rich.table", "rich.console", "archive", "transport")


@pytest.mark.slow
def test_status_finds_the_leader_from_any_member(lend_cluster: LendCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = lend_cluster("ordo.bench.loads.echo:Echo", sync="none")
    leader = cluster.await_leader()
    endpoints = ",".join(cluster.ingress_endpoints.values())
    assert run(["cluster", "status", "--endpoints", endpoints, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["has_quorum"] is True
    assert (shown["leader_member_id"], shown["leader_ingress"]) == (leader, cluster.ingress_endpoints[leader])
    assert shown["leadership_term_id"] == cluster.leader_term(leader)
    follower = next(one for one in cluster.member_ids if one != leader)
    assert run(["cluster", "status", "--endpoints", cluster.ingress_endpoints[follower]]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "127.0.0.1" in line]
    assert [row[0] for row in rows] == [str(one) for one in cluster.member_ids], "the others were found, too"
    assert [row[0] for row in rows if "LEADER" in row] == [str(leader)]
    assert run(["cluster", "status", "--endpoints", endpoints, "--verbose"]) == 0
    blocks = capsys.readouterr().out.split("\n\n")
    assert [block.count("scrub percent") for block in blocks if block.strip()] == [1] * len(cluster.member_ids)
    assert run(["cluster", "status", "--config", str(cluster.config_path(0)), "-v"]) == 2
    assert "with --config everything is shown" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["--config", "--endpoints"]),
        (["--endpoints", "10.0.0.1"], ["10.0.0.1:20000,10.0.0.2:20000"]),
        (["--endpoints", "10.0.0.1:99999"], ["--endpoints"]),
        (["--endpoints", "no-such-host.invalid:1"], ["cannot be reached"]),
        (["--endpoints", "a:1", "--config", "b"], ["either"]),
    ],
)
def test_misuse_is_one_line(arguments: list[str], words: list[str]) -> None:
    demand_one_line(ordo("cluster", "status", *arguments), 2, *words)


def loaded_by(*arguments: str) -> set[str]:
    code = f"import sys; from ordo.cli import run; run({list(arguments)!r}); print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines())


def test_a_start_brings_in_what_the_command_needs_and_no_more() -> None:
    assert loaded_by("--version").isdisjoint(HEAVY)
    assert loaded_by("cluster", "status", "--config", "/nowhere").isdisjoint(
        ("pyspark", "pyarrow", "structlog", "archive")
    )
    assert loaded_by("streams", "--dir", "/nowhere").isdisjoint(("pyspark", "pyarrow", "lmdb", "archive", "cluster"))


def test_status_from_elsewhere_runs_without_what_only_a_node_needs() -> None:
    """The whole command is run, against a port where nobody listens: an import inside a function would be seen, too."""
    loaded = loaded_by("cluster", "status", "--endpoints", "127.0.0.1:9", "--timeout", "0.1")
    assert "ordo.transport.driver.media_driver" in loaded, "it went as far as asking the member"
    unwanted = {
        "asyncio",
        "ctypes",
        "grpc",
        "lmdb",
        "pydantic",
        "structlog",
        "ordo.cluster.client.session",
        "encodings.idna",
        "getpass",
    }
    unwanted |= {f"cluster.node.{name}" for name in ("config", "counters", "observation", "tools", "upgrading")}
    assert loaded.isdisjoint(
        unwanted | {"archive", "ordo.cluster.module", "ordo.runtime.children", "ordo.runtime.security.tokens"}
    )


def test_status_as_json_runs_without_what_draws_tables() -> None:
    loaded = loaded_by("cluster", "status", "--endpoints", "127.0.0.1:9", "--timeout", "0.1", "--json")
    assert "ordo.transport.driver.media_driver" in loaded
    assert not [name for name in loaded if name.startswith("rich")]


def test_help_of_a_group_runs_without_what_its_commands_use() -> None:
    loaded = loaded_by("cluster", "--help")
    assert "ordo.cluster.commands.snapshots" in loaded, "its commands were read"
    used = {
        "ordo.cluster.admin.orders",
        "ordo.cluster.admin.local_member",
        "ordo.cluster.admin.upgrading",
        "ordo.cluster.wire",
        "consensus",
    }
    assert loaded.isdisjoint(used | {"transport", "socket", "rich"})


def test_of_a_group_the_command_that_is_run_is_made_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str | None] = []
    make = typer.main.get_command_from_info

    def noted(command_info: Any, **more: Any) -> Any:
        made.append(command_info.name)
        return make(command_info, **more)

    monkeypatch.setattr(typer.main, "get_command_from_info", noted)
    assert run(["consumers", "list", "--help"]) == 0
    assert [name for name in made if name is not None] == ["list"]


def test_every_command_from_elsewhere_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ELSEWHERE:
        assert run([name, "--help"]) == 0
        assert f"Usage: ordo {name}" in capsys.readouterr().out
    assert run(["--help"]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.partition("Commands:")[2].splitlines() if line}
    assert listed == {*ELSEWHERE, "node", "demo", "pipeline", "completion"}


def test_the_list_of_commands_loads_none_of_them() -> None:
    modules = {found.place.partition(":")[0] for found in ELSEWHERE.values()}
    assert loaded_by("--help").isdisjoint(modules)


@pytest.mark.parametrize("group", ["", "cluster", "archive"])
def test_without_a_command_the_help_is_shown_and_nothing_else(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(group.split()) == 2
    shown = capsys.readouterr()
    assert shown.out.strip().startswith(f"Usage: ordo {group}".strip()) and len(shown.out.splitlines()) > 5
    assert shown.err == ""
