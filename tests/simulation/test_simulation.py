"""Whole clusters under faults, seed by seed; `make sim SEEDS=1000` runs more of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from ordo.cluster.wire.levels import FEW_MEMBERS_MAX
from ordo.consensus.state.configuration import Configuration, ConfigurationTable
from ordo.runtime.random import RandomSource
from tests.simulation import run
from tests.simulation.__main__ import main
from tests.simulation.options import Options, draw
from tests.simulation.run import run_seed
from tests.simulation.world import World
from tests.thorough import few_of

ROOT = Path(__file__).resolve().parents[2]
CHUNK = 3
CHUNKS = 4
"""12 seeds, of which each run has one chunk; small ones, so that they spread evenly over the processes of pytest. CI
simulates 100 others beside what waits, and `make nightly` many more."""
KINDS = {
    *("kill", "close", "transfer asked for", "stop with a transfer", "pause", "pause beyond every timeout"),
    *("power lost by one", "power lost by all", "power lost in a transaction"),
    *("clock steps back", "clock steps far back", "clock steps forward", "clock steps far forward"),
    *("partition", "one way blocked", "slow link", "client crash", "client pause", "snapshot"),
    *("bridge", "one-way links", "stranded leader", "echo", "leader falls"),
    *("suspend", "resume", "shutdown", "abort", "client leaves", "client is quiet"),
    *("copy writes a snapshot", "copy dies", "copy hangs"),
    *("disk filled", "no room for messages", "started again with room"),
    *("upgrade of one service asked for", "code missing", "a log's file is late"),
    *("disk writes", "disk syncs", "disk reads", "disk metadata", "disk space", "disk slow", "bit rotten"),
    *(f"datagrams {name}" for name in ("lost", "duplicated", "corrupted", "truncated", "reordered", "blocked")),
}
"""Faults that must occur; `damage.py` has more kinds of lost data."""
KINDS_FIRST = (61, 73, 11, 6, 43, 51, 50, 25, 16, 48, 46, 53, 31)
"""Seeds that have every kind among them; where drawing has changed since, as many others are tried as it takes."""
KINDS_SEEDS = 160
PINNED: dict[int, str] = {
    500040: "a client started again took answers to the one before for its own: correlation ids began anew",
    2: "a member whose catch-up replay had ended, or had passed it by, got no second one and waited for ever",
    16: "a leader died of a replay to a member whose endpoint another of its replays still used",
    19: "a leader whose followers joined behind its replay never committed the first record of its term",
    5008: "a member whose disk had failed a sync joined the log and lost it for ever, instead of ending",
    32242: "with the record of a demotion lost at the leader that wrote it, nobody could be elected",
    32431: "the same with a removal",
    74807: "a log whose end could not be put into the catalog counted as recorded: no leading, no cutting",
    91064: "a round of reads that was under way when members were removed waited for them for ever",
    84: "a member that asked again for a replay from its own end was taken for one that has it already",
    750: "a client whose session was opened by a later leader than it had asked sent to the one before for ever",
    7611: "a leader gave a session an id that its log had already, of a record that it had not executed yet",
    410372: "a member whose leader went while its service ended did not end, and stood still for ever",
    3029: "a member that started again deleted log which another one had just said that it lacked",
}
"""Seeds that found a bug in the product, and what it was."""
QUIET = Options()
FOUND_WITH_ORDERS = {750, 7611, 410372, 3029}
"""Clusters are suspended and shut down, clients leave and are quiet; the others were found before there was that."""
FOUND_WITH_RETENTION = {3029}
"""Snapshots are taken by themselves, and log is deleted; the others were found before there was that."""

S = 1_000_000_000


@pytest.mark.parametrize("chunk", few_of(range(CHUNKS), [1]))
def test_seeds(chunk: int) -> None:
    for seed in range(1 + chunk * CHUNK, 1 + (chunk + 1) * CHUNK):
        outcome = run_seed(seed)
        assert outcome.violation is None, f"python -m tests.simulation --seeds 1 --first {seed}: {outcome.violation}"


@pytest.mark.parametrize("seed", PINNED, ids=PINNED.values())
def test_pinned_seed(seed: int) -> None:
    options = draw(RandomSource(seed).stream("options"), with_links=False)
    if seed not in FOUND_WITH_ORDERS:
        options.orders_mean_ns, options.sessions_max = QUIET.orders_mean_ns, QUIET.sessions_max
        options.leave_chance, options.quiet_chance = QUIET.leave_chance, QUIET.quiet_chance
    if seed not in FOUND_WITH_RETENTION:
        options.snapshot_every_bytes, options.retention_bytes = QUIET.snapshot_every_bytes, QUIET.retention_bytes
    outcome = run_seed(seed, options)
    assert outcome.violation is None, f"{PINNED[seed]}? {outcome.violation}"


FOUND_AS_DRAWN: dict[int, str] = {
    708: "a sole voter left out a record that a learner had executed, which said so and was removed: its own error",
    851: "with the third member deaf, one whose state was in doubt kept back the vote that was needed",
    1180: "the same, with the third member down",
    561: "a leader that began with a snapshot and no log behind it went by its wall clock, which was behind",
    1221: "a member that was removed, and added again behind the end of another's log, led, and the other looked on",
    1437: "the same, with two that looked on",
    315: "a reader ended, in place of going on elsewhere, when its archive went while the session was confirmed",
    1241: "the same a moment later, of a consumer",
    332: "copies of services went on dying after all faults had ended",
    540: "a member kept a rotten stretch of log that all others had let go of, as it took no more snapshots",
    801026: "the terms of a log that was lost, and came again up to behind a snapshot, were not stored before a crash",
    500230: "a member that caught up filled its disk between two looks at it",
    288: "a leader stood still at an error of its own for ever, since the member that could confirm it was dead",
    11001611: "copies died that wrote what a member with another state needed, and nobody ordered another snapshot",
    13000126: "a member that caught up took snapshots faster than their recordings ended, and died of 64 active ones",
    14001190: "one of four was mute and one lacked code: two are no quorum that leaves a record out",
    15007952: "the end was looked at once, while consumers wrote, and found a member two records behind",
    1051: "a member whose log was whole again was refused by one that had not heard that it was damaged",
    12016: "a client was told for certain that a message is not in the log, which was executed: a leader that had not "
    "opened its session heard it from the middle on",
    672: "a kill between a member's new trust and its commit note left it whole with too low a note",
    9347: "with an older copy of its archive a member's store named snapshots whose recordings were given to others",
    9418: "a member that had lost its store could not follow a log that was renewed meanwhile",
    12000457: "a vote was not known of that was sent in a duty cycle which power ended in the middle",
}
"""The same, with everything that is drawn today."""


@pytest.mark.soak  # each shows its bug as long as nothing is drawn otherwise; the pinned ones go on to
@pytest.mark.parametrize("seed", FOUND_AS_DRAWN, ids=FOUND_AS_DRAWN.values())
def test_pinned_seed_as_it_is_drawn(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.violation is None, f"{FOUND_AS_DRAWN[seed]}? {outcome.violation}"


@pytest.mark.thorough
@pytest.mark.timeout(400)  # where all are tried
def test_every_kind_of_fault_occurs() -> None:
    """The runs are cut short, for only what is drawn matters here."""
    met: Counter[str] = Counter()
    for seed in (*KINDS_FIRST, *range(1, KINDS_SEEDS + 1)):
        options = draw(RandomSource(seed).stream("options"))
        options.duration_ns = min(options.duration_ns, 2 * S)
        met.update(run_seed(seed, options).faults)
        if all(met[kind] for kind in KINDS):
            return
    raise AssertionError(f"never in {KINDS_SEEDS} seeds: {sorted(kind for kind in KINDS if not met[kind])}")


@pytest.mark.parametrize("seed", few_of([1, 2], [1]))
def test_members_that_come_back_behind_the_log_fetch_a_snapshot(seed: int) -> None:
    """Runs cut short have too little in their logs for that: this one has enough, and deletes it at once."""
    options = Options(
        duration_ns=6 * S,
        operation_mean_ns=4_000_000,
        padding_max=3000,
        snapshot_every_bytes=60 * 1024,
        snapshots_kept=1,
        retention_bytes=0,
        retention_patience_s=0,
        kill_mean_ns=2 * S,
        outage_mean_ns=S,
    )
    outcome = run_seed(seed, options)
    assert outcome.violation is None
    assert outcome.faults["log purged"] > 0
    assert outcome.faults["started again by itself"] > 0


def test_a_member_that_starts_again_does_so_where_nothing_else_happens() -> None:
    """Its process has ended, and nobody else runs: virtual time must not go on to the end at once."""
    world = World(1, Options(nodes=1, clients=0))
    world.nodes[0].starts_again = True
    assert world.run(10_000_000_000, lambda: world.nodes[0].is_alive)
    assert world.now_ns < 1_000_000_000
    world.forget()


def test_a_quiet_cluster_answers_everything() -> None:
    """Without faults one leader serves from beginning to end, and no request stays without an answer."""
    outcome = run_seed(7, Options(duration_ns=3 * S))
    assert outcome.violation is None
    assert outcome.terms == 1
    assert outcome.answered > 100


@pytest.mark.parametrize("nodes", range(1, 8))
def test_clusters_of_every_size(nodes: int) -> None:
    options = Options(nodes=nodes, duration_ns=2 * S, kill_mean_ns=1 * S, loss=0.05, snapshot_mean_ns=S // 2)
    outcome = run_seed(nodes, options)
    assert outcome.violation is None
    assert outcome.answered > 0


@pytest.mark.parametrize("seed", few_of([1, 2], [1]))
def test_more_than_seven_members_come_and_go(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    counts, append = [], ConfigurationTable.append

    def noted(self: ConfigurationTable, position: int, configuration: Configuration) -> None:
        counts.append(len(configuration.member_ids))
        append(self, position, configuration)

    monkeypatch.setattr(ConfigurationTable, "append", noted)
    options = Options(
        nodes=5,
        spares=8,
        duration_ns=4 * S,
        levels=True,
        membership_mean_ns=60 * S // 1000,
        kill_mean_ns=700 * S // 1000,
        heartbeat_timeout_ns=S // 5,
        heartbeat_interval_ns=S // 50,
    )
    outcome = run_seed(seed, options)
    assert outcome.violation is None and outcome.answered > 100
    assert max(counts) > FEW_MEMBERS_MAX


@pytest.mark.parametrize("seed", few_of(range(1, 5), [1]))
def test_a_minority_may_stay_faulty(seed: int) -> None:
    outcome = run_seed(seed, Options(nodes=5, clients=1, duration_ns=S // 2, faulty_minority=True))
    assert outcome.violation is None
    assert any(kind.startswith("stays ") for kind in outcome.faults)


@pytest.mark.parametrize("seed", few_of([3, 12, 20], [3]))
def test_one_seed_twice_is_one_trace(seed: int) -> None:
    first, second = run_seed(seed), run_seed(seed)
    assert first.digest == second.digest
    assert first.events == second.events


def test_processes_with_different_hash_seeds_agree() -> None:
    """Nothing may depend on the order of a set of strings, on addresses, or on what ran before."""
    script = "from tests.simulation.run import run_seed; print(run_seed(12).digest, run_seed(3).digest)"
    traces = set()
    for hash_seed in ("0", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
        )
        traces.add(done.stdout)
    assert len(traces) == 1, traces


def test_seeds_differ() -> None:
    options = Options(duration_ns=S)
    assert len({run_seed(seed, options).digest for seed in range(4)}) == 4


def test_a_failing_seed_prints_how_to_replay_it(capsys: pytest.CaptureFixture[str]) -> None:
    from tests.simulation import planted, plants

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(plants.BY_NAME, "commit_on_a_minority", lambda _: planted.commit_on_a_minority(patch.setattr))
        status = main(["--seeds", "5", "--first", "1", "--plant", "commit_on_a_minority"])
    output = capsys.readouterr().out
    assert status == 1
    assert "commit is on a quorum" in output
    assert "replay: python -m tests.simulation --seeds 1 --first 1 --plant commit_on_a_minority" in output


@pytest.mark.parametrize("seed", few_of([1, 2], [1]))
def test_clocks_that_drift_by_five_in_a_hundred_and_jump(seed: int) -> None:
    """Members that are replaced all the time count their timeouts with clocks that never agree."""
    options = Options(
        clock_rate_ppm_max=50_000,
        clock_mean_ns=500_000_000,
        transfer_mean_ns=500_000_000,
        kill_mean_ns=1_000_000_000,
        outage_mean_ns=250_000_000,
    )
    outcome = run_seed(seed, options)
    assert outcome.violation is None, outcome.violation
    assert outcome.terms > 1
    assert any(kind.startswith("clock steps") for kind in outcome.faults)


@pytest.mark.parametrize("time_unit", ["us", "ns"])
@pytest.mark.parametrize("seed", few_of([3, 6], [3]))
def test_clusters_whose_time_is_finer_than_milliseconds(seed: int, time_unit: str) -> None:
    options = replace(draw(RandomSource(seed).stream("options")), time_unit=time_unit)
    outcome = run_seed(seed, options)
    assert outcome.violation is None, outcome.violation
    assert outcome.executed > 0


@pytest.mark.parametrize("time_unit", ["us", "ns"])
@pytest.mark.parametrize("seed", few_of([1, 2, 4, 5, 9], [4]))
def test_logs_that_go_over_to_a_finer_unit_of_time(seed: int, time_unit: str) -> None:
    drawn = draw(RandomSource(seed).stream("options"))
    options = replace(drawn, levels=True, goes_over_to=time_unit, kill_mean_ns=1_000_000_000)
    outcome = run_seed(seed, options)
    assert outcome.violation is None, outcome.violation


def test_a_log_goes_over_once_and_timers_and_sessions_do_not_notice() -> None:
    options = Options(
        clients=3,
        levels=True,
        goes_over_to="us",
        snapshot_mean_ns=1_000_000_000,
        kill_mean_ns=1_000_000_000,
        transfer_mean_ns=1_000_000_000,
        outage_mean_ns=250_000_000,
        heartbeat_timeout_ns=200_000_000,
        heartbeat_interval_ns=20_000_000,
    )
    outcome = run_seed(1, options)
    assert outcome.violation is None, outcome.violation
    assert outcome.faults.get("time goes on in another unit") == 1


@pytest.mark.parametrize("time_unit", few_of(["us", "ns"], ["us"]))
def test_time_that_passes_within_a_duty_cycle_does_not_go_back_in_the_log(time_unit: str) -> None:
    """Timers are fired after a cycle has begun, and before it takes messages."""
    outcome = run_seed(7, Options(clients=3, operation_mean_ns=2_000_000, time_unit=time_unit, look_ns=20))
    assert outcome.violation is None, outcome.violation
    assert outcome.executed > 0


def test_histories_that_stay_undecided_fail_a_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "check_histories", lambda world: False)
    assert main(["--seeds", "1", "--first", "11"]) == 1
    assert "linearizability undecided: 1 of 1 seeds: [11]" in capsys.readouterr().out


def test_a_passing_run_tells_its_speed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "2", "--first", "11", "--progress-every", "1"]) == 0
    output = capsys.readouterr().out
    assert "2 seeds, 0 failed" in output
    assert "s of virtual time" in output
