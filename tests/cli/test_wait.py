"""`ordo cluster wait` and `leader`, and the operator's token that `ordo init` makes, on a cluster that it made."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ordo import ClientSettings, ClusterClient, LogReader
from ordo.cluster.commands.reaching import find_token_file
from ordo.cluster.commands.wait import TELL_AFTER_S
from ordo.errors import SessionRejectedError
from tests.cli.pages import Folder, await_end, on_ports_of_its_own
from tests.forks import run_ordo
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
START = "ordo node --config node{0}.toml >> node{0}.log 2>&1 & echo $! > node{0}.pid"
NOBODY = "127.0.0.1:9"


class Made:
    """A cluster that `ordo init` made, of which nothing runs yet."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        folder.run("ordo init .")
        self.base = on_ports_of_its_own(*folder.path.glob("node*.toml"), folder.path / "add.py")
        self.endpoints = [f"127.0.0.1:{self.base + 10 * member_id}" for member_id in range(3)]
        self.listed = ",".join(self.endpoints)

    def start(self, member_id: int) -> None:
        self.folder.run(START.format(member_id))

    def cluster(self, *words: str, where: Path | None = None) -> subprocess.CompletedProcess[str]:
        return run_ordo(["cluster", *words], 100.0, where or self.folder.path)


@pytest.fixture
def made(folder: Folder) -> Iterator[Made]:
    yield Made(folder)


@pytest.mark.thorough
def test_a_start_is_awaited_and_orders_are_taken_from_its_folder(made: Made) -> None:
    made.start(0)
    made.start(1)
    done = made.cluster("leader", "--endpoints", made.listed)
    assert done.returncode == 0 and done.stdout.strip() in ("0", "1"), done
    short = made.cluster("wait", "--endpoints", made.listed, "--timeout", f"{TELL_AFTER_S + patient(2):g}")
    assert short.returncode == 3 and f"ordo: not in time: {made.endpoints[2]}: " in short.stderr
    assert "ordo: waiting: " in short.stderr
    made.start(2)
    done = made.cluster("wait", "--endpoints", made.listed)
    assert (done.returncode, done.stdout) == (0, "3 members are ready\n"), done
    done = made.cluster("wait", "--config", "node2.toml", "--json")
    assert (done.returncode, done.stdout) == (0, '{\n  "ready": [\n    2\n  ]\n}\n'), done
    told = {
        made.cluster("leader", *where).stdout.strip()
        for where in (("--endpoints", made.listed), ("--config", "node0.toml"), ("--config", "node1.toml"))
    }
    assert len(told) == 1 and told < {"0", "1", "2"}

    elsewhere = made.folder.path / "bin"
    refused = made.cluster("snapshot", "--endpoints", made.listed, where=elsewhere)
    assert refused.returncode != 0 and "--token-file" in refused.stderr, refused
    named = made.cluster("snapshot", "--endpoints", made.listed, "--token-file", "../operator.token", where=elsewhere)
    assert named.returncode == 0, named
    assert made.folder.run("python add.py 40 2") == "40\n42\n", "clients show no token"
    with pytest.raises(SessionRejectedError):
        ClusterClient(made.endpoints, settings=ClientSettings(credentials=b"a wrong one"))
    with LogReader([f"127.0.0.1:{made.base + 4}"]) as reader:
        assert next(iter(reader)).position > 0
    assert "consumer" in made.folder.run(f"ordo consumers list --endpoints {made.listed}")
    (leader,) = told
    before = json.loads(made.cluster("snapshots", "--config", f"node{leader}.toml", "--json").stdout)
    done = made.cluster("shutdown", "--endpoints", made.listed)
    # Over the network a member may have ended between two looks, and what it said last is gone: that is told.
    is_unseen = done.returncode == 1 and "the cluster ended, but its snapshot was not seen" in done.stderr
    assert is_unseen or (done.returncode, done.stdout) == (0, "cluster ended\n"), done
    await_end(made.folder.path)
    after = json.loads(made.cluster("snapshots", "--config", f"node{leader}.toml", "--json").stdout)
    newest, former = (max(one["log_position"] for one in held) for held in (after, before))
    assert newest > former, "the snapshot of the end is there, whether it was seen or not"


def test_waiting_for_nobody_ends_with_what_was_waited_for(folder: Folder) -> None:
    folder.run("ordo init .")
    for words in (["wait", "--endpoints", NOBODY], ["leader", "--endpoints", NOBODY], ["wait", "--config"]):
        where = [*words, str(folder.path / "node0.toml")] if words[-1] == "--config" else words
        done = run_ordo(["cluster", *where, "--timeout", "0.3"], 60.0, folder.path)
        assert done.returncode == 3 and done.stderr.startswith("ordo: not in time: "), done
        assert done.stderr.count("\n") == 1 and done.stdout == ""


@pytest.mark.parametrize(
    ("endpoints", "is_found"),
    [
        ("127.0.0.1:1", True),
        ("127.0.0.1:1, localhost:2,[::1]:3", True),
        ("127.0.0.1:1,10.0.0.1:2", False),
        ("10.0.0.1:1", False),
        ("127.0.0.1.example:1", False),
    ],
)
def test_the_token_of_the_folder_is_shown_to_members_of_this_machine_only(
    endpoints: str, is_found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_token_file(endpoints) is None
    (tmp_path / "operator.token").write_text("secret\n")
    assert (find_token_file(endpoints) is not None) == is_found
