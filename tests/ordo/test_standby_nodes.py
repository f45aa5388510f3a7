"""Several standby nodes: who may be promoted, what the new cluster's log says, and who joins it."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from ordo.archive.store.lmdb_store import open_lmdb
from ordo.backup.folder import CLUSTER, write_json
from ordo.cluster.admin.member_store import open_stopped, open_stored
from ordo.cluster.module.members.cluster_identity import ClusterIdentity
from ordo.cluster.settings.config import NodeSettings, load_config
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.log_identity import Log, Origin
from ordo.runtime.native.time_units import SECOND_NS
from ordo.salvage.holdings import Recordings, examine
from ordo.standby.feed import Primary
from ordo.standby.folder import ORDER, is_promoted, is_standby, prepare
from ordo.standby.lives import Lives
from ordo.standby.others import Others, Standing, find_discord, find_most, find_refusal
from ordo.standby.promotion import join, promote

pytest.importorskip("ordo.pipeline.decoding.synthetic", reason="the pipeline is not compiled for this Python")
from ordo.pipeline.generate import LogShape, generate_log
from ordo.runtime.io.storage import FileStorage

IDS = (9, 10, 11)
MEMBERS = "".join(f'[[members]]\nid = {one}\nhost = "127.0.0.1"\nport = {20000 + 10 * one}\n' for one in IDS)


def config_of(folder: Path, member_id: int) -> NodeSettings:
    file = folder / f"node{member_id}.toml"
    file.write_text(f'[node]\nmember_id = {member_id}\ndata_dir = "{folder / str(member_id)}"\n{MEMBERS}')
    return load_config(file)


@pytest.fixture
def first(tmp_path: Path) -> NodeSettings:
    """The first of three standby nodes, with a log."""
    config = config_of(tmp_path, IDS[0])
    prepare(config)
    log = generate_log(str(config.archive_dir), LogShape(messages=50, terms=2))
    with open_stopped(config) as store:
        store.put_log_recording(log.recording_id)
    write_json(config.node.data_dir / CLUSTER, {"endpoints": ["10.0.0.1:20000"]})
    return config


def copy_of(first: NodeSettings, member_id: int) -> NodeSettings:
    """Another node that has copied all of the first one's log, and was not told of anything."""
    config = config_of(first.node.data_dir.parent, member_id)
    shutil.copytree(first.node.data_dir, config.node.data_dir)
    with open_stopped(config) as store:
        store.folder.put_standby()
        store.folder.put_origin(Origin(b"o" * 16, 0))  # what its log says more has not been executed
    return config


# -- who may be promoted -----------------------------------------------------------------------------------------------


def at(member_id: int, position: int, **more: Any) -> Standing:
    return Standing(member_id, f"h:{member_id}", position, more.pop("cluster", "aa"), **more)


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([at(10, 640), at(11, 96)], ""),
        ([at(10, 640)], ""),
        ([at(10, 640, cluster="")], ""),
        ([at(10, 672), at(11, 96)], "node 10 at h:10 has the log up to position=672, and this one up to 640"),
        ([], "only 1 of the 3 standby nodes can be reached"),
        ([at(10, 640, cluster="bb")], "node 10 has the log of cluster bb, and this one that of aa"),
        ([at(10, 9600, is_standby=False)], "of cluster aa already: this node joins that cluster by itself"),
        ([at(10, 96, heard_ms=2999)], "its primary answered 2.999 s ago: it is not gone"),
        ([at(10, 96, heard_ms=3000)], ""),
        ([at(10, 96, heard_ms=-1000)], ""),
    ],
)
def test_a_node_is_promoted_that_has_the_most_of_those_that_can_go_on(others: list[Standing], said: str) -> None:
    refusal = find_refusal(at(9, 640), others, 3)
    assert said in refusal and bool(said) == bool(refusal)


def test_an_order_although_the_primary_lives_overrides_that_alone() -> None:
    own = at(9, 640)
    assert find_refusal(own, [at(10, 640, heard_ms=5)], 3, although_alive=True) == ""
    assert "give the command there" in find_refusal(own, [at(10, 672, heard_ms=5)], 3, although_alive=True)
    assert find_discord(own, [at(10, 672, heard_ms=5)], 3) == "", "before a switch they need not be level"
    assert "needs 3" in find_discord(own, [at(10, 640)], 5)


def test_of_equal_ones_the_lowest_id_counts() -> None:
    assert find_most([at(11, 640), at(9, 640), at(10, 96)]).member_id == 9


# -- what the log says, and who joins ----------------------------------------------------------------------------------


