"""`ordo standby promote --others`: which of several standbys is the one to promote, by what they say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ordo.backup.folder import write_json
from ordo.cli import EXIT_FAILED, EXIT_USAGE, run
from ordo.cluster.client.operator import MemberLook
from ordo.cluster.settings.config import NodeSettings, load_config
from ordo.runtime.errors import ClusterTimeoutError, OrdoError
from ordo.standby.folder import PROMOTING, STATUS, begin_anew, is_being_promoted, is_promoted
from ordo.standby.others import Other, find_refusal, parse_other
from tests.ordo.standby_folders import give_log

TOML = '[node]\nmember_id = 9\ndata_dir = "{0}"\n[[members]]\nid = 9\nhost = "127.0.0.1"\nport = 20000\n'
ADDRESS = "127.0.0.1:20100"
POSITION = 56_576
"""Where its log ends."""


class Nodes:
    """Answers operators in place of a network of nodes."""

    def __init__(self, look: MemberLook | OrdoError) -> None:
        self.found = look
        self.credentials = b""
        self.meanwhile: Callable[[], object] = lambda: None
        """Called while this standby's command waits for the answer."""

    def __call__(self, endpoints: str, *, credentials: bytes, encryption: object) -> Nodes:
        assert endpoints == ADDRESS and encryption is None
        self.credentials = credentials
        return self

    def look_at(self, endpoint: str, timeout_s: float) -> MemberLook | OrdoError:
        assert endpoint == ADDRESS and timeout_s > 0
        self.meanwhile()
        return self.found

    def __enter__(self) -> Nodes:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Nodes:
    found = Nodes(told_by(10, POSITION))
    monkeypatch.setattr("ordo.standby.others.RemoteCluster", found)
    return found


@pytest.fixture
def config(tmp_path: Path) -> NodeSettings:
    """A standby whose process has ended, with a log up to a position."""
    file = tmp_path / "node.toml"
    file.write_text(TOML.format(tmp_path / "data"))
    made = load_config(file)
    give_log(made)
    write_json(made.node.data_dir / STATUS, {"state": "stopped", "position": POSITION})
    return made


def told_by(member_id: int, position: int, *, is_standby: bool = True, is_being_promoted: bool = False) -> MemberLook:
    values = {"member_id": member_id, "append_position": position}
    standby = (
        {"is_standby": 1, "primary_heard_ms": -1, "is_being_promoted": int(is_being_promoted)} if is_standby else {}
    )
    return MemberLook({**values, **standby}, {})


