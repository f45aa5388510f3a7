"""When the garbage collector looks, in processes that are Ordo's own; each case in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from ordo.deploy.launcher import ROOT

ORDERS = """
import gc, json
from ordo.runtime.garbage import settle_collector
if {settled}:
    settle_collector()
before = [generation["collections"] for generation in gc.get_stats()]
book = {{number: [number] for number in range(50_000)}}
after = [generation["collections"] for generation in gc.get_stats()]
print(json.dumps([new - old for old, new in zip(before, after)]))
"""

COPIES = """
import gc, json, os
from ordo.cluster.container.process_copy import ProcessCopier
from ordo.runtime.garbage import count_frozen_by_others, settle_collector
settle_collector()
frozen = [gc.get_freeze_count() > 1000, count_frozen_by_others()]
state = [[number] for number in range(20_000)]
if {freezes_itself}:
    gc.freeze()
for _ in range(2):
    copy = ProcessCopier().copy(lambda write: None)
    during = gc.get_freeze_count() > 20_000
    copy.close()
    frozen += [during, gc.get_freeze_count() > 20_000]
print(json.dumps(frozen))
"""


def run(program: str) -> Any:
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(ended.stdout)


def test_state_that_grows_is_collected_seldom() -> None:
    assert run(ORDERS.format(settled=False))[0] > 10, "every 700 objects, and every 2,000 from Python 3.13 on"
    assert run(ORDERS.format(settled=True)) == [0, 0, 0]


def test_the_state_of_a_copy_is_collected_again_afterwards() -> None:
    """The freeze for the copy would last for ever if that of the start passed for one of the service's own."""
    assert run(COPIES.format(freezes_itself=False)) == [True, 0, True, False, True, False]


def test_what_a_service_froze_stays_so() -> None:
    assert run(COPIES.format(freezes_itself=True)) == [True, 0, True, True, True, True]
