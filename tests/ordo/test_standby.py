"""`ordo standby`: its lag, its folder, what it tells, and what a promotion of a folder finds and makes."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest

from ordo.archive.store.lmdb_store import open_lmdb
from ordo.backup.folder import CLUSTER, BackupFolder, Contents, write_json
from ordo.backup.follow import LogBackup
from ordo.backup.log_copy import LogCopy
from ordo.backup.query import Description
from ordo.cli import EXIT_FAILED, EXIT_USAGE, run
from ordo.cluster.admin.member_store import open_stopped, open_stored
from ordo.cluster.module.state.folder_rows import Owner, claim
from ordo.cluster.module.state.state_store import StateStore
from ordo.cluster.node.node import Node
from ordo.cluster.settings.config import NodeSettings, load_config
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.log_identity import Origin
from ordo.cluster.wire.log_index.entries import FILE_NAME as INDEX_NAME
from ordo.cluster.wire.members import parse_members
from ordo.runtime.errors import ClusterError, ConfigurationError, NotPermittedError, StorageInUseError
from ordo.runtime.io.storage import FileStorage
from ordo.salvage.holdings import examine
from ordo.standby.feed import Primary
from ordo.standby.folder import (
    ORDER,
    PROMOTION,
    SEEDING,
    STATUS,
    begin_anew,
    demand_alone,
    has_log,
    is_begun_anew,
    is_promoted,
    is_standby,
    prepare,
)
from ordo.standby.lag import Lag
from ordo.standby.lives import Lives, SeedFolder
from ordo.standby.promotion import promote, read_promotion
from ordo.standby.report import find_life, remember
from tests.ordo.standby_folders import give_log, make_log

S = 1_000_000_000
OWNER = Owner(0, 9)
TOML = '[node]\nmember_id = 9\ndata_dir = "{0}"\n[[members]]\nid = 9\nhost = "127.0.0.1"\nport = 20000\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The node.toml of a standby."""
    file = tmp_path / "node.toml"
    file.write_text(TOML.format(tmp_path / "data"))
    return file


@pytest.fixture
def copy(path: Path) -> NodeSettings:
    """A standby with a log of 50 messages, in two terms, and nobody who follows."""
    config = load_config(path)
    give_log(config)
    return config


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = run(["standby", *words])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


# -- lag ---------------------------------------------------------------------------------------------------------------


def test_what_is_here_is_as_old_as_the_question_that_it_answers() -> None:
    lag = Lag()
    assert (lag.behind_bytes, lag.behind_ns(9 * S), lag.silent_ns(9 * S)) == (0, None, None)
    lag.reach(100)
    lag.answer(100, asked_ns=10 * S, now_ns=11 * S)
    assert (lag.behind_bytes, lag.behind_ns(12 * S), lag.silent_ns(12 * S)) == (0, 2 * S, 1 * S)
    lag.answer(300, asked_ns=12 * S, now_ns=13 * S)
    lag.reach(299)
    assert (lag.behind_bytes, lag.behind_ns(14 * S)) == (1, 4 * S)
    lag.reach(300)
    assert (lag.behind_bytes, lag.behind_ns(14 * S)) == (0, 2 * S)


def test_the_lag_grows_while_the_primary_is_silent() -> None:
    lag = Lag()
    lag.reach(64)
    lag.answer(64, asked_ns=S, now_ns=S)
    assert lag.behind_ns(61 * S) == 60 * S and lag.silent_ns(61 * S) == 60 * S and lag.behind_bytes == 0


def test_a_member_that_is_behind_takes_nothing_back() -> None:
    lag = Lag()
    lag.answer(500, asked_ns=S, now_ns=S)
    lag.answer(400, asked_ns=2 * S, now_ns=2 * S)
    assert lag.primary_position == 500
    lag.reach(450)
    assert lag.behind_ns(3 * S) is None, "the question of 500 comes first"


# -- the folder --------------------------------------------------------------------------------------------------------


def test_no_node_starts_with_a_copy_before_it_is_promoted(copy: NodeSettings) -> None:
    with open_stopped(copy) as store:
        with pytest.raises(ClusterError, match="is a standby's, a copy of another cluster's log"):
            claim(store.folder, OWNER, "/data", 1)
        assert claim(store.folder, OWNER, "/data", 1, is_standby=True).start.number == 1
    assert is_standby(copy) and has_log(copy) and not is_promoted(copy)


