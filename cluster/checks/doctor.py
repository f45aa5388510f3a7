"""`ordo doctor`: whether this machine gives a node what its configuration asks for, and what to change."""

from __future__ import annotations

import os
import resource
import socket
import statistics
import tempfile
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from ordo.cluster.checks.reach import SMALL_BYTES, Doctors, MemberPath, running_nodes
from ordo.cluster.checks.requirements import clients_that_fit, files_wanted, memory_needed_bytes, memory_used_bytes
from ordo.cluster.monitoring.counters import is_alive
from ordo.cluster.monitoring.observation import free_bytes
from ordo.cluster.settings.config import NodeSettings
from ordo.cluster.wire.members import ENDPOINT_NAMES, Member
from ordo.runtime.errors import ConfigurationError, TransportError
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.kernel_clock import read_clock_quality
from ordo.runtime.open_files import file_count
from ordo.transport.resolver import resolve
from ordo.transport.secure.settings import Encryption

MEBIBYTE = 1024 * 1024
SYNC_COUNT = 20
SYNC_SLOW_MS = 10.0
ALIVE_MS = 2_000
CLOCKS_APART_MS = 100
"""More than clocks that are kept in step over a network differ by."""
PROC_NET = Path("/proc/sys/net/core")


class Verdict(StrEnum):
    """FAIL: a node will not start or not work. WARN: it works, and not as well as it could."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(NamedTuple):
    """What one check found; `remedy` is empty when all is well."""

    subject: str
    verdict: Verdict
    text: str
    remedy: str = ""


def examine(config: NodeSettings, reach_s: float = 0.0) -> list[Finding]:
    """Run all checks. This writes a small file into data_dir, or into its first existing parent, and removes it again.

    `reach_s` are the seconds in which the other members' doctors are waited for, to try every port both ways; with 0
    only nodes that run are tried.
    """
    checks: tuple[Callable[[NodeSettings], Iterator[Finding]], ...] = (
        _shared_memory,
        _disk,
        _socket_buffers,
        _open_files,
        _names,
        _ports,
        _clock,
        _snapshots,
    )
    findings = [finding for check in checks for finding in check(config)]
    return [*findings, *_members(config, reach_s)]


def _shared_memory(config: NodeSettings) -> Iterator[Finding]:
    needed = memory_used_bytes(config)
    free = free_bytes(config.aeron_dir)
    text = f"{_mib(free)} free for {config.aeron_dir}, up to {_mib(needed)} are used"
    if _is_running(config) or free >= needed:
        yield Finding("shared memory", Verdict.OK, text)
    elif free < memory_needed_bytes(config.cluster.log_term_length_bytes):
        yield Finding("shared memory", Verdict.FAIL, text, "enlarge /dev/shm (shm_size), or lower log_term_length")
    else:
        remedy = "enlarge /dev/shm, or lower log_term_length, max_replays or max_subscribers"
        yield Finding("shared memory", Verdict.WARN, text, remedy)


def _disk(config: NodeSettings) -> Iterator[Finding]:
    folder, mark = config.node.data_dir, config.metrics.disk_free_bytes_min
    free = free_bytes(folder)
    verdict = Verdict.OK if free >= mark else Verdict.WARN
    remedy = "" if free >= mark else "enlarge the disk, or set [retention]"
    yield Finding("disk", verdict, f"{_mib(free)} free for {folder}, disk_free_min is {_mib(mark)}", remedy)
    while not folder.exists():
        folder = folder.parent
    try:
        took_ms = _sync_ms(folder)
    except OSError as error:
        yield Finding("disk", Verdict.FAIL, f"{folder}: cannot write: {error.strerror}", "give the node's user rights")
        return
    text = f"a sync takes {took_ms:.2f} ms (median of {SYNC_COUNT}); each message waits for one with sync = commit"
    is_slow = took_ms > SYNC_SLOW_MS and config.node.sync == "commit"
    remedy = "take a disk with a protected write cache, such as a data-centre SSD" if is_slow else ""
    yield Finding("disk", Verdict.WARN if is_slow else Verdict.OK, text, remedy)


def _sync_ms(folder: Path) -> float:
    clock = SystemClock()
    took_ns = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(SYNC_COUNT):
            os.write(file.fileno(), bytes(4096))
            begin_ns = clock.now()
            os.fdatasync(file.fileno())
            took_ns.append(clock.now() - begin_ns)
    return statistics.median(took_ns) / 1e6


def _socket_buffers(config: NodeSettings) -> Iterator[Finding]:
    wanted = config.cluster.socket_buffer_bytes
    for name in ("rmem_max", "wmem_max"):
        path = PROC_NET / name
        if not path.exists():
            continue  # in a network namespace of a container the machine's own holds
        given = int(path.read_text())
        text = f"net.core.{name} = {given}, socket_buffer = {wanted}"
        remedy = "" if given >= wanted else f"sysctl -w net.core.{name}={wanted}, or lower socket_buffer"
        yield Finding("socket buffers", Verdict.OK if given >= wanted else Verdict.WARN, text, remedy)


def _open_files(config: NodeSettings) -> Iterator[Finding]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # a node raises its own to the hard one
    limit = file_count(hard)
    try:
        found = clients_that_fit(config, limit)
    except ConfigurationError as error:
        yield Finding("open files", Verdict.FAIL, error.message, "LimitNOFILE in a unit, ulimit -n")
        return
    wanted = config.cluster.sessions_max, config.node.subscribers_max
    remedy = "" if found == wanted else f"raise it to {files_wanted(config)} (LimitNOFILE in a unit, ulimit -n)"
    text = (
        f"the limit is {limit}, enough for {found.sessions} of max_sessions = {wanted[0]} and {found.subscribers} of "
        f"max_subscribers = {wanted[1]}"
    )
    yield Finding("open files", Verdict.WARN if remedy else Verdict.OK, text, remedy)


def _names(config: NodeSettings) -> Iterator[Finding]:
    for member in config.member_list:
        hosts = {str(getattr(member, name)).rpartition(":")[0].strip("[]") for name in ENDPOINT_NAMES}
        for host in sorted(hosts):
            try:
                address = resolve(host)
            except TransportError as error:
                remedy = "enter it into DNS or /etc/hosts, or name the address in [[members]]"
                yield Finding("names", Verdict.FAIL, f"member {member.id}: {error.message}", remedy)
            else:
                yield Finding("names", Verdict.OK, f"member {member.id}: {host} is {address}")


def _ports(config: NodeSettings) -> Iterator[Finding]:
    if _is_running(config):
        yield Finding("ports", Verdict.OK, f"member {config.node.member_id} runs and holds them")
        return
    for name in ENDPOINT_NAMES:
        endpoint = str(getattr(config.bound_member, name))
        host, _, port = endpoint.rpartition(":")
        try:
            ((family, kind, _, _, address), *_) = socket.getaddrinfo(
                host.strip("[]"), int(port), type=socket.SOCK_DGRAM
            )
            with socket.socket(family, kind) as probe:
                probe.bind(address)
        except OSError as error:
            text = f"{name} {endpoint}: {error.strerror or error}"
            yield Finding(
                "ports", Verdict.FAIL, text, "end what uses it, or name an address of this machine ([node] bind)"
            )
        else:
            yield Finding("ports", Verdict.OK, f"{name} {endpoint} is free")


def _snapshots(config: NodeSettings) -> Iterator[Finding]:
    """Say what has to be so where standbys take the snapshots, which nobody can see from here."""
    settings = config.snapshot
    if settings.by == "standby":
        text = (
            f"the standbys at {', '.join(settings.standbys)} take them: every service has to implement state_hash, by "
            "which alone copies are compared; without it members take their own"
        )
        yield Finding("snapshots", Verdict.OK, text)


def _clock(config: NodeSettings) -> Iterator[Finding]:
    """Check the kernel's word on whether something (chrony, NTP, PTP) keeps its clock, and how well."""
    told, limit_ns = read_clock_quality(), config.metrics.clock_error_ns_max
    if told is None:
        text = "the kernel does not say whether it is synchronized: this container or system forbids adjtimex(2)"
        yield Finding("clock", Verdict.WARN, text, "ask on the machine below: `chronyc tracking` or `timedatectl`")
        return
    if not told.is_synchronized:
        text = "the kernel does not say that it is synchronized; timestamps of the log are the leader's clock"
        yield Finding("clock", Verdict.WARN, text, "run chrony or systemd-timesyncd, here or on the machine below")
        return
    text = (
        f"the kernel says that it is synchronized: off by at most {_ms(told.error_bound_ns)}, estimated "
        f"{_ms(told.error_estimate_ns)}, {_ms(told.offset_ns)} still to correct; clock_error_max is {_ms(limit_ns)}"
    )
    is_near = told.error_bound_ns <= limit_ns
    remedy = "" if is_near else "see why the time daemon is silent (`chronyc tracking`), or raise clock_error_max"
    yield Finding("clock", Verdict.OK if is_near else Verdict.WARN, text, remedy)


