"""Scenarios: text files of commands for a simulated cluster, each block with the trace that it must give.

    # comment
    cluster nodes=3 seed=1            options of tests.simulation.options.Options; times as 500ms, 2s
    run until steady
    name A leader
    kill A
    run until leader
    status
    ----
    A dead
    leader term=1

Blocks are separated by blank lines. Members are called by the names that a scenario gave them (`name A leader`,
`name B follower`), so that a trace does not depend on who wins an election; `name C 2` is for roles given by settings.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

from ordo.cluster.client.session_states import ClientState
from ordo.cluster.wire import codecs
from ordo.cluster.wire.counters.counter_types import ControlToggle, transfer_value
from ordo.consensus.state.states import ElectionState, Role
from ordo.runtime.settings.config import parse_size_bytes
from tests.simulation.history import Violation
from tests.simulation.nodes import SimulatedNode, node_name
from tests.simulation.operations import Kind, Request
from tests.simulation.options import Options
from tests.simulation.renewals import renew_all
from tests.simulation.run import check_histories
from tests.simulation.world import World

SEPARATOR = "----"
UNTIL_NS_MAX = 30_000_000_000
ASK_INTERVAL_NS = 1_000_000_000
ANSWER_NS_MAX = 5_000_000_000
UNITS = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


class Block(NamedTuple):
    """Commands, and what they are expected to print."""

    commands: list[str]
    expected: list[str]


def parse(text: str) -> list[Block]:
    """The blocks of a file."""
    blocks = []
    for part in text.strip().split("\n\n"):
        lines = [line.rstrip() for line in part.splitlines()]
        split = lines.index(SEPARATOR) if SEPARATOR in lines else len(lines)
        blocks.append(Block(lines[:split], lines[split + 1 :]))
    return blocks


def render(blocks: list[Block]) -> str:
    """The file again."""
    parts = []
    for block in blocks:
        lines = [*block.commands, *([SEPARATOR, *block.expected] if block.expected else [])]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def play(path: Path) -> list[Block]:
    """Runs a file; the blocks with what was really printed. Raises Violation where an invariant does not hold."""
    scenario = Scenario()
    try:
        played = [
            Block(block.commands, [line for command in block.commands for line in scenario.run(command)])
            for block in parse(path.read_text())
        ]
        scenario.finish()
    finally:
        scenario.close()
    return played


def duration_ns(text: str) -> int:
    """`20ms` in ns."""
    for unit, factor in UNITS.items():
        if text.endswith(unit) and text[: -len(unit)].replace(".", "").isdigit():
            return int(float(text[: -len(unit)]) * factor)
    raise ValueError(f"{text!r} is no duration: write 50us, 20ms or 1.5s")


class Scenario:
    """One world and the names it was given."""

    def __init__(self) -> None:
        self._world: World | None = None
        self._names: dict[str, int] = {}
        self._sessions: dict[int, int] = {}
        self._commands: dict[str, Callable[[list[str]], Iterator[str]]] = {
            name.removeprefix("do_"): getattr(self, name) for name in dir(self) if name.startswith("do_")
        }

    @property
    def world(self) -> World:
        assert self._world is not None, "a scenario begins with `cluster`"
        return self._world

    def run(self, line: str) -> list[str]:
        """One command; the lines it prints."""
        words = shlex.split(line, comments=True)
        if not words:
            return []
        if words[0] not in self._commands:
            raise ValueError(f"unknown command {words[0]!r}: known are {', '.join(sorted(self._commands))}")
        return list(self._commands[words[0]](words[1:]))

    def finish(self) -> None:
        """Everything that must hold at the end of any scenario."""
        self.world.check_all()
        if self.world.violation is not None:
            raise self.world.violation
        assert check_histories(self.world), "too many operations to decide whether they are linearizable"

    def close(self) -> None:
        if self._world is not None:
            self._world.forget()

    def _member(self, word: str) -> SimulatedNode:
        if word == "leader":
            leader = self.world.leader()
            assert leader is not None, "nobody leads"
            return leader
        if word == "other":
            named = set(self._names.values())
            return next(node for node in self.world.nodes if node.member_id not in named)
        if word == "follower":
            named = set(self._names.values())
            return next(
                node for node in self.world.nodes if node.is_alive and not node.serves and node.member_id not in named
            )
        return self.world.nodes[int(word) if word.isdigit() else self._names[word]]

    def _name(self, node: SimulatedNode) -> str:
        return next((name for name, member_id in self._names.items() if member_id == node.member_id), "other")

    def _is_served(self) -> bool:
        leader = self.world.leader()
        live = [node for node in self.world.nodes if node.is_alive]
        return leader is not None and all(
            node.module.core.state is ElectionState.CLOSED
            and node.module.core.leadership_term_id == leader.leads_term
            and node.executed_position == leader.executed_position
            for node in live
        )

    # -- commands --------------------------------------------------------------------------------------------------

    def do_cluster(self, words: list[str]) -> Iterator[str]:
        options = Options(clients=1)
        seed = 1
        known = {field.name for field in fields(Options)}
        for word in words:
            key, value = word.split("=")
            if key == "seed":
                seed = int(value)
            elif f"{key}_ns" in known:
                setattr(options, f"{key}_ns", duration_ns(value))
            elif key == "loss":
                options.loss = float(value)
            else:
                assert key in known, f"{key} is no option"
                setattr(options, key, type(getattr(options, key))(value))
        options.segment_length = max(options.segment_length, options.term_length)
        options.power_loss_mean_ns = 1 if options.sync == "commit" else 0
        self._world = World(seed, options)
        for client in self.world.clients:
            client.is_working = False
        self.world.start()
        yield from ()

    def do_name(self, words: list[str]) -> Iterator[str]:
        name, what = words
        self._names.pop(name, None)
        self._names[name] = self._member(what).member_id
        yield from ()

    def do_run(self, words: list[str]) -> Iterator[str]:
        """`run 300ms`, `run until steady|leader|no-leader|connected|served`, `run until A FOLLOWER_CATCHUP`.

        `served`: one leads, and all that live follow it and have executed the same.
        """
        if words[0] != "until":
            self.world.run(duration_ns(words[0]))
            return
        if len(words) == 3:
            node, state = self._member(words[1]), ElectionState[words[2]]
            if not self.world.run(UNTIL_NS_MAX, lambda: node.is_alive and node.module.core.state is state):
                yield f"{words[1]} is not in {words[2]} within {UNTIL_NS_MAX // UNITS['s']} s"
            return
        conditions: dict[str, Callable[[], object]] = {
            "steady": self.world.is_steady,
            "leader": lambda: self.world.leader() is not None,
            "no-leader": lambda: self.world.leader() is None,
            "served": self._is_served,
            "connected": lambda: all(
                client.session is not None and client.session.state is ClientState.CONNECTED
                for client in self.world.clients
            ),
        }
        condition = conditions[words[1]]
        if not self.world.run(UNTIL_NS_MAX, lambda: bool(condition())):
            yield f"not {words[1]} within {UNTIL_NS_MAX // UNITS['s']} s"

    def do_kill(self, words: list[str]) -> Iterator[str]:
        for word in words:
            self._member(word).kill()
        yield from ()

    def do_power(self, words: list[str]) -> Iterator[str]:
        """`power A B`: they lose it."""
        for node in [self._member(word) for word in words]:
            node.lose_power()
        yield from ()

    def do_close(self, words: list[str]) -> Iterator[str]:
        for word in words:
            self._member(word).close()
        yield from ()

    def do_boot(self, words: list[str]) -> Iterator[str]:
        """`boot A`, `boot all`."""
        nodes = self.world.nodes if words == ["all"] else [self._member(word) for word in words]
        for node in nodes:
            if not node.is_alive:
                node.boot()
        yield from ()

    def do_wipe(self, words: list[str]) -> Iterator[str]:
        for word in words:
            node = self._member(word)
            node.wipe()
            for invariant in self.world.invariants:
                invariant.on_wiped(node)
        yield from ()

    def do_renew(self, words: list[str]) -> Iterator[str]:
        """`renew 128k 1408`: the log of the stopped cluster begins anew with this term length and MTU; with names
        (`renew 128k 1408 A B`) that of these members, and the others are forgotten."""
        term_length_bytes, mtu_bytes = (parse_size_bytes(word) for word in words[:2])
        members = [self._member(word) for word in words[2:]]
        done = renew_all(self.world, term_length_bytes, mtu_bytes, members)
        yield "begins anew" if done else "stays as it is"

    def do_lengths(self, words: list[str]) -> Iterator[str]:
        """Term length, MTU and beginning of each member's log."""
        for node in self.world.nodes:
            assert node.node is not None, node.name
            log = node.node.archive.descriptor(node.module.log.recording_id)
            begin = "its beginning" if log.start_position == 0 else "a snapshot"
            yield f"{log.term_length >> 10}k {log.mtu} from {begin}"

    def do_pause(self, words: list[str]) -> Iterator[str]:
        """`pause A 2s`."""
        self._member(words[0]).pause(self.world.now_ns + duration_ns(words[1]))
        yield from ()

    def do_isolate(self, words: list[str]) -> Iterator[str]:
        """`isolate A B`: they hear each other, and nobody else hears them."""
        inside = [self._member(word).address for word in words]
        everybody = [actor.address for actor in self.world.participants]
        self.world.network.partition(inside, [address for address in everybody if address not in inside])
        yield from ()

    def do_cut(self, words: list[str]) -> Iterator[str]:
        """`cut A`: no other member hears it, and it hears none; clients do."""
        node = self._member(words[0])
        for other in self.world.nodes:
            if other is not node:
                self.world.network.block(node.address, other.address)
                self.world.network.block(other.address, node.address)
        yield from ()

    def do_block(self, words: list[str]) -> Iterator[str]:
        """`block A B`: what A sends does not reach B; the way back stays open."""
        self.world.network.block(self._member(words[0]).address, self._member(words[1]).address)
        yield from ()

    def do_scatter(self, words: list[str]) -> Iterator[str]:
        """No member hears another."""
        self.world.network.partition(*[[node.address] for node in self.world.nodes])
        yield from ()

    def do_heal(self, words: list[str]) -> Iterator[str]:
        self.world.network.heal()
        yield from ()

    def do_host(self, words: list[str]) -> Iterator[str]:
        """`host A unknown|pending|known`: what a name server says of the name of its host."""
        network, node = self.world.network, self._member(words[0])
        name = node_name(node.member_id)
        network.names.pop(name, None)
        network.pending_names.discard(name)
        if words[1] != "unknown":
            network.names[name] = node.address
        if words[1] == "pending":
            network.pending_names.add(name)
        yield from ()

    def do_disk(self, words: list[str]) -> Iterator[str]:
        """`disk A broken|full|mended`, `disk A slow 300ms`: writes fail, there is no room, syncs take so long."""
        node = self._member(words[0])
        node.has_disk_faults = words[1] in ("broken", "full")
        if words[1] == "broken":
            node.disk.writes_until_failure = 0
        elif words[1] == "full":
            node.disk.free_bytes = 0
        elif words[1] == "slow":
            node.disk.sync_delay_ns_min = node.disk.sync_delay_ns_max = duration_ns(words[2])
        else:
            node.disk.heal()
            node.disk.sync_delay_ns_min = self.world.options.sync_min_ns
            node.disk.sync_delay_ns_max = self.world.options.sync_max_ns
        yield from ()

    def do_slow(self, words: list[str]) -> Iterator[str]:
        """`slow A 50ms`: everything from and to it takes so much longer."""
        node = self._member(words[0])
        for actor in self.world.participants:
            if actor.address != node.address:
                self.world.network.slow_down(actor.address, node.address, duration_ns(words[1]))
                self.world.network.slow_down(node.address, actor.address, duration_ns(words[1]))
        yield from ()

    def do_snapshot(self, words: list[str]) -> Iterator[str]:
        yield "asked for a snapshot" if self._member("leader").ask(ControlToggle.SNAPSHOT) else "refused"

    def do_suspend(self, words: list[str]) -> Iterator[str]:
        yield "asked to suspend" if self._member("leader").ask(ControlToggle.SUSPEND) else "refused"

    def do_resume(self, words: list[str]) -> Iterator[str]:
        yield "asked to resume" if self._member("leader").ask_to_resume() else "refused"

    def do_end(self, words: list[str]) -> Iterator[str]:
        """`end shutdown|abort`: the whole cluster ends by order of an operator, with a snapshot or without."""
        if not self._member("leader").ask(ControlToggle[words[0].upper()]):
            yield "refused"

        def all_ended() -> bool:
            for node in self.world.nodes:
                if node.node is not None and node.node.has_ended:
                    node.close()
                node.was_removed = False  # the scenario boots it, not the world
            return not any(node.is_alive for node in self.world.nodes)

        yield "all have ended" if self.world.run(UNTIL_NS_MAX, all_ended) else "some go on"

    def do_transfer(self, words: list[str]) -> Iterator[str]:
        """`transfer B`: an operator has the leadership handed to it."""
        asked = self._member("leader").ask(transfer_value(self._member(words[0]).member_id))
        yield "asked for a transfer" if asked else "refused"

    def do_write(self, words: list[str]) -> Iterator[str]:
        """`write 10 [bytes]`: each answered before the next, and asked again every second; how many within 5 s each."""
        padding = int(words[1]) if len(words) > 1 else 0
        answered = sum(self._ask(Kind.WRITE, padding) for _ in range(int(words[0])))
        yield f"answered {answered} of {words[0]}"

    def do_burst(self, words: list[str]) -> Iterator[str]:
        """`burst 10 [bytes]`: all at once, and nobody waits."""
        padding = int(words[1]) if len(words) > 1 else 0
        taken = sum(self._offer(Kind.WRITE, padding) for _ in range(int(words[0])))
        yield f"taken {taken} of {words[0]}"

    def do_query(self, words: list[str]) -> Iterator[str]:
        """`query A [stale]`: the client asks a member. Tells whether it answers in 2 s, and shows all that was seen."""
        node, world = self._member(words[0]), self.world
        consistency = words[1] if len(words) > 1 else "linearizable"
        query = world.clients[0].asking.ask(0, node.member_id, consistency)
        assert query is not None, "the client has no session"
        world.run(ANSWER_NS_MAX, lambda: query.is_done)
        if query.reply is None:
            yield f"{words[0]} does not answer"
        else:
            is_newest = query.reply.log_position >= world.clients_history.seen_position
            yield f"{words[0]} answers {'for all' if is_newest else 'for less than'} that a client has seen"

    def do_knock(self, words: list[str]) -> Iterator[str]:
        """`knock slow.test 30`: the client asks so often for sessions answered at a host whose name takes its time."""
        host, count = words[0], int(words[1])
        self.world.network.pending_names.add(host)
        session = self.world.clients[0].session
        assert session is not None
        publication = session._current.publications.get(session.leader_member_id)
        assert publication is not None
        taken = 0
        for number in range(count):
            request = codecs.SESSION_CONNECT_REQUEST.encode(
                correlation_id=1_000_000 + number,
                response_stream_id=102,
                version=codecs.CLIENT_PROTOCOL_VERSION,
                response_channel=f"aeron:udp?endpoint={host}:{9000 + number}",
                encoded_credentials=b"",
                client_info="",
            )
            taken += publication.offer(request) > 0
        yield f"asked {taken} times"

    def do_timer(self, words: list[str]) -> Iterator[str]:
        """`timer 500ms`: asks the service for one."""
        client = self.world.clients[0]
        identity, delay_ms = client.number + 1, duration_ns(words[0]) // UNITS["ms"]
        taken = client.offer(Request(client.client_id, client.number + 1, Kind.TIMER, identity, delay_ms))
        yield "timer asked for" if taken else "not taken"

    def _offer(self, kind: Kind, padding: int) -> bool:
        client = self.world.clients[0]
        if client.session is None or client.session.state is not ClientState.CONNECTED:
            return False
        return client.offer(Request(client.client_id, client.number + 1, kind, 0, client.number + 1), padding)

    def _ask(self, kind: Kind, padding: int) -> bool:
        client, first, asked_ns = self.world.clients[0], self.world.clients[0].number + 1, -ASK_INTERVAL_NS

        def is_answered() -> bool:
            nonlocal asked_ns
            if self.world.now_ns - asked_ns >= ASK_INTERVAL_NS and self._offer(kind, padding):
                asked_ns = self.world.now_ns
            return client.answered_last >= first

        return self.world.run(ANSWER_NS_MAX, is_answered)

    def do_status(self, words: list[str]) -> Iterator[str]:
        """Named members, whoever leads, and whether all that live have executed the same."""
        world = self.world
        for name in sorted(self._names):
            node = world.nodes[self._names[name]]
            if not node.is_alive:
                yield f"{name} {'waits for room' if node.waits_for_room else 'dead'}"
            else:
                yield f"{name} {_role(node)}{', suspended' if node.is_suspended else ''}"
        leader = world.leader()
        yield "no leader" if leader is None else f"leader {self._name(leader)} term={leader.leads_term}"
        executed = {node.executed_position for node in world.nodes if node.is_alive}
        yield "all have executed the same" if len(executed) < 2 else "some are behind"

    def do_timers(self, words: list[str]) -> Iterator[str]:
        """What the services still wait for."""
        yield "work left" if self.world.pending_work() else "no timer or message is left"

    def do_snapshots(self, words: list[str]) -> Iterator[str]:
        """How many valid snapshots each live member has stored."""
        counts = sorted({int(node.module.counters.snapshot_count.value) for node in self.world.nodes if node.is_alive})
        yield f"snapshots of this life: {counts}"

    def do_silence(self, words: list[str]) -> Iterator[str]:
        """`silence 3s`: the client stands still, and the world goes on for as long."""
        self.world.clients[0].pause(self.world.now_ns + duration_ns(words[0]))
        self.world.run(duration_ns(words[0]))
        yield from ()

    def do_client(self, words: list[str]) -> Iterator[str]:
        """The state of the client's session; sessions are numbered as they are first seen."""
        session = self.world.clients[0].session
        if session is None:
            yield "client has no session"
        else:
            number = self._sessions.setdefault(session.session_id, len(self._sessions) + 1)
            yield f"client {session.state.name} session={number}"

    def do_starts(self, words: list[str]) -> Iterator[str]:
        """`starts A`: where the last life of a member began to execute."""
        is_snapshot = self._member(words[0]).started_position > 0
        yield f"{words[0]} started from {'a snapshot' if is_snapshot else 'the beginning of the log'}"


def _role(node: SimulatedNode) -> str:
    core = node.module.core
    if node.serves:
        return "leads"
    follows = core.role is Role.FOLLOWER and core.leader_member_id >= 0
    return "follows" if follows else "looks for a leader"


__all__ = ["Block", "Violation", "parse", "play", "render"]
