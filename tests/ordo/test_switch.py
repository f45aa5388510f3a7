"""`ordo standby switch`: what is refused, and what is given up."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from ordo.backup.folder import read_json, write_json
from ordo.cluster.admin.member_store import open_stopped
from ordo.cluster.settings.config import NodeSettings, load_config
from ordo.cluster.wire.counters.counter_types import ControlToggle, succeed_value
from ordo.cluster.wire.log_identity import Origin, identity_text
from ordo.runtime.errors import ClusterError, NoQuorumError, OutcomeUnknownError, StorageError
from ordo.standby.folder import ORDER, STATUS, SWITCH, prepare, read_number
from ordo.standby.promotion import _is_successor, order_switch, promote
from ordo.standby.switch import switch_over

TOML = '[node]\nmember_id = 9\ndata_dir = "{0}"\n[[members]]\nid = 9\nhost = "127.0.0.1"\nport = 20000\n'
NEAR = {"state": "following", "lag_seconds": 0.5, "position": 10, "primary_position": 10, "told_ms": 1 << 60}


@pytest.fixture
def config(tmp_path: Path) -> NodeSettings:
    """A standby whose process says that it follows closely, and does not run."""
    path = tmp_path / "node.toml"
    path.write_text(TOML.format(tmp_path / "data"))
    made = load_config(path)
    prepare(made)
    return made


def primary(toggle: int) -> mock.Mock:
    leader = mock.Mock(member_id=0)
    leader.counters.value.return_value = toggle
    leader.counters.set_toggle.side_effect = lambda wanted, expected: toggle
    return mock.Mock(**{"find_leader.return_value": leader, "describe.return_value": {}})


@pytest.mark.parametrize("own", [None, Origin(b"o" * 16, 32)])
def test_another_cluster_is_not_suspended(config: NodeSettings, own: Origin | None) -> None:
    """Two clusters may have committed as much."""
    if own is not None:
        with open_stopped(config) as store:
            store.folder.put_origin(own)
    cluster = primary(ControlToggle.NEUTRAL)
    cluster.describe.return_value = {"identity": identity_text(Origin(b"p" * 16, 32))}
    with (
        mock.patch("ordo.standby.switch.describe_standby", return_value=NEAR),
        pytest.raises(ClusterError, match=r"has identity 7070.*, and the log of this standby (none yet|6f6f)"),
    ):
        switch_over(config, cluster, 1, lambda _: None)
    assert read_number(config) == 0 and not cluster.find_leader().counters.set_toggle.called


@pytest.mark.parametrize(
    ("told", "toggle", "shown"),
    [
        ({"state": "stopped"}, ControlToggle.NEUTRAL, "is not following the primary"),
        (NEAR | {"lag_seconds": 9.0}, ControlToggle.NEUTRAL, "9.0 s behind"),
        (NEAR | {"lag_seconds": None}, ControlToggle.NEUTRAL, "an unknown time behind"),
        (NEAR, ControlToggle.SUSPEND, "the primary is suspended"),
        (NEAR, ControlToggle.SUCCEEDED, "for another standby"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(
    config: NodeSettings, told: dict[str, object], toggle: int, shown: str
) -> None:
    cluster = primary(toggle)
    with (
        mock.patch("ordo.standby.switch.describe_standby", return_value=told),
        pytest.raises(ClusterError, match=shown),
    ):
        switch_over(config, cluster, 1, lambda _: None)
    assert read_number(config) == 0 and not cluster.find_leader().counters.set_toggle.called


def test_a_switch_that_is_given_up_has_the_primary_go_on_or_says_that_it_may_not(config: NodeSettings) -> None:
    cluster = primary(ControlToggle.NEUTRAL)
    with (
        mock.patch("ordo.standby.switch.describe_standby", return_value=NEAR),
        mock.patch("ordo.standby.switch.orders.suspend", side_effect=ClusterError("it leads no more")),
    ):
        with pytest.raises(ClusterError, match="it leads no more; the switch was given up, and the primary goes on"):
            switch_over(config, cluster, 1, lambda _: None)
        assert not (config.node.data_dir / SWITCH).exists()
        found = [cluster.find_leader(), NoQuorumError("no quorum")]
        cluster.find_leader.side_effect = found
        with pytest.raises(OutcomeUnknownError, match=r"may be suspended still .*give the same command again"):
            switch_over(config, cluster, 1, lambda _: None)
    assert read_number(config) > 0, "the same command goes on with it"


def test_a_log_that_has_ended_for_another_standby_is_not_gone_on_with(config: NodeSettings) -> None:
    write_json(config.node.data_dir / SWITCH, {"number": 5})
    assert _is_successor(config, 5) and not _is_successor(config, 0)
    with pytest.raises(ClusterError, match="for another standby to go on: promote that one"):
        _is_successor(config, 6)
    write_json(config.node.data_dir / ORDER, {"although_alive": True})
    assert not _is_successor(config, 6)
    assert not (config.node.data_dir / STATUS).exists()


@pytest.mark.parametrize("toggle", [ControlToggle.INACTIVE, succeed_value(7)])
def test_what_may_still_be_committed_is_not_given_up(config: NodeSettings, toggle: int) -> None:
    write_json(config.node.data_dir / SWITCH, {"number": 7})
    cluster = primary(toggle)
    with (
        mock.patch("ordo.standby.switch.describe_standby", return_value=NEAR),
        pytest.raises(OutcomeUnknownError, match=r"an order under way .*give the same command again"),
    ):
        switch_over(config, cluster, 0.05, lambda _: None)
    assert read_number(config) == 7


def test_a_suspension_of_another_command_is_left_alone(config: NodeSettings) -> None:
    cluster = primary(ControlToggle.NEUTRAL)

    def suspended_by_another(leader: mock.Mock, _: float) -> None:
        leader.counters.value.return_value = ControlToggle.SUSPEND
        raise ClusterError("it is busy")

    with (
        mock.patch("ordo.standby.switch.describe_standby", return_value=NEAR),
        mock.patch("ordo.standby.switch.orders.suspend", side_effect=suspended_by_another),
        mock.patch("ordo.standby.switch.orders.resume") as resume,
        pytest.raises(OutcomeUnknownError, match="does not know whether it has suspended it"),
    ):
        switch_over(config, cluster, 1, lambda _: None)
    assert not resume.called


def test_the_order_of_a_switch_stands_until_it_is_carried_out(config: NodeSettings) -> None:
    """A crash, or a disk that is full for a while, leaves nobody else who could go on."""
    write_json(config.node.data_dir / SWITCH, {"number": 7})
    order_switch(config)
    full = StorageError("no space left")
    with mock.patch("ordo.standby.promotion.examine", side_effect=full), pytest.raises(StorageError, match="no space"):
        promote(config)
    assert read_json(config.node.data_dir / ORDER) == {"number": 7}
    with pytest.raises(ClusterError, match="cannot be read up to that record: nothing was promoted"):
        _is_successor(config, 0)
    write_json(config.node.data_dir / ORDER, {"although_alive": True})
    with mock.patch("ordo.standby.promotion.examine", side_effect=full), pytest.raises(StorageError, match="no space"):
        promote(config)
    assert not (config.node.data_dir / ORDER).exists()