def promote(config: NodeSettings, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    path = config.node.data_dir.parent / "node.toml"
    status = run(["standby", "promote", "--config", str(path), "--others", ADDRESS, *words])
    return status, capsys.readouterr().err


def demand_refused(config: NodeSettings, capsys: pytest.CaptureFixture[str], *words: str) -> None:
    """Nothing is promoted, nor ordered."""
    status, errors = promote(config, capsys)
    assert status == EXIT_FAILED
    for word in words:
        assert word in errors
    assert not is_promoted(config) and not is_being_promoted(config.node.data_dir)


# -- the rule ----------------------------------------------------------------------------------------------------------


def refuse(*others: Other, although_alive: bool = False) -> str:
    return find_refusal(9, POSITION, list(others), although_alive=although_alive)


def test_one_with_as_much_as_the_others_is_the_one() -> None:
    assert not refuse()
    assert not refuse(Other("a:1", 10, True, POSITION, -1), Other("b:1", 11, True, POSITION - 32, 3000))


def test_the_one_with_the_most_is_named() -> None:
    text = refuse(Other("a:1", 10, True, POSITION + 32, -1), Other("b:1", 11, True, POSITION + 64, -1))
    assert "b:1, id 11, has the log up to position=56640, and this standby up to 56576" in text


def test_a_primary_that_another_one_hears_is_not_gone() -> None:
    hears = Other("a:1", 10, True, 0, 2999)
    assert "the primary answered a:1 2.999 s ago" in refuse(hears)
    assert not refuse(hears, although_alive=True)


def test_one_that_is_being_promoted_is_not_passed_over() -> None:
    text = refuse(Other("a:1", 10, True, 0, -1, is_being_promoted=True), although_alive=True)
    assert "a:1, id 10, is being promoted" in text and "remove promoting.json and promote.json" in text


def test_what_a_node_of_another_kind_says_counts_for_no_standby() -> None:
    member = parse_other("a:1", told_by(10, 0, is_standby=False))
    assert member == Other("a:1", 10, False, 0, -1)
    assert "is no standby" in refuse(member, although_alive=True)


# -- the command -------------------------------------------------------------------------------------------------------


def test_it_is_promoted_where_no_other_has_more(
    config: NodeSettings, nodes: Nodes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    assert promote(config, capsys, "--token-file", str(token))[0] == 0
    assert is_promoted(config) and nodes.credentials == b"secret"


def test_of_two_commands_that_ask_each_other_one_at_least_finds_the_other(
    config: NodeSettings, nodes: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is asked says that it is being promoted from before the question on, until all is done."""
    seen = list[bool]()
    nodes.meanwhile = lambda: seen.append(is_being_promoted(config.node.data_dir))
    nodes.found = told_by(10, POSITION, is_being_promoted=True)
    demand_refused(config, capsys, f"{ADDRESS}, id 10, is being promoted")
    nodes.found = told_by(10, POSITION)
    assert promote(config, capsys)[0] == 0
    assert seen == [True, True] and not is_being_promoted(config.node.data_dir)


def test_a_command_leaves_what_a_later_one_has_written(
    config: NodeSettings, nodes: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes.found = told_by(10, POSITION + 1)
    nodes.meanwhile = lambda: write_json(config.node.data_dir / PROMOTING, {"command": "a later one"})
    status, errors = promote(config, capsys)
    assert status == EXIT_FAILED and "promote that one" in errors
    assert is_being_promoted(config.node.data_dir)
    nodes.found = told_by(10, POSITION)  # the later one may be refused, and then nobody knows of this one any more
    status, errors = promote(config, capsys)
    assert status == EXIT_FAILED and "another command promotes this standby" in errors
    assert is_being_promoted(config.node.data_dir) and not is_promoted(config)


def test_it_is_refused_where_another_has_more(
    config: NodeSettings, nodes: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes.found = told_by(10, POSITION + 1)
    demand_refused(config, capsys, f"{ADDRESS}, id 10, has the log up to position=56577", "promote that one")


@pytest.mark.parametrize("told", [POSITION - 32, POSITION + 64, None])
def test_what_counts_of_a_standby_whose_process_has_ended_is_its_log(
    config: NodeSettings, nodes: Nodes, capsys: pytest.CaptureFixture[str], told: int | None
) -> None:
    """A killed process told less than it wrote, a machine without power more, and a folder that rejoined nothing."""
    path = config.node.data_dir / STATUS
    path.unlink()
    if told is not None:
        write_json(path, {"state": "following", "position": told})
    nodes.found = told_by(10, POSITION + 32)
    demand_refused(config, capsys, f"up to position={POSITION + 32}, and this standby up to {POSITION}")
    nodes.found = told_by(10, POSITION)
    assert promote(config, capsys)[0] == 0


def test_it_is_refused_where_another_does_not_answer(
    config: NodeSettings, nodes: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes.found = ClusterTimeoutError("it does not accept a connection")
    demand_refused(config, capsys, f"standby {ADDRESS} may have more", "it does not accept", "leave it out of --others")


def test_it_is_refused_where_another_was_promoted_or_is_this_one(
    config: NodeSettings, nodes: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes.found = told_by(10, 0, is_standby=False)
    demand_refused(config, capsys, "is no standby", f"ordo standby run --endpoints {ADDRESS}")
    nodes.found = told_by(9, 0)
    demand_refused(config, capsys, "has its id 9", "give the others' to --others")


def test_it_is_refused_while_its_position_is_that_of_a_copy_behind_a_gap(
    config: NodeSettings, nodes: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    begin_anew(config)
    demand_refused(config, capsys, "copies a snapshot", "promote one of --others")


@pytest.mark.parametrize("text", ["nonsense", ""])
def test_addresses_that_are_none_are_refused(
    config: NodeSettings, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    status, errors = promote(config, capsys, "--others", text)
    assert status == EXIT_USAGE and f"--others {text}: must be the ingress of members" in errors
    assert not is_promoted(config)


def test_a_name_that_nobody_has_is_told_of_as_it_was_given(
    config: NodeSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    status, errors = promote(config, capsys, "--others", "no-such-host.invalid:1")
    assert status == EXIT_FAILED and "cannot be asked: no-such-host.invalid cannot be reached" in errors
    assert "--endpoints" not in errors and not is_being_promoted(config.node.data_dir)
