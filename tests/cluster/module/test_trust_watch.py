"""The operator hears of an election that cannot end because of what members lost (docs/ARCHITECTURE.md, Repair)."""

from typing import Any

import pytest

from ordo.cluster.module.members.trust_watch import PATIENCE_NS, TrustWatch
from ordo.consensus.state.states import ElectionState
from tests.cluster.module.member import Core


class Watched:
    def __init__(self) -> None:
        self.core = Core(state=ElectionState.CANVASS)
        self.errors: list[str] = []
        core: Any = self.core
        self.watch = TrustWatch(core, self.errors.append)

    def wait(self, times: int) -> list[str]:
        for count in range(times + 1):
            self.watch.work(1 + count * PATIENCE_NS)
        return self.errors


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        ({"unknown_terms": [1]}, "waits for members [1]"),
        ({"untrusted_members": [0, 2]}, "members [0, 2] of [0, 1, 2] lost"),
    ],
)
def test_a_line_for_each_time_that_patience_has_run_out(lost: dict[str, Any], words: str) -> None:
    watched = Watched()
    vars(watched.core).update(lost)
    assert watched.wait(0) == []
    assert len(watched.wait(2)) == 2
    assert all(words in line and "ordo cluster trust --help" in line for line in watched.errors)


def test_an_election_that_can_still_end_is_no_line() -> None:
    watched = Watched()
    watched.core.untrusted_members = [1]
    assert watched.wait(3) == []


def test_patience_begins_anew_with_each_election() -> None:
    watched = Watched()
    watched.core.unknown_terms = [1]
    watched.watch.work(1)
    watched.core.state = ElectionState.CLOSED
    watched.watch.work(PATIENCE_NS)
    watched.core.state = ElectionState.CANVASS
    watched.watch.work(PATIENCE_NS + 2)
    assert watched.errors == []
