"""Several standbys: for whom one holds, who may be promoted, and what a promotion of a folder demands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ordo.backup.folder import CLUSTER, write_json
from ordo.cli import EXIT_FAILED, run
from ordo.cluster.admin.member_store import open_stopped, open_stored
from ordo.cluster.client.operator import MemberLook
from ordo.cluster.module.state.folder_rows import Hold
from ordo.cluster.settings.config import NodeSettings, load_config
from ordo.deploy.launcher import ROOT
from ordo.runtime.errors import ClusterError, ConfigurationError
from ordo.salvage.holdings import examine
from ordo.standby.folder import HOLD, ORDER, RELEASE, is_promoted, prepare, read_candidacy, take_release
from ordo.standby.holds import NOBODY, Order, Seen, describe, find_life, find_refusal, next_hold, parse_seen
from ordo.standby.others import find_own, group_of, others_of
from ordo.standby.promotion import promote
from tests.snippets import texts_of

pytest.importorskip("ordo.pipeline.decoding.synthetic", reason="the pipeline is not compiled for this Python")
from ordo.pipeline.generate import LogShape, generate_log

IDS = (9, 10, 11)
STANDBYS = "".join(f'[[standbys]]\nid = {one}\ningress = "127.0.0.1:{20000 + one}"\n' for one in IDS)
TOML = '[node]\nmember_id = 9\ndata_dir = "{0}"\n[[members]]\nid = 9\nhost = "127.0.0.1"\nport = 20009\n'


def candidate(member_id: int, promotion: int = 7, **more: Any) -> Seen:
    return Seen(member_id, True, promotion, member_id, **{"term_id": 1, "position": 640, **more})


def held(member_id: int, position: int = 640, promotion: int = 7, of: int = 9, **more: Any) -> Seen:
    return Seen(member_id, True, promotion, of, **{"term_id": 1, "position": position, **more})


def promoted(member_id: int) -> Seen:
    return Seen(member_id, is_standby=False)


def seen(*standbys: Seen) -> dict[int, Seen]:
    return {one.member_id: one for one in standbys}


# -- for whom one holds ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "others", "after"),
    [
        (None, [], None),
        (None, [Seen(10, is_standby=True)], None),
        (None, [held(10, of=11)], None),
        (None, [candidate(10), candidate(11, 8)], Hold(7, 10)),
        (None, [candidate(10), promoted(11)], Hold(0, 11)),
        (None, [promoted(10), promoted(11)], None),
        (Hold(7, 10), [], Hold(7, 10)),
        (Hold(7, 10), [candidate(10), candidate(11, 8)], Hold(7, 10)),
        (Hold(7, 10), [candidate(11, 8)], Hold(7, 10)),
        (Hold(7, 10), [candidate(11, 8, instead_of=10)], Hold(8, 11)),
        (Hold(7, 10), [candidate(10), candidate(11, 8, instead_of=10)], Hold(7, 10)),
        (Hold(7, 10), [candidate(10, 9)], Hold(9, 10)),
        (Hold(7, 10), [Seen(10, is_standby=True)], None),
        (Hold(7, 10), [held(10, of=11), candidate(11, 8)], Hold(8, 11)),
        (Hold(7, 10), [promoted(10), candidate(11, 8, instead_of=10)], Hold(7, 10)),
    ],
)
def test_a_standby_holds_for_one_until_that_takes_it_back_or_is_said_to_be_lost(
    before: Hold | None, others: list[Seen], after: Hold | None
) -> None:
    assert next_hold(9, before, None, seen(*others)) == after


def test_a_candidate_holds_for_itself_until_the_order_is_gone_or_is_to_be_carried_out() -> None:
    own = Hold(7, 9)
    assert next_hold(9, None, Order(7), {}) == own
    assert next_hold(9, own, Order(7), seen(candidate(10, 8, instead_of=9))) == own
    assert next_hold(9, own, Order(8), {}) == Hold(8, 9)
    assert next_hold(9, own, None, {}) is None
    assert next_hold(9, own, None, {}, is_decided=True) == own
    assert next_hold(9, own, None, seen(promoted(10))) == Hold(0, 10)
    assert next_hold(9, Hold(7, 10), Order(8), {}) == Hold(7, 10)
    assert next_hold(9, Hold(7, 10), Order(8, instead_of=10), {}) == Hold(8, 9)


def test_what_is_told_comes_back_and_others_are_no_standbys_of_several() -> None:
    one = held(10, heard_ms=5)
    assert parse_seen(MemberLook(describe(one), {})) == one
    assert parse_seen(MemberLook(describe(promoted(10)), {})) == promoted(10)
    assert parse_seen(MemberLook({"member_id": 10}, {})) is None


# -- who may be promoted -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([held(10)], ""),
        ([held(10, 96), held(11)], ""),
        ([held(10), Seen(11, True, term_id=1, position=9600)], ""),
        ([held(10), held(11, 9600, promotion=6)], ""),
        ([], "only 1 of 3 standbys hold for this one, and 2 are needed"),
        ([held(10, -1)], "only 1 of 3"),
        ([held(10, promotion=6)], "only 1 of 3"),
        ([held(10, of=11), candidate(11, 8)], "standby 10 has the log up to position=640 in term 1, holds for 11"),
        ([held(10, 672)], "up to position=672 in term 1, holds for 9, and this one up to position=640 in term 1"),
        ([held(10, 96, term_id=2)], "give the command there"),
        ([held(10), held(11, group=1)], "standby 11 has other ids in [[standbys]]"),
        ([held(10), promoted(11)], "standby 11 was promoted: this one follows it by itself"),
    ],
)
def test_a_majority_holds_and_none_of_it_has_more(others: list[Seen], said: str) -> None:
    refusal = find_refusal(candidate(9), others, 3)
    assert said in refusal and bool(said) == bool(refusal)


def test_of_five_three_are_needed_and_one_that_holds_for_another_is_none() -> None:
    assert "only 2 of 5 standbys" in find_refusal(candidate(9), [held(10)], 5)
    assert find_refusal(candidate(9), [held(10), held(12)], 5) == ""
    assert "give --instead-of 10" in find_refusal(held(9, of=10), [], 3)


def test_a_primary_that_another_standby_hears_is_alive() -> None:
    assert find_life([Seen(10, True, heard_ms=2999)]) == "answered standby 10 2.999 s ago"
    assert find_life([Seen(10, True, heard_ms=3000), Seen(11, True, heard_ms=-1000)]) == ""


# -- folders -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def config(tmp_path: Path) -> NodeSettings:
    """One of three standbys, with a log."""
    file = tmp_path / "node.toml"
    file.write_text(TOML.format(tmp_path / "data") + STANDBYS)
    config = load_config(file)
    prepare(config)
    log = generate_log(str(config.archive_dir), LogShape(messages=50, terms=2))
    with open_stopped(config) as store:
        store.put_log_recording(log.recording_id)
    write_json(config.node.data_dir / CLUSTER, {"endpoints": ["10.0.0.1:20000"]})
    return config


def hold(config: NodeSettings, found: Hold | None) -> None:
    with open_stopped(config) as store:
        store.folder.put_hold(found)


def test_a_promotion_needs_the_hold_that_was_counted_and_the_log_that_was_compared(config: NodeSettings) -> None:
    rank = examine(config).holding.rank
    order = {"promotion": 7, "most": rank}
    for found, given, said in [
        (None, order, "do not hold for this promotion any more"),
        (Hold(6, 9), order, "do not hold for this promotion any more"),
        (Hold(7, 10), order, "holds for standby 10"),
        (Hold(7, 9), {**order, "most": (rank[0], rank[1] + 32)}, "another one that holds for it up to position="),
    ]:
        hold(config, found)
        write_json(config.node.data_dir / ORDER, given)
        with pytest.raises(ClusterError, match=said):
            promote(config)
        assert not is_promoted(config) and not (config.node.data_dir / ORDER).exists()
    hold(config, Hold(7, 9))
    write_json(config.node.data_dir / ORDER, order)
    write_json(config.node.data_dir / HOLD, {"promotion": 7, "instead_of": NOBODY})
    promote(config)
    assert is_promoted(config) and not (config.node.data_dir / HOLD).exists()
    with open_stored(config) as store:
        assert store.folder.hold is None


def test_one_that_goes_on_alone_says_whom_it_held_for(config: NodeSettings) -> None:
    hold(config, Hold(7, 10))
    alone = config.model_copy(update={"standbys": []})
    with pytest.raises(ClusterError, match="give `ordo standby promote --instead-of 10`"):
        promote(alone)
    write_json(config.node.data_dir / ORDER, {"instead_of": 10})
    assert promote(alone).position == examine(config).holding.terms[-1][1]


def test_the_orders_of_operators_are_files_of_the_folder(config: NodeSettings) -> None:
    directory = config.node.data_dir
    assert read_candidacy(config) is None and take_release(config) == NOBODY
    write_json(directory / HOLD, {"promotion": 7, "instead_of": 10})
    write_json(directory / RELEASE, {"candidate_id": 10})
    assert read_candidacy(config) == Order(7, 10)
    assert take_release(config) == 10 and take_release(config) == NOBODY, "the order ends with the call"


def test_one_that_does_not_run_is_no_candidate(config: NodeSettings, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ClusterError):
        find_own(config)
    words = ["standby", "promote", "--config", str(config.folder / "node.toml")]  # type: ignore[operator]
    assert run(words) == EXIT_FAILED and not (config.node.data_dir / HOLD).exists()
    assert not (config.node.data_dir / ORDER).exists()


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (STANDBYS.replace("id = 11", "id = 10"), "with different ids"),
        (STANDBYS.partition("[[standbys]]\nid = 11")[0], "name three or five"),
        (STANDBYS.replace("id = 9", "id = 12"), "must be one of their ids"),
        (STANDBYS.replace("127.0.0.1:20010", "nowhere"), "must be host:port"),
    ],
)
def test_the_standbys_are_three_or_five_and_this_one_is_among_them(tmp_path: Path, table: str, said: str) -> None:
    file = tmp_path / "node.toml"
    file.write_text(TOML.format(tmp_path) + table)
    with pytest.raises(ConfigurationError, match=said):
        load_config(file)


def test_the_tables_of_the_page_are_three_standbys(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "STANDBY.md").read_text()
    (tables,) = (text for text in texts_of(page, "toml") if "[[standbys]]" in text)
    file = tmp_path / "node.toml"
    file.write_text(TOML.format(tmp_path) + tables)
    assert [one.ingress for one in others_of(load_config(file))] == ["10.1.0.10:20000", "10.1.0.11:20000"]


def test_the_others_are_those_beside_this_one(config: NodeSettings) -> None:
    assert [one.member_id for one in others_of(config)] == [10, 11]
    turned = config.model_copy(update={"standbys": config.standbys[::-1]})
    fewer = config.model_copy(update={"standbys": config.standbys[:2]})
    assert group_of(turned) == group_of(config) != group_of(fewer)