def _members(config: NodeSettings, reach_s: float) -> Iterator[Finding]:
    """Check the paths to the other members whose names have addresses."""
    if any(finding.verdict is Verdict.FAIL for finding in _names(config)):
        return
    others = [one for one in config.member_list if one.id != config.node.member_id]
    paths: dict[int, MemberPath] = {}
    if reach_s and others:
        if _is_running(config):
            text = "the ports were not tried, since this machine's node runs and holds its own"
            yield Finding("members", Verdict.WARN, text, "`ordo cluster status` says whom it hears; or stop it first")
            return
        try:
            with Doctors(config.bound_member, others, config.cluster.mtu_bytes) as doctors:
                doctors.run(reach_s)
                paths = doctors.paths
        except ConfigurationError as error:
            yield Finding("members", Verdict.FAIL, f"not tried: {error.message}", "free the port first")
            return
    silent = [one for one in others if one.id not in paths or not (paths[one.id].answered or paths[one.id].heard)]
    running = _running(config, silent)
    for one in others:
        if one in silent:
            yield _silent(one, one in running, bool(reach_s))
        else:
            yield _judge(paths[one.id])
            yield from _clocks(paths[one.id])


def _running(config: NodeSettings, members: list[Member]) -> list[Member]:
    """Return the members whose nodes run and answer. At a multicast address, the answering member is not known."""
    if not members or config.cluster.ingress_channel is not None:
        return []
    keys = config.encryption
    return list(running_nodes(members, Encryption(str(keys.key_file or ""), str(keys.trusted_file or ""))))


