"""`ordo standby switch`: what is refused, and what is given up."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from ordo.backup.folder import write_json
from ordo.cluster.settings.config import NodeSettings, load_config
from ordo.cluster.wire.counters.counter_types import ControlToggle
from ordo.runtime.errors import ClusterError, NoQuorumError, OutcomeUnknownError
from ordo.standby.folder import ORDER, STATUS, SWITCH, prepare, read_number
from ordo.standby.promotion import _is_successor
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
    return mock.Mock(**{"find_leader.return_value": leader})


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
