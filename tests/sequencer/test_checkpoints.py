"""Checkpoints of applications: the last one whole, or an error."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ordo.applications.application import Application, ApplicationSettings
from ordo.applications.checkpoints import CLUSTER_KEY, STORE_NAME, Checkpoints
from ordo.applications.group_snapshots import GroupSnapshot
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.client.connection.endpoints import archive_endpoint
from ordo.cluster.wire.log_identity import Log, Origin
from ordo.runtime.errors import ConfigurationError, OtherClusterError, StorageDamagedError, StorageInUseError
from ordo.runtime.io.storage import FileStorage
from ordo.transport.client.client_transport import ClientTransport
from tests.sequencer.applications import Numbered

ONE, OTHER = Origin(b"1" * 16, 0), Origin(b"2" * 16, 0)


def test_the_last_one_comes_back(tmp_path: Path) -> None:
    storage, folder = FileStorage(open_lmdb), str(tmp_path / "new" / "folder")
    checkpoints = Checkpoints(storage, folder)
    assert checkpoints.load() is None
    checkpoints.save([b"a", b"", b"c" * 100_000])
    checkpoints.save([b"d", b"e"])
    with pytest.raises(StorageInUseError):
        Checkpoints(storage, folder)
    checkpoints.close()
    again = Checkpoints(storage, folder)
    assert again.load() == [b"d", b"e"]
    again.close()


def test_damage_is_told(tmp_path: Path) -> None:
    storage, folder = FileStorage(open_lmdb), str(tmp_path)
    checkpoints = Checkpoints(storage, folder)
    checkpoints.save([b"a", b"b"])
    checkpoints.close()
    store = open_lmdb(str(tmp_path / STORE_NAME))
    with store.transaction() as transaction:
        transaction.put(b"message 00000001", b"c")
    store.close()
    checkpoints = Checkpoints(storage, folder)
    with pytest.raises(StorageDamagedError, match="is damaged"):
        checkpoints.load()
    checkpoints.close()


def test_a_checkpoint_says_of_which_cluster_it_is(tmp_path: Path) -> None:
    checkpoints = Checkpoints(FileStorage(open_lmdb), str(tmp_path))
    checkpoints.save([b"a"])
    assert checkpoints.origin is None, "as those of earlier releases"
    checkpoints.save([b"b"], ONE)
    assert checkpoints.load() == [b"b"] and checkpoints.origin == ONE
    checkpoints.close()
    with open_lmdb(str(tmp_path / STORE_NAME)) as store, store.transaction() as transaction:
        row = store.get(CLUSTER_KEY)
        assert row is not None
        transaction.put(CLUSTER_KEY, row.replace(b"31", b"32", 1))
    checkpoints = Checkpoints(FileStorage(open_lmdb), str(tmp_path))
    with pytest.raises(StorageDamagedError, match="is damaged"):
        checkpoints.origin  # noqa: B018
    checkpoints.close()


@pytest.fixture
def transport() -> Iterator[ClientTransport]:
    transport = ClientTransport.embedded("application")
    yield transport
    transport.close()


def application(
    transport: ClientTransport, folder: Path, find_snapshot: Callable[[], GroupSnapshot] | None = None
) -> Application:
    settings = ApplicationSettings(group="g", endpoints=["127.0.0.1:9"], folder=str(folder))
    storage = FileStorage(open_lmdb)
    return Application(Numbered, settings, transport=transport, storage=storage, find_snapshot=find_snapshot)


def test_an_instance_goes_on_with_its_own_cluster_only(transport: ClientTransport, tmp_path: Path) -> None:
    """A node tells its log's identity to the instance's readers and sessions, which share what they know."""
    first = application(transport, tmp_path)
    first._follower.cluster.adopt(Log(ONE.identity, ONE.position, 96), "node0")
    first.close()
    second = application(transport, tmp_path)
    assert second.origin == ONE, "saved, although nothing was executed"
    assert second._follower.cluster.admits(Log(ONE.identity, 0, 1 << 20), "node0")
    assert not second._follower.cluster.admits(Log(OTHER.identity, 0, 1 << 20), "node9")
    wanted = (
        f"node9 is of the cluster with identity {OTHER}, and the checkpoint in {tmp_path} of the one with identity "
        f"{ONE}: give the endpoints of that cluster, or another folder"
    )
    with pytest.raises(OtherClusterError, match=f"^{re.escape(wanted)}$"):
        for _ in range(1000):
            second.work()
            transport.park(1_000_000)
    second.close()
    third = application(transport, tmp_path)
    assert third.origin == ONE
    third.close()


def test_a_groups_snapshot_is_of_one_cluster_too(transport: ClientTransport, tmp_path: Path) -> None:
    first = application(transport, tmp_path / "first")
    messages = list(first.executor.take_snapshot())
    first.close()
    second = application(transport, tmp_path / "second", lambda: GroupSnapshot(messages, ONE))
    assert second.origin == ONE
    assert not second._follower.cluster.admits(Log(OTHER.identity, 0, 1 << 20), "node9")
    wanted = (
        f"and the snapshot of group g of the one with identity {ONE}: give the endpoints of that cluster, or another"
    )
    with pytest.raises(OtherClusterError, match=re.escape(wanted)):
        second._follower.check_allowed()
    second.close()
    third = application(transport, tmp_path / "third", lambda: GroupSnapshot(messages))
    assert third.origin is None, "one of an earlier release"
    third.close()


def test_settings_are_checked() -> None:
    def settings(**changed: object) -> ApplicationSettings:
        known: dict[str, object] = {"group": "g", "endpoints": ["h:9000"], "folder": "f"}
        return ApplicationSettings(**{**known, **changed})  # type: ignore[arg-type]

    assert archive_endpoint("h:9000") == "h:9004"
    wrong: tuple[dict[str, object], ...] = (
        {"group": ""},
        {"group": "x" * 65},
        {"endpoints": []},
        {"checkpoint_interval_s": 0},
    )
    for changed in wrong:
        with pytest.raises(ConfigurationError):
            settings(**changed)
    with pytest.raises(ConfigurationError, match="must be host:port"):
        archive_endpoint("9000")
