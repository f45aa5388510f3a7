#!/usr/bin/env bash
# PySyncObj 0.3.17, Raft in Python: with `journalFile` each record is saved "as soon as received". `fullDumpFile`, "None - to
# disable store", is where the whole object goes when the log is compacted.
#
# The surprise: a journal alone is compacted all the same. Once it has more than 5,000 records, a member keeps the object as
# it is then in its memory, and takes from its journal what led there. So commands that every caller was told are executed,
# and that all three journals had, are in no file of any member any more. A member that is restarted begins with an empty
# object; it is not given that of the others, which have it, and is not ready. After a restart of all, as a power failure
# brings it, the object is empty on each of them. Up to 5,000 commands all of them come back, so a short test passes.
#
# Seen with: pysyncobj 0.3.17, CPython 3.11, Linux x86-64; three members on loopback, deposits of 1, all called back without
# an error, then members ended in order and started anew, and looked at 10 s after that:
#   files                           deposits   restarted   balances of these   ready
#   journalFile                     4,000      all         4,000               yes
#   journalFile                     7,000      all         0                   no
#   journalFile                     7,000      one         0                   no
#   journalFile and fullDumpFile    7,000      all         7,000               yes
#
# What follows: give it both files, and restart members in a test that is longer than the limits of compaction. Ordo lets go
# of its log only below a snapshot that is on the disks of a majority.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check pysyncobj==0.3.17

cat >"$folder/seen.py" <<'PYTHON'
import socket
import sys
import tempfile
import time
from pathlib import Path

from pysyncobj import SyncObj, SyncObjConf, replicated

LIMIT_S = 120.0
WINDOW = 200


class Account(SyncObj):
    def __init__(self, own, others, settings):
        super().__init__(own, others, settings)
        self.balance = 0

    @replicated
    def deposit(self, amount):
        self.balance += amount
        return self.balance


def free_addresses(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return found


def started(name, names, folder, has_dump):
    file = str(folder / name.replace(":", "-"))
    settings = SyncObjConf(journalFile=f"{file}.journal", fullDumpFile=f"{file}.dump" if has_dump else None)
    return Account(name, [one for one in names if one != name], settings)


def await_that(state):
    end_s = time.monotonic() + LIMIT_S
    while not state():
        if time.monotonic() > end_s:
            sys.exit("not seen in time")
        time.sleep(0.01)


def ended(accounts):
    for one in accounts:
        one.destroy()
    time.sleep(1)


def after_restart(deposits, has_dump, count):
    """Return the balances of members that were restarted, and whether they are ready."""
    folder = Path(tempfile.mkdtemp(dir=sys.argv[1]))
    names = free_addresses(3)
    accounts = [started(one, names, folder, has_dump) for one in names]
    await_that(lambda: all(one.isReady() for one in accounts))
    leader = next(one for one in accounts if one._isLeader())
    told = []
    for number in range(deposits):
        leader.deposit(1, callback=lambda balance, error: told.append((balance, error)))
        await_that(lambda: number - len(told) < WINDOW)
    await_that(lambda: len(told) == deposits and all(one.balance == deposits for one in accounts))
    assert told[-1] == (deposits, 0) and not any(error for _, error in told)
    ended(accounts[:count])
    accounts[:count] = [started(name, names, folder, has_dump) for name in names[:count]]
    time.sleep(10)
    found = [one.balance for one in accounts[:count]], [one.isReady() for one in accounts[:count]]
    ended(accounts)
    return found


for files, deposits, has_dump, count, balance in (
    ("journalFile", 4000, False, 3, 4000),
    ("journalFile", 7000, False, 3, 0),
    ("journalFile", 7000, False, 1, 0),
    ("journalFile and fullDumpFile", 7000, True, 3, 7000),
):
    balances, ready = after_restart(deposits, has_dump, count)
    print(f"{files}: {deposits} deposits, {count} of 3 restarted; balances of these {balances}, ready {ready}")
    assert balances == [balance] * count and ready == [balance > 0] * count
PYTHON
"$folder/venv/bin/python" "$folder/seen.py" "$folder"
echo "as seen before: with a journal alone, what was compacted is gone after a restart"
