"""`ordo cluster recover`: what stopped members have, compared; refusals, and what is told to be lost."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ordo.cli import run
from ordo.cluster.module.state.folder_rows import Owner, Start
from ordo.cluster.wire.configuration import NamedConfiguration
from ordo.cluster.wire.log_identity import Origin
from ordo.cluster.wire.members import Member
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.messages import Lead
from ordo.runtime.errors import ClusterError, ConfigurationError
from ordo.salvage.comparison import compare, find_refusal
from ordo.salvage.holding_rows import encode_holding, read_report
from ordo.salvage.holdings import Holding, Stretch
from ordo.salvage.recover_commands import endpoints_to_ask

ONE, OTHER = Origin(b"1" * 16, 0), Origin(b"2" * 16, 0)


def holding(member_id: int, end: int = 1000, term: int = 3, **fields: object) -> Holding:
    """A member of three voters with an intact log that ends at `end`, in `term`, which began at 500."""
    plain = Holding(
        member_id=member_id,
        cluster_id=0,
        owner=Owner(0, member_id),
        origin=ONE,
        voters=[0, 1, 2],
        learners=[],
        terms=[(1, 0), (term, 500)],
        start_position=0,
        end_position=end,
        committed_position=900,
        timestamp_ms=1_700_000_000_000,
        snapshots={},
        distrust=Distrust.NONE,
        start=Start(4, 44),
        seen_starts={},
        seen_points={},
    )
    return replace(plain, **fields)  # type: ignore[arg-type]


def test_one_of_three_may_go_on_and_its_loss_has_no_bound() -> None:
    found = compare([holding(0)])
    assert (found.best.member_id, found.able, found.gone) == (0, [0], [1, 2])
    assert found.loss == (1000, 1000, 1000, None)
    assert find_refusal(found, 0) == ""
    assert "may be lost: what was acknowledged behind position=1000 (cluster time 2023-11-14" in "\n".join(
        found.lines()
    )


def test_a_quorum_that_can_be_had_is_refused() -> None:
    text = find_refusal(compare([holding(0), holding(2)]), 0)
    assert text.startswith("a quorum can be had: members 0, 2 of the voters 0, 1, 2 ")


def test_members_that_lost_something_are_no_quorum() -> None:
    emptied = holding(2, end=0, terms=[], committed_position=0, distrust=Distrust.LOG | Distrust.VOTE)
    found = compare([holding(0), emptied])
    assert found.gone == [1, 2] and find_refusal(found, 0) == ""


def test_a_member_with_less_is_refused() -> None:
    behind = holding(2, end=800, distrust=Distrust.LOG)
    text = find_refusal(compare([holding(0), behind]), 2)
    assert text.startswith("--from 2: member 0 has more: its log ends at position=1000 in term 3"), text


def test_a_later_term_has_more_than_a_longer_log() -> None:
    longer, later = holding(0, end=9000, term=2), holding(3, end=700, term=4, voters=[0, 1, 2, 3])
    found = compare([longer, later])
    assert found.best is later
    assert "member 0 has another log than member 3 from position=500 on" in found.findings[0]


def test_half_of_an_even_number_loses_nothing_unless_the_rest_had_become_a_quorum() -> None:
    four = [0, 1, 2, 3]
    found = compare([holding(0, voters=four), holding(1, voters=four, end=960)])
    assert found.loss.at_most_position == found.loss.from_position == 1000
    assert find_refusal(found, 0) == ""
    text = "\n".join(found.lines())
    assert "is lost, unless a member was removed or promoted behind position=1000: every quorum" in text
    quorum = compare([holding(one, voters=four) for one in (0, 1, 3)])
    assert "nothing that was acknowledged is lost: every quorum" in "\n".join(quorum.lines())


def test_what_is_known_to_be_committed_elsewhere_is_told() -> None:
    found = compare(
        [holding(0, seen_points={1: (3, 1800), 2: (2, 5000)}), holding(3, end=600, committed_position=1400)]
    )
    assert found.loss == (1000, 1400, 1800, None), "a point of an earlier term says nothing of this log"
    text = "\n".join(found.lines())
    assert "committed at least up to 1400, which is lost for certain" in text and "have the log up to 1800" in text


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (holding(2, origin=OTHER), "members 0 and 2 have data of two clusters"),
        (holding(2, cluster_id=7, owner=Owner(7, 2)), "members 0 and 2 have data of two clusters"),
        (holding(2, owner=Owner(0, 1)), "the data folder of member 2 of cluster 0 is that of member 1 of cluster 0"),
        (holding(0), "the folders are of members 0, 0"),
        (holding(2, seen_starts={0: Start(5, 9)}), "the data folder of member 0 is an older copy: member 2 has seen"),
        (holding(2, seen_starts={0: Start(4, 9)}), "the data folder of member 0 is an older copy"),
    ],
)
def test_folders_that_do_not_belong_together_are_refused(other: Holding, words: str) -> None:
    with pytest.raises(ClusterError, match=words):
        compare([holding(0), other])


def test_the_former_cluster_is_another_one_after_a_recovery() -> None:
    recovered = holding(0, end=1200, term=1 << 21, origin=Origin(b"2" * 16, 1001))
    with pytest.raises(ClusterError, match="data of two clusters"):
        compare([recovered, holding(1, end=1100)])


def test_different_messages_at_the_same_place_are_told() -> None:
    one = holding(0, stretches=[Stretch(0, 400, "aa"), Stretch(400, 1000, "bb")])
    other = holding(2, stretches=[Stretch(0, 400, "ab"), Stretch(400, 1000, "bb")], distrust=Distrust.VOTE)
    (text,) = compare([one, other]).findings
    assert text.startswith("members 0 and 2 have different messages between position=0 and 400")
    (text,) = compare(
        [replace(one, snapshots={5: "aa"}), replace(one, member_id=1, owner=None, snapshots={5: "b"})]
    ).findings
    assert "different snapshots at position=5" in text


LED = {1: Lead(0, 11), 3: Lead(1, 33)}


@pytest.mark.parametrize(
    ("leads", "terms"),
    [
        ({**LED, 3: Lead(2, 9)}, [(1, 0), (3, 500)]),
        ({**LED, 3: Lead(1, 34)}, [(1, 0), (3, 500)]),
        ({}, [(1, 0), (3, 640)]),
    ],
)
def test_a_term_that_two_have_led_is_told(leads: dict[int, Lead], terms: list[tuple[int, int]]) -> None:
    """Its records were taken for those that a later leader did not have, or for the same."""
    (text,) = compare([holding(0, leads=LED), holding(2, end=900, leads=leads, terms=terms)]).findings
    assert text.startswith("members 0 and 2 have term 3 of two leaders, since one forgot its vote")
    assert "other messages from position=500 on" in text and "never committed" not in text


@pytest.mark.parametrize("leads", [LED, {}, {1: Lead(0, 11)}])
def test_a_term_of_one_leader_is_one_log(leads: dict[int, Lead]) -> None:
    assert compare([holding(0, leads=LED), holding(2, end=900, leads=leads)]).findings == []


def test_a_report_is_read_as_it_was_written(tmp_path: Path) -> None:
    one = holding(
        0, leads=LED, seen_starts={1: Start(3, 2)}, seen_points={1: (3, 7)}, snapshots={5: "aa"}, damage="torn"
    )
    one.stretches.append(Stretch(0, 9, "cc"))
    path = tmp_path / "m0.json"
    path.write_text(
        json.dumps({"holdings": [encode_holding(one), encode_holding(holding(2, origin=None, owner=None))]})
    )
    assert read_report(path) == [one, holding(2, origin=None, owner=None)]


@pytest.mark.parametrize("text", ["", "{}", '{"holdings": [{}]}', '{"holdings": 3}', '{"holdings": [{"format": 9}]}'])
def test_a_file_that_is_no_report_is_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "m0.json").write_text(text)
    with pytest.raises(ConfigurationError, match=r"--report .*m0.json: not what `ordo cluster recover --json` writes"):
        read_report(tmp_path / "m0.json")


@pytest.mark.parametrize("more", [["--from", "0"], ["--i-accept-loss"]])
def test_the_two_options_go_together(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cluster", "recover", "--config", "node.toml", *more]) == 2
    assert "give --from ID together with --i-accept-loss" in capsys.readouterr().err


def test_members_that_only_the_log_names_are_asked_whether_they_are_gone() -> None:
    configured = [Member(one, f"10.0.0.{one}:20000", "", "", "", "") for one in range(3)]
    added = [Member(one, f"10.0.0.{one}:20000", "", "", "", "") for one in (0, 5, 6)]
    logged = NamedConfiguration(tuple(added[:2]), (added[2],))
    found = compare([holding(0), holding(1, distrust=Distrust.VOTE)])
    assert endpoints_to_ask(configured, None, found) == ["10.0.0.2:20000"]
    assert endpoints_to_ask(configured, logged, found) == ["10.0.0.2:20000", "10.0.0.5:20000", "10.0.0.6:20000"]
