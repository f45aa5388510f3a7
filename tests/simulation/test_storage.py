"""The simulated disk: what a power loss takes, what it must leave, and the calls that fail."""

from __future__ import annotations

from random import Random

import pytest

from ordo.runtime.errors import StorageError, StorageInUseError
from ordo.runtime.io.storage import SegmentFile
from ordo.runtime.native.clock import VirtualClock
from tests.simulation.storage import PowerLoss, SimulatedDisk, SimulatedStorage

PAGE = 4096
DELAY_NS = 1_000_000
PATH = "/disk/file"


class Machine:
    """A disk and the storage of the process that runs now."""

    def __init__(self, seed: int = 1) -> None:
        self.clock = VirtualClock()
        self.disk = SimulatedDisk(Random(seed))
        self.disk.sync_delay_ns_min = self.disk.sync_delay_ns_max = DELAY_NS
        self.storage = SimulatedStorage(self.disk, self.clock)

    def create(self, length_bytes: int = 4 * PAGE) -> SegmentFile:
        file = self.storage.open_segment(PATH, length_bytes, create=True)
        self.storage.sync_directory("/disk")
        return file

    def contents(self) -> bytes:
        return bytes(self.disk.files[PATH].contents())


@pytest.mark.parametrize("seed", range(20))
def test_power_loss_takes_nothing_that_was_synced(seed: int) -> None:
    machine = Machine(seed)
    file = machine.create()
    file.write_bytes(b"a" * PAGE, 0)
    file.sync_now()
    file.write_bytes(b"b" * PAGE, PAGE)
    machine.disk.crash()
    assert machine.contents()[:PAGE] == b"a" * PAGE


def test_power_loss_tears_a_long_write_page_by_page() -> None:
    """Over many seeds: kept whole, lost whole, and torn in the middle."""
    outcomes = set()
    for seed in range(40):
        machine = Machine(seed)
        file = machine.create()
        file.write_bytes(b"x" * 3 * PAGE, 0)
        machine.disk.crash()
        content = machine.contents()
        outcomes.add(tuple(content[page * PAGE] == ord("x") for page in range(3)))
    assert {(True, True, True), (False, False, False), (True, False, True)} <= outcomes


def test_a_kill_takes_nothing() -> None:
    machine = Machine()
    file = machine.create()
    file.write_bytes(b"x" * 100, 0)
    machine.disk.kill()
    assert machine.contents()[:100] == b"x" * 100


def test_a_file_whose_name_was_not_synced_may_be_gone() -> None:
    found = set()
    for seed in range(20):
        machine = Machine(seed)
        machine.storage.open_segment(PATH, PAGE, create=True)
        machine.disk.crash()
        found.add(machine.storage.exists(PATH))
    assert found == {True, False}


def test_a_removed_file_may_come_back_until_its_folder_is_synced() -> None:
    found = set()
    for seed in range(20):
        machine = Machine(seed)
        machine.create()
        machine.storage.remove(PATH)
        machine.disk.crash()
        found.add(machine.storage.exists(PATH))
    assert found == {True, False}
    machine = Machine()
    machine.create()
    machine.storage.remove(PATH)
    machine.storage.sync_directory("/disk")
    machine.disk.crash()
    assert not machine.storage.exists(PATH)


def test_a_queued_sync_covers_what_was_written_before_it_was_asked_for() -> None:
    machine = Machine()
    file = machine.create()
    queue = machine.storage.sync_queue()
    file.write_bytes(b"a" * 100, 0)
    ticket = queue.request_sync(file)
    file.write_bytes(b"b" * 100, PAGE)
    machine.clock.advance(DELAY_NS - 1)
    assert queue.last_completed < ticket
    machine.clock.advance(1)
    assert queue.last_completed == ticket
    assert machine.disk.volatile_from("/disk/") == [(PATH, PAGE)]


def test_a_sync_at_once_does_not_make_later_writes_durable_with_an_earlier_request() -> None:
    machine = Machine()
    file = machine.create()
    queue = machine.storage.sync_queue()
    file.write_bytes(b"a" * 100, 0)
    queue.request_sync(file)
    file.sync_now()
    file.write_bytes(b"b" * 100, PAGE)
    machine.clock.advance(DELAY_NS)
    assert queue.last_completed == 1
    assert machine.disk.volatile_from("/disk/") == [(PATH, PAGE)]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_nth_write_fails_and_every_one_after_it(count: int) -> None:
    machine = Machine()
    file = machine.create()
    machine.disk.writes_until_failure = count
    for _ in range(count - 1):
        file.write_bytes(b"x", 0)
    for _ in range(2):
        with pytest.raises(StorageError):
            file.write_bytes(b"x", 0)
    machine.disk.heal()
    file.write_bytes(b"x", 0)


def test_a_failed_sync_sticks_to_its_queue() -> None:
    machine = Machine()
    file = machine.create()
    queue = machine.storage.sync_queue()
    machine.disk.syncs_until_failure = 1
    ticket = queue.request_sync(file)
    machine.clock.advance(DELAY_NS)
    assert queue.last_completed < ticket
    machine.disk.heal()
    machine.clock.advance(DELAY_NS)
    assert queue.last_completed < ticket
    assert queue.sticky_error < 0


def test_a_full_disk_takes_no_more() -> None:
    machine = Machine()
    file = machine.create()
    machine.disk.free_bytes = 10
    file.write_bytes(b"x" * 10, 0)
    file.write_bytes(b"y", 0)
    with pytest.raises(StorageError):
        file.write_bytes(b"x", 10)


@pytest.mark.parametrize("follows", [False, True], ids=["before", "after"])
def test_power_loss_inside_a_transaction(follows: bool) -> None:
    """Before its commit nothing of it is there, after it all."""
    machine = Machine()
    store = machine.storage.open_metadata("/disk/state.mdb")
    machine.disk.transactions_until_loss, machine.disk.loss_follows_commit = 0, follows
    with pytest.raises(PowerLoss), store.transaction() as txn:
        txn.put(b"a", b"1")
        txn.put(b"b", b"2")
    machine.disk.crash()
    store = machine.storage.open_metadata("/disk/state.mdb")
    assert (store.get(b"a"), store.get(b"b")) == ((b"1", b"2") if follows else (None, None))
    with store.transaction() as txn:
        txn.put(b"a", b"3")
    assert store.get(b"a") == b"3"


def test_a_flipped_bit_stays() -> None:
    machine = Machine()
    machine.create()
    machine.disk.files[PATH].flip_bit(7, 3)
    assert machine.contents()[7] == 8
    assert not machine.disk.files[PATH].is_zero(7)


def test_a_locked_folder_is_refused_until_its_process_is_gone() -> None:
    machine = Machine()
    machine.storage.lock_directory("/disk")
    with pytest.raises(StorageInUseError):
        machine.storage.lock_directory("/disk")
    machine.disk.kill()
    machine.storage.lock_directory("/disk").close()


def test_an_empty_disk_has_nothing() -> None:
    machine = Machine()
    machine.create()
    machine.disk.wipe()
    assert machine.storage.list_files("/disk") == []