def test_the_record_that_names_all_nodes_is_the_last_one_with_which_the_cluster_begins(first: NodeSettings) -> None:
    done = promote(first)
    found = examine(first)
    assert done.voter_count == 3 and found.holding.voters == [*IDS]
    assert "promoted: a cluster of 3" in "\n".join(done.lines())
    assert found.log is not None
    storage = FileStorage(open_lmdb)
    *_, last = Recordings(storage, str(first.archive_dir)).reader(found.log.recording_id).messages()
    table, _ = ordo_codecs.decode(last.payload) or (None, None)
    assert table is ordo_codecs.CONFIGURATION_EVENT and last.position == found.holding.end_position
    with open_stored(first) as store:
        assert store.folder.founded.position == last.position


def test_a_node_joins_that_is_named_and_no_other(first: NodeSettings) -> None:
    behind = copy_of(first, 11)
    done = promote(first)
    named = copy_of(first, 10)
    write_json(named.node.data_dir / ORDER, {})
    assert join(named) and not is_standby(named) and is_promoted(named)
    assert not (named.node.data_dir / ORDER).exists(), "the cluster goes on without its own promotion"
    assert not join(behind) and is_standby(behind), "its log does not say so yet"
    with open_stored(named) as store:
        assert store.folder.origin is not None and store.folder.origin.identity.hex() == done.identity
        assert store.folder.founded.position == done.end_position
        assert store.load().candidate_term_id == done.term_id, "it votes in no earlier term"


def test_a_process_joins_once_its_node_has_the_record_that_names_it(first: NodeSettings) -> None:
    behind, lines = copy_of(first, 11), list[str]()
    promote(first)
    named = copy_of(first, 10)
    for config, has_joined in ((named, True), (behind, False)):
        process = Lives(Primary([], report=lines.append))
        process._node = SimpleNamespace(is_voter=True, is_successor=False, feed=None)  # type: ignore[assignment]
        assert process.next_life(config) is not None and is_promoted(config) is has_joined
    assert lines == ["the log that was taken does not name this node as a voter: it goes on as a standby"]


def test_a_node_that_comes_back_as_a_standby_has_founded_nothing(first: NodeSettings) -> None:
    done = promote(first)
    with open_stopped(first) as store:
        store.become_standby(done.position)
        assert store.folder.founded.position == 0 and store.folder.is_standby


def test_a_member_of_another_promotion_is_foreign_wherever_its_log_ends(first: NodeSettings) -> None:
    """It may have a later term, and lead members that then refuse to give up what they have committed."""
    done = promote(first)
    with open_stopped(first) as store:
        own = ClusterIdentity(mock.Mock(), mock.Mock(), store.folder, Random(1), 9)
        former = store.folder.founded.former_position
        assert own.origin is not None and 0 <= former < own.origin.position == done.position + 32
        for position, is_foreign in ((former, False), (former + 1, True), (own.origin.position + 640, True)):
            assert own.is_of_another_promotion(Log(b"z" * 16, position, position)) is is_foreign
        assert not own.is_of_another_promotion(Log(own.origin.identity, own.origin.position, 0))
        assert not own.is_of_another_promotion(Log(b"", 0, 0)), "a new member has not come to any identity"


# -- which of the others is followed -----------------------------------------------------------------------------------


class Query:
    """Stands for a question to another node."""

    members: dict[str, list[int]] = {}

    def __init__(self, _client: object, address: str, _credentials: bytes, _now_ns: int) -> None:
        self.address = address
        named = self.members.get(address)
        self.answer = None if named is None else SimpleNamespace(members=[SimpleNamespace(id=one) for one in named])
        self.is_done = True

    def work(self, _now_ns: int) -> int:
        return 0

    def close(self) -> None:
        pass


def test_a_node_is_followed_that_names_this_one_for_as_long_as_it_says_so(
    first: NodeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ordo.standby.others.MemberQuery", Query)
    others = Others(None, 9, first.member_list[1:], b"")  # type: ignore[arg-type]
    tenth, eleventh = (one.ingress for one in first.member_list[1:])

    def ask(seconds: int, **named: list[int]) -> str:
        Query.members = {tenth: named.get("tenth", []), eleventh: named.get("eleventh", [])}
        others.work(seconds * SECOND_NS)
        others.work(seconds * SECOND_NS)
        return others.promoted

    assert ask(1, tenth=[10], eleventh=[11]) == "", "nodes that follow name themselves"
    assert ask(2, tenth=[10], eleventh=[*IDS]) == eleventh
    assert ask(3, tenth=[*IDS], eleventh=[*IDS]) == eleventh, "two that were promoted are two clusters"
    assert ask(4, tenth=[*IDS]) == eleventh
    assert ask(10, tenth=[*IDS]) == tenth, "the other one is silent"
    others.close()