def test_a_folder_of_a_member_is_not_taken(path: Path) -> None:
    config = load_config(path)
    make_log(config, messages=5)
    with pytest.raises(ConfigurationError, match="has the data of a node that is no standby"):
        prepare(config)


def test_a_folder_of_a_backup_is_not_that_of_a_promoted_standby(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has the file with the cluster's addresses, too; a node in it would begin an empty log beside the copies."""
    config = load_config(path)
    with BackupFolder(config.node.data_dir, None):
        pass
    write_json(config.node.data_dir / CLUSTER, {"endpoints": ["10.0.0.1:20000"]})
    assert not is_promoted(config)
    with pytest.raises(ConfigurationError, match="has the data of a node that is no standby"):
        Lives(Primary([])).next_life(config)
    status, _, errors = told(capsys, "status", "--config", str(path))
    assert status == EXIT_USAGE and "there is no standby in this folder" in errors


def test_a_standby_whose_store_is_lost_is_no_promoted_one(copy: NodeSettings) -> None:
    (copy.cluster_dir / "state.mdb").unlink()
    assert not is_promoted(copy)
    with pytest.raises(ConfigurationError, match="has the data of a node that is no standby"):
        Lives(Primary([])).next_life(copy)


def test_a_crash_while_a_folder_is_made_is_of_no_account(path: Path) -> None:
    config = load_config(path)
    config.cluster_dir.mkdir(parents=True)
    prepare(config)
    prepare(config)
    assert is_standby(config) and not has_log(config)


def test_a_standby_is_promoted_to_a_cluster_of_one(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text(path.read_text() + '[[members]]\nid = 1\nhost = "127.0.0.1"\nport = 20010\n')
    with pytest.raises(ConfigurationError, match="2 are named"):
        demand_alone(load_config(path))
    status, _, errors = told(capsys, "run", "--config", str(path), "--endpoints", "127.0.0.1:1")
    assert status == EXIT_USAGE and "its node.toml names it alone" in errors


def test_whom_to_follow_must_be_said_once(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, errors = told(capsys, "run", "--config", str(path))
    assert status == EXIT_USAGE and "--endpoints: give HOST:PORT" in errors


@pytest.mark.parametrize("command", ["status", "promote"])
def test_where_there_is_no_standby_is_one_line(command: str, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, errors = told(capsys, command, "--config", str(path))
    assert status == EXIT_USAGE and "there is no standby in this folder" in errors


# -- what it tells -----------------------------------------------------------------------------------------------------


def test_the_status_says_what_would_be_lost(copy: NodeSettings, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told_of = {"state": "following", "position": 900, "primary_position": 1000, "lag_bytes": 100}
    write_json(copy.node.data_dir / STATUS, {**told_of, "lag_seconds": 2.5, "heard_seconds_ago": 0.1})
    status, out, _ = told(capsys, "status", "--config", str(path))
    assert status == 0 and "at risk            100 bytes" in out and "acknowledged within the last 2.5 s" in out
    write_json(copy.node.data_dir / STATUS, {**told_of, "lag_seconds": None, "heard_seconds_ago": 0.1})
    assert "this standby has not caught up yet" in told(capsys, "status", "--config", str(path))[1]
    write_json(copy.node.data_dir / STATUS, {"state": "looking for a member"})
    assert "unknown: the primary has not said how far it is" in told(capsys, "status", "--config", str(path))[1]


def test_what_was_known_of_a_primary_outlives_the_process() -> None:
    former = {"position": 900, "primary_position": 1000, "lag_seconds": 1.5, "heard_seconds_ago": 0.5, "told_ms": 1_000}
    silent = {"position": 932, "primary_position": -1, "lag_bytes": None, "lag_seconds": None, "told_ms": 61_000}
    found = remember({**silent, "heard_seconds_ago": None}, former)
    assert (found["position"], found["primary_position"], found["lag_bytes"]) == (932, 1000, 68)
    assert (found["lag_seconds"], found["heard_seconds_ago"]) == (61.5, 60.5)
    heard = {**silent, "position": 990, "primary_position": 990, "lag_bytes": 0, "heard_seconds_ago": 0.1}
    found = remember(heard, former)
    assert (found["lag_bytes"], found["lag_seconds"], found["heard_seconds_ago"]) == (10, None, 0.1)
    assert remember(heard, {}) == heard


# -- promotion ---------------------------------------------------------------------------------------------------------


def test_a_primary_that_answers_is_not_gone(copy: NodeSettings, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(copy.node.data_dir / STATUS, {"state": "following", "heard_seconds_ago": 0.2})
    status, _, errors = told(capsys, "promote", "--config", str(path))
    assert status == EXIT_FAILED and "the primary answered 0.2 s ago: it is not gone" in errors
    assert is_standby(copy) and not (copy.node.data_dir / ORDER).exists()


def test_a_standby_is_promoted_as_the_member_that_it_is(
    copy: NodeSettings, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_stopped(copy) as store:
        store.folder.put_owner(OWNER)
    path.write_text(path.read_text().replace("id = 9", "id = 5"))
    status, _, errors = told(capsys, "promote", "--config", str(path))
    assert status == EXIT_FAILED and "is that of member 9 of cluster 0, and this is member 5" in errors
    assert is_standby(copy) and not (copy.node.data_dir / ORDER).exists()


def test_a_standby_without_a_log_is_refused(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepare(load_config(path))
    status, _, errors = told(capsys, "promote", "--config", str(path))
    assert status == EXIT_FAILED and "has no log yet" in errors


def test_a_promotion_names_its_exact_position_and_begins_an_epoch_behind_it(
    copy: NodeSettings, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = examine(copy)
    end = before.holding.end_position
    said = {"state": "stopped", "primary_position": end + 640, "heard_seconds_ago": 1, "told_ms": 0}
    write_json(copy.node.data_dir / STATUS, said)
    status, out, _ = told(capsys, "promote", "--config", str(path), "--json")
    found = json.loads(out)
    assert status == 0 and (found["position"], found["lost_bytes"]) == (end, 640)
    assert found["former_identity"] == ("" if before.holding.origin is None else before.holding.origin.identity.hex())

    after = examine(copy)
    assert is_promoted(copy) and not (copy.node.data_dir / ORDER).exists()
    assert after.holding.origin is not None and after.holding.origin.identity.hex() == found["identity"]
    assert after.holding.terms[:2] == before.holding.terms and after.holding.last_term_id == found["term_id"]
    assert after.holding.voters == [9] and not after.survey.sessions, "the former cluster's clients are closed"
    with open_stopped(copy) as store:
        claim(store.folder, OWNER, "/data", 1)

    status, _, errors = told(capsys, "promote", "--config", str(path))
    assert status == EXIT_FAILED and f"was promoted before behind position={end}" in errors
    assert f"promoted behind    position={end}" in told(capsys, "status", "--config", str(path))[1]


def test_what_cannot_be_known_is_said(copy: NodeSettings, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    end = examine(copy).holding.end_position
    _, out, _ = told(capsys, "promote", "--config", str(path))
    assert f"up to position={end}" in out and "lost for certain" not in out
    assert f"cannot be known here: what the primary acknowledged behind position={end}" in out
    assert "the primary was not heard by the process that followed it" in out


def test_an_order_outlives_a_crash_before_and_behind_the_promotion(copy: NodeSettings) -> None:
    lives, order = Lives(Primary([])), copy.node.data_dir / ORDER
    write_json(order, {})
    assert lives.next_life(copy) is not None, "ordered before the process started"
    with open_stored(copy) as store:
        origin = store.folder.origin
    write_json(order, {})
    assert lives.next_life(copy) is not None and not order.exists()
    with open_stored(copy) as store:
        assert store.folder.origin == origin, "a second time nothing is begun anew"


def test_a_crash_behind_the_new_epoch_takes_nothing_of_the_report(
    copy: NodeSettings, path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed as soon as the store says that it is done: the next start and the command say what was promoted."""
    order = copy.node.data_dir / ORDER
    monkeypatch.setattr("ordo.standby.promotion.clear_order", mock.Mock(side_effect=KeyboardInterrupt))
    write_json(order, {})
    with pytest.raises(KeyboardInterrupt):
        promote(copy)
    monkeypatch.undo()
    done = read_promotion(copy)
    assert is_promoted(copy) and done is not None and order.exists()
    lines: list[str] = []
    assert Lives(Primary([], report=lines.append)).next_life(copy) is Node
    assert lines == list(done.lines()) and not order.exists()

    write_json(order, {})  # the same crash, and the command comes first
    status, out, _ = told(capsys, "promote", "--config", str(path))
    assert status == 0 and out.splitlines() == lines and not order.exists()
    assert told(capsys, "promote", "--config", str(path))[0] == EXIT_FAILED


def test_what_a_promotion_wrote_before_its_end_is_no_report(copy: NodeSettings, path: Path) -> None:
    with mock.patch.object(StateStore, "begin_epoch", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        promote(copy)
    assert (copy.node.data_dir / PROMOTION).exists() and read_promotion(copy) is None
    with open_stored(copy) as store, pytest.raises(ClusterError, match="give the same `ordo standby promote` again"):
        claim(store.folder, OWNER, "/data", 1, is_standby=True)
    done = promote(copy)
    with open_stored(copy) as store:
        assert store.folder.origin is not None and store.folder.origin.identity.hex() == done.identity


def test_an_order_that_cannot_be_carried_out_does_not_stand(
    copy: NodeSettings, path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the process would be started again and end of it for ever."""
    order = copy.node.data_dir / ORDER
    monkeypatch.setattr("ordo.standby.promotion.go_on_alone", mock.Mock(side_effect=ClusterError("no room")))
    status, _, errors = told(capsys, "promote", "--config", str(path))
    assert status == EXIT_FAILED and "no room" in errors and not order.exists()

    process = Lives(Primary([]))
    assert process.next_life(copy) is not None

    def fail(_: float) -> None:
        with pytest.raises(ClusterError, match="no room"):
            process.next_life(copy)

    monkeypatch.setattr("ordo.standby.standby_commands.time.sleep", fail)
    status, _, errors = told(capsys, "promote", "--config", str(path))
    assert status == EXIT_FAILED and "could not carry out the promotion: see its log" in errors
    assert not order.exists() and is_standby(copy)


def test_what_a_damaged_log_had_is_not_passed_over(
    copy: NodeSettings, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end = examine(copy).holding.end_position
    (segment,) = copy.archive_dir.glob("*.rec")
    with segment.open("r+b") as file:
        file.seek(end // 2 // 32 * 32)
        file.write(b"\xff" * 64)
    index = copy.cluster_dir / INDEX_NAME
    index.write_bytes(b"of the log with what is behind")
    status, out, _ = told(capsys, "promote", "--config", str(path))
    assert not index.exists()
    found = read_promotion(copy)
    assert status == 0 and found is not None and found.position < end and found.damage
    assert f"what this standby had behind position={found.position} cannot be used: {found.damage}" in out


def test_a_process_that_has_the_folder_carries_the_order_out_also_between_two_lives(
    copy: NodeSettings, path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Lives(Primary([]))
    done: list[object] = []
    assert process.next_life(copy) is not None  # its node is not there yet, and no node has the folder
    monkeypatch.setattr("ordo.standby.standby_commands.time.sleep", lambda _: done.append(process.next_life(copy)))
    status, out, _ = told(capsys, "promote", "--config", str(path), "--json")
    assert status == 0 and done == [Node], "the command has left it to the process"
    with open_stored(copy) as store:
        assert store.folder.origin is not None and store.folder.origin.identity.hex() == json.loads(out)["identity"]
    with pytest.raises(StorageInUseError), FileStorage(open_lmdb).lock_directory(str(copy.cluster_dir)):
        pass


@pytest.mark.parametrize(
    ("told_of", "shown"),
    [
        ({"state": "looking for a node that has the log", "heard_seconds_ago": 0.2}, "answered 0.2 s ago"),
        ({"state": SEEDING, "source": "aeron:udp?endpoint=a:1"}, "sends its log from aeron:udp?endpoint=a:1"),
        ({"state": SEEDING, "source": None}, ""),
        ({"state": "following", "heard_seconds_ago": 3.5}, ""),
        ({"state": "stopped", "heard_seconds_ago": 0.2}, ""),
        ({}, ""),
    ],
)
def test_whether_the_primary_lives_is_seen_in_each_state(told_of: dict[str, object], shown: str) -> None:
    assert find_life(told_of) == shown


# -- a gap in what the primary still has -------------------------------------------------------------------------------


def test_a_crash_while_a_copy_is_begun_anew_is_followed_by_the_same(
    copy: NodeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: list[NodeSettings] = []

    def seed(_: Lives, config: NodeSettings) -> bool:
        seeds.append(config)
        return False

    monkeypatch.setattr(Lives, "_seed", seed)
    begin_anew(copy)
    prepare(copy)
    process = Lives(Primary([]))
    assert process.next_life(copy) is None and seeds == [copy]
    with open_stored(copy) as store, pytest.raises(ClusterError, match="is a standby's"):
        claim(store.folder, OWNER, "/data", 1)
    write_json(copy.node.data_dir / ORDER, {})
    assert process.next_life(copy) is Node, "the log before the gap is gone on with"
    assert is_promoted(copy) and len(seeds) == 1


def test_a_copy_that_is_whole_is_the_log(copy: NodeSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    begin_anew(copy)
    state_path = copy.cluster_dir / "state.mdb"
    origin = Origin(b"o" * 16, 640)
    monkeypatch.setattr(SeedFolder, "_origin_of_snapshots", lambda *_: origin)
    with SeedFolder(copy.node.data_dir, None, state_path=state_path) as folder:
        folder.settle()
    assert is_standby(copy) and has_log(copy) and not is_begun_anew(copy)
    with open_stored(copy) as store:
        assert store.folder.origin == origin, "that of the snapshot, though the log before the gap had another"


def test_an_order_ends_the_copying_where_there_is_a_log_from_before_a_gap(
    copy: NodeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup, transport = mock.Mock(is_complete=False, **{"work.return_value": 1}), mock.Mock()
    monkeypatch.setattr("ordo.standby.lives.Backup", lambda *_, **__: backup)
    monkeypatch.setattr("ordo.standby.lives.signal.signal", lambda *_: None)
    write_json(copy.node.data_dir / ORDER, {})
    begin_anew(copy)
    with SeedFolder(copy.node.data_dir, None, state_path=copy.cluster_dir / "state.mdb") as folder:
        assert Lives(Primary([]))._copy(folder, transport, OWNER.member_id)
    assert is_begun_anew(copy) and backup.close.called


# -- what members say --------------------------------------------------------------------------------------------------


def follow(copy: NodeSettings, standby_id: int | None) -> tuple[LogBackup, list[str]]:
    """What follows the log for a standby, or a backup, with two members' addresses; nothing is sent."""
    lines: list[str] = []
    folder = mock.Mock()
    folder.known_cluster.return_value = KnownCluster()
    folder.contents.return_value = Contents([], [], {})
    addresses = ["10.0.0.1:20000", "10.0.0.2:20000"]
    made = LogBackup(folder, mock.Mock(), addresses, interval_s=1, report=lines.append, standby_id=standby_id)
    return made, lines


def test_a_standby_outlives_credentials_that_are_refused_by_all(copy: NodeSettings) -> None:
    standby, lines = follow(copy, OWNER.member_id)
    refusals = [(one, NotPermittedError(f"{one}: no")) for one in ("10.0.0.1:20000", "10.0.0.2:20000")]
    for address, problem in [*refusals, *refusals]:
        standby._on_problem(address, problem, 0)
    assert lines[:2] == ["10.0.0.1:20000: no", "10.0.0.2:20000: no"] and standby.status()["problem"]
    backup, _ = follow(copy, None)
    backup._on_problem(*refusals[0], 0)
    with pytest.raises(NotPermittedError):
        backup._on_problem(*refusals[1], 0)


def test_an_id_that_a_member_of_the_primary_has_is_refused(copy: NodeSettings) -> None:
    said = Description(1, 0, parse_members("0,h:1,h:2,h:3,h:4,h:5|9,g:1,g:2,g:3,g:4,g:5"), None)
    with pytest.raises(ConfigurationError, match="member_id=9: the cluster that is followed has a member with this id"):
        follow(copy, OWNER.member_id)[0]._on_answer(said, 0)
    follow(copy, 8)[0]._take_members(said)


def test_nothing_is_copied_that_may_be_another_clusters(copy: NodeSettings) -> None:
    """A node that does not say yet whose log it has is read up to where the known cluster begins, whatever it sends."""
    source, recording = mock.Mock(limit_position=4096), mock.Mock(written_position=2048, source_limit_position=-1)
    recording.image = mock.Mock(is_closed=False, is_end_of_stream=False)
    log = LogCopy(mock.Mock(), mock.Mock(), [], None, lambda _: None, KnownCluster())
    log._source, log._recording = source, recording
    log._advance(recording)
    assert recording.source_limit_position == 4096 and not source.end.called
    source.limit_position = None
    log._advance(recording)
    assert recording.source_limit_position == (1 << 63) - 1
    source.limit_position, recording.written_position = 4096, 4064
    log._advance(recording)
    source.end.assert_called_once_with("is to say once more which cluster's log it has")