def _silent(member: Member, is_running: bool, is_reach: bool) -> Finding:
    """Return the finding about a member from whose machine no doctor answers."""
    name = f"member {member.id}"
    if is_running:
        text = f"{name}: its node runs and answers at {member.ingress}; its other ports cannot be tried"
        return Finding("members", Verdict.OK, text)
    if not is_reach:
        text = f"{name}: no node answers at {member.ingress}"
        remedy = "before the first start, `ordo doctor --reach 60` on all members' machines at the same time"
        return Finding("members", Verdict.WARN, text, remedy)
    low, high = min(member.ports), max(member.ports)
    text = f"{name}: neither a doctor nor a node answers at {member.ingress.rpartition(':')[0]}"
    remedy = f"run `ordo doctor --reach` there as well, or open its UDP ports {low} to {high}"
    return Finding("members", Verdict.FAIL, text, remedy)


def _judge(path: MemberPath) -> Finding:
    """Return the findings about the path to a member and back, from the questions and answers."""
    name, long_bytes = f"member {path.member.id}", max(path.lengths_bytes)
    silent = path.silent(SMALL_BYTES)
    unheard = [name for index, name in enumerate(ENDPOINT_NAMES) if index not in path.heard]
    if path.is_content and path.is_other_content:
        text = f"{name}: all ports answer, the quickest in {path.round_trip_ns / 1e6:.2f} ms, and it hears this machine"
        return Finding("members", Verdict.OK, text)
    remedy = "open these UDP ports in the firewalls between both machines"
    if not path.answered:
        text = f"{name}: what it sends arrives here, but nothing that this machine sends is answered"
    elif silent:
        text = f"{name}: no answer from {', '.join(silent)}"
    elif not path.is_content:
        text = f"{name}: datagrams of {long_bytes} bytes are not all answered, those of {SMALL_BYTES} are"
        remedy = "lower [cluster] mtu on all members to what the way carries, less 28 bytes (IPv6: 48) for its headers"
    elif unheard:
        text = f"{name}: it answers, but what it sends does not arrive here at {', '.join(unheard)}"
    else:
        text = f"{name}: it has not got all of this machine's answers"
        remedy = "see what its own doctor says"
    return Finding("members", Verdict.FAIL, text, remedy)


def _clocks(path: MemberPath) -> Iterator[Finding]:
    if path.round_trip_ns < 0:
        return
    ahead_ms = path.clock_ahead_ms
    text = f"member {path.member.id}'s clock is {abs(ahead_ms)} ms {'ahead of' if ahead_ms >= 0 else 'behind'} this one"
    is_near = abs(ahead_ms) <= CLOCKS_APART_MS + path.round_trip_ns // 1_000_000
    remedy = "" if is_near else "run chrony or systemd-timesyncd on both machines"
    yield Finding("clocks", Verdict.OK if is_near else Verdict.WARN, text, remedy)


def _is_running(config: NodeSettings) -> bool:
    return is_alive(config.aeron_dir, SystemClock().epoch_ms(), ALIVE_MS)


def _mib(length_bytes: int) -> str:
    return f"{length_bytes / MEBIBYTE:,.0f} MiB"


def _ms(duration_ns: int) -> str:
    return f"{duration_ns / 1e6:,.3f} ms"
