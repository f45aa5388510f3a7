"""What a seed chooses: sizes, times, workload and faults. No two seeds run the same cluster (swarm testing)."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

US = 1_000
MS = 1_000_000
S = 1_000_000_000
KIB = 1024


@dataclass
class Options:
    """Times in ns, lengths in bytes, chances from 0 to 1. A field with `_mean_ns` 0 means never."""

    nodes: int = 3
    services: int = 1
    service_record_limit: int = 100
    """So many records the services 1, 2, ... execute in a duty cycle."""
    spares: int = 0
    clients: int = 2
    duration_ns: int = 8 * S
    # the cluster
    sync: str = "commit"
    term_length: int = 64 * KIB
    segment_length: int = 64 * KIB
    mtu: int = 1408
    receiver_window: int = 32 * KIB
    heartbeat_timeout_ns: int = 500 * MS
    heartbeat_interval_ns: int = 50 * MS
    election_timeout_ns: int = 250 * MS
    startup_canvass_timeout_ns: int = 1 * S
    session_timeout_ns: int = 10 * S
    sessions_max: int = 100
    time_unit: str = "ms"
    goes_over_to: str = ""
    """The finer unit of time to which the log goes over: members have the setting from their second life on."""
    clock_report_ns: int = 0
    """Leaders say so often in the log how well their clock is known; 0: never."""
    arrivals: bool = False
    """Leaders say in the log when messages arrived, but for member 0, which does not have the setting."""
    late_files: bool = False
    """Files of logs are there some duty cycles after a member's driver asked for them."""
    look_ns: int = 0
    """So long each look at a member's clock takes; 0: time stands still within a duty cycle."""
    appointed_leader_id: int = -1
    host_names: bool = False
    cycle_ns: int = 100 * US
    session_messages: int = 0
    """So many messages a second are taken of each session; 0: all."""
    session_bytes: int = 0
    principal_messages: int = 0
    """Of all sessions of one client."""
    has_first_lane: bool = False
    """Messages of one client are taken before those of the others."""
    service_backlog: int = 4096 * KIB
    # the network
    loss: float = 0.0
    duplication: float = 0.0
    corruption: float = 0.0
    reordering: float = 0.0
    truncation: float = 0.0
    delay_min_ns: int = 20 * US
    delay_max_ns: int = 200 * US
    reorder_delay_ns: int = 2 * MS
    # the disk
    sync_min_ns: int = 100 * US
    sync_max_ns: int = 2 * MS
    # what goes wrong, and how often in all
    kill_mean_ns: int = 0
    power_loss_mean_ns: int = 0
    close_mean_ns: int = 0
    transfer_mean_ns: int = 0
    pause_mean_ns: int = 0
    partition_mean_ns: int = 0
    slow_link_mean_ns: int = 0
    clock_mean_ns: int = 0
    disk_mean_ns: int = 0
    loss_mean_ns: int = 0
    check_log: bool = False
    client_mean_ns: int = 0
    membership_mean_ns: int = 0
    orders_mean_ns: int = 0
    renews: bool = False
    """After an order to end, the log begins anew with other lengths, where all members let it."""
    renews_some: bool = False
    """Only that of some members; the others are renewed when they end because of it."""
    tangle_mean_ns: int = 0
    strand_mean_ns: int = 0
    echo_mean_ns: int = 0
    fall_mean_ns: int = 0
    """Until a leader is killed just after a commit that one of its followers has not heard."""
    faulty_minority: bool = False
    disk_bytes: int = 0
    """Room on the disk of each member, which its log fills; 0: more than it can."""
    disk_low: int = 128 * 1024 * KIB
    disk_high: int = 256 * 1024 * KIB
    fill_mean_ns: int = 0
    """Until something else fills the disk of a member."""
    slow_disk_mean_ns: int = 0
    """Until the disk of a member slows by 100. No seed draws it."""
    outage_mean_ns: int = 500 * MS
    clock_rate_ppm_max: int = 0
    # the workload
    operation_mean_ns: int = 10 * MS
    query_mean_ns: int = 0
    padding_max: int = 0
    registers: int = 3
    snapshot_mean_ns: int = 0
    snapshot_padding: int = 0
    snapshot_every_bytes: int = 0
    snapshots_kept: int = 2
    retention_bytes: int = -1
    retention_patience_s: int = 30
    scrub_ns: int = 0
    """0: nobody looks for rot, and there is none after the faults."""
    rot_kind: str = ""
    """What befalls logs after the faults, a key of `rot.KINDS`; drawn where it is empty."""
    timers: bool = True
    messages: bool = True
    requests: str = ""
    """How clients ask: "" by offers, "requests", "journal": by requests that outlive their process, or "ids": by
    requests that another life sends again, of another identity, by their ids."""
    kept_bytes_max: int = 0
    """Of the answers that services keep; 0: as in the product. Clients ask once the log has the level at which no
    service waits for room for answers."""
    tracks: bool = False
    """Clients that ask by offers are told which of them the log has."""
    poison_chance: float = 0.0
    """The chance that a request makes every service raise."""
    own_error_mean_ns: int = 0
    """Until the service of one member raises alone."""
    on_error: str = "stop"
    difference_mean_ns: int = 0
    """Until the state of one member becomes another one than the others'."""
    schemas: bool = False
    """The service's messages have schemas, a newer one with each version of its code."""
    has_other_code: bool = False
    """The schemas of one member's code contradict those of the others. No seed draws either."""
    applications: int = 0
    """Instances of one application beside the cluster."""
    application_mode: str = "active-active"
    application_ids: bool = False
    """Outputs have ids, and each is written again later with its id."""
    application_upgrade: bool = False
    """The instances go on with other code, by a record of the log."""
    canary: bool = False
    """Beside the instances runs one more, with other code, that only compares."""
    application_mean_ns: int = 0
    """Until an instance is killed or stopped."""
    consumers: int = 0
    """Members of one exclusive durable consumer beside the cluster."""
    shared_consumers: int = 0
    """Members of one shared consumer."""
    consumer_mean_ns: int = 0
    """Until a member is killed or stopped."""
    feed_readers: int = 0
    """Readers of a feed beside the cluster; with 0 nothing is published."""
    reader_mean_ns: int = 0
    """Until a reader is killed or stopped."""
    upgrade_mean_ns: int = 0
    """Until an operator asks for another version of the service; with 0 there is one version only."""
    upgrades_one: bool = False
    """Most upgrades are of one service alone."""
    lack_chance: float = 0.0
    """The chance that a member is started with one version missing, while a quorum has them all."""
    levels: bool = False
    """Members have the present protocol level; otherwise that of releases before there were levels."""
    old_members: int = 0
    """So many of them have it from their second life on only."""
    state_hash_every_bytes: int = 0
    copies: bool = False
    """Copies of the services write their snapshots, while they go on."""
    copy_failure_chance: float = 0.0
    """The chance that a copy dies or hangs."""
    volume_mean_ns: int = 0
    """Until a member gets an older copy of its own volume, or that of another member or cluster."""
    loses_most: bool = False
    """At the end, most members get copies of their volumes from a moment ago, while the leader is down."""
    leads_twice: bool = False
    """At the end, most members get copies of their volumes from before an election, and lead its term again."""
    loses_for_good: bool = False
    """At the end, most members are gone for good, and an operator goes on with what is left."""
    leave_chance: float = 0.0
    quiet_chance: float = 0.0

    @property
    def names_clients(self) -> bool:
        """Clients are told apart by who they say they are."""
        return bool(self.kept_bytes_max or self.principal_messages or self.has_first_lane)

    def describe(self) -> str:
        """One line: what differs from a quiet cluster."""
        quiet = Options()
        changed = {name: value for name, value in vars(self).items() if value != getattr(quiet, name)}
        return " ".join(f"{name}={_short(name, value)}" for name, value in changed.items())


def _short(name: str, value: Any) -> str:
    if name.endswith("_ns"):
        return f"{value / 1e6:g}ms"
    return f"{value:g}" if isinstance(value, float) else str(value)


def draw(rng: Random, *, with_links: bool = True) -> Options:
    """The options of one seed; without what `links.py` and `minority.py` do, as they were before these were there."""
    options = Options(
        nodes=rng.choice((1, 2, 3, 3, 3, 3, 3, 3, 4, 5, 5, 7)),
        clients=rng.choice((1, 1, 2, 3)),
        duration_ns=rng.choice((2, 3, 6)) * S,
    )
    _draw_cluster(options, rng)
    _draw_network(options, rng)
    _draw_faults(options, rng)
    _draw_workload(options, rng)
    _draw_membership(options, rng)
    _draw_orders(options, rng)
    _draw_retention(options, rng)
    _draw_requests(options, rng)
    if with_links:
        _draw_links(options, rng)
        _draw_errors(options, rng)
        _draw_tracking(options, rng)
        options.scrub_ns = rng.choice((0, 0, 0, 500 * MS))
        _draw_versions(options, rng)
        _draw_consumers(options, rng)
        _draw_rooms(options, rng)
        _draw_feeds(options, rng)
        _draw_copies(options, rng)
        _draw_levels(options, rng)
        _draw_services(options, rng)
        options.renews = options.orders_mean_ns > 0 and rng.random() < 0.5
        options.renews_some = options.renews and not options.loss_mean_ns and rng.random() < 0.5
        _draw_own_versions(options, rng)
        _draw_volumes(options, rng)
        if options.requests and options.levels and rng.random() < 0.5:
            options.requests = "ids"
        _draw_falls(options, rng)
        options.loses_most = rng.random() < 0.15 and not (options.applications or options.consumers)
        _draw_kept_answers(options, rng)
        _draw_quotas(options, rng)
        is_alone = not (options.loses_most or options.applications or options.consumers)
        options.leads_twice = rng.random() < 0.15 and is_alone
        options.clock_report_ns = rng.choice((0, 200, 1000)) * MS if options.levels else 0
        options.arrivals = options.levels and rng.random() < 0.5
        options.late_files = rng.random() < 0.5
    return options


def _draw_cluster(options: Options, rng: Random) -> None:
    options.sync = rng.choice(("commit", "commit", "commit", "none"))
    options.term_length = rng.choice((64, 64, 128, 256)) * KIB
    options.segment_length = options.term_length * rng.choice((1, 1, 2, 4))
    options.mtu = rng.choice((1408, 1408, 512, 4096))
    options.receiver_window = rng.choice((8, 32, 128)) * KIB
    options.heartbeat_timeout_ns, options.heartbeat_interval_ns = rng.choice(
        ((500 * MS, 50 * MS), (200 * MS, 20 * MS), (1000 * MS, 200 * MS))
    )
    options.election_timeout_ns = rng.choice((100, 250, 500)) * MS
    options.startup_canvass_timeout_ns = rng.choice((500, 1000, 3000)) * MS
    options.session_timeout_ns = rng.choice((2, 5, 10)) * S
    options.cycle_ns = rng.choice((50, 200, 500, 1000)) * US


def _draw_network(options: Options, rng: Random) -> None:
    options.loss = rng.choice((0.0, 0.0, 0.01, 0.05, 0.2))
    options.duplication = rng.choice((0.0, 0.0, 0.02, 0.1))
    options.corruption = rng.choice((0.0, 0.0, 0.01))
    options.reordering = rng.choice((0.0, 0.0, 0.05, 0.3))
    options.truncation = rng.choice((0.0, 0.0, 0.0, 0.01))
    options.delay_max_ns = rng.choice((50, 200, 2000, 20_000)) * US
    options.sync_max_ns = rng.choice((200, 2000, 30_000)) * US


def _draw_faults(options: Options, rng: Random) -> None:
    def often(chance: float, *seconds: float) -> int:
        return int(rng.choice(seconds) * S) if rng.random() < chance else 0

    options.kill_mean_ns = often(0.5, 0.5, 1, 3)
    options.close_mean_ns = often(0.3, 1, 3)
    options.transfer_mean_ns = often(0.3, 0.3, 1, 3)
    options.pause_mean_ns = often(0.4, 0.5, 2)
    options.partition_mean_ns = often(0.5, 0.5, 1, 3)
    options.slow_link_mean_ns = often(0.2, 1, 3)
    options.clock_mean_ns = often(0.2, 0.5, 2)
    options.client_mean_ns = often(0.3, 1, 3)
    options.outage_mean_ns = rng.choice((50, 300, 1000, 3000)) * MS
    options.clock_rate_ppm_max = rng.choice((0, 0, 100, 20_000))
    if options.sync == "commit":
        options.power_loss_mean_ns = often(0.5, 0.5, 1, 3)
        options.disk_mean_ns = often(0.3, 1, 3)
        options.loss_mean_ns = often(0.4, 0.3, 1) if options.nodes > 2 else 0
        options.check_log = rng.random() < 0.5


def _draw_workload(options: Options, rng: Random) -> None:
    options.operation_mean_ns = rng.choice((5, 20, 20, 50)) * MS
    options.padding_max = rng.choice((0, 200, 3000))
    options.registers = rng.choice((1, 3, 10))
    options.snapshot_mean_ns = rng.choice((0, 300, 1000, 3000)) * MS
    options.snapshot_padding = rng.choice((0, 1000, 150_000))
    options.timers = rng.random() < 0.7
    options.messages = rng.random() < 0.7
    options.query_mean_ns = rng.choice((0, 5, 20, 50)) * MS


def _draw_membership(options: Options, rng: Random) -> None:
    """Not together with lost disks: who lost its vote must know all that may have it."""
    chance, spares, mean_ns = rng.random(), rng.choice((0, 1, 1, 2)), rng.choice((50, 200, 1000)) * MS
    if chance < 0.4 and not options.loss_mean_ns:
        options.spares, options.membership_mean_ns = spares, mean_ns


def _draw_orders(options: Options, rng: Random) -> None:
    """Last, so that what came before is as it was in the seeds that found something."""
    orders, leaving, quiet, few = (rng.random() for _ in range(4))
    orders_mean_ns = rng.choice((300, 1000, 3000)) * MS
    options.orders_mean_ns = orders_mean_ns if orders < 0.3 else 0
    options.leave_chance = 0.01 if leaving < 0.3 else 0.0
    options.quiet_chance = 0.005 if quiet < 0.3 else 0.0
    options.sessions_max = options.clients if few < 0.1 else options.sessions_max


def _draw_retention(options: Options, rng: Random) -> None:
    """Logs that forget: with segments so small, and so much in them, that runs of seconds have some to forget."""
    chance, every, kept, kept_bytes, patience_s = (
        rng.random(),
        rng.choice((40, 100, 300)) * KIB,
        rng.choice((1, 1, 2)),
        rng.choice((0, 0, 64, 200)) * KIB,
        rng.choice((0, 1, 30)),
    )
    if chance < 0.4:
        options.snapshot_every_bytes, options.snapshots_kept, options.retention_bytes = every, kept, kept_bytes
        options.retention_patience_s = patience_s
        options.term_length = options.segment_length = 64 * KIB
        options.operation_mean_ns, options.padding_max = min(options.operation_mean_ns, 5 * MS), 3000


def _draw_requests(options: Options, rng: Random) -> None:
    options.requests = rng.choice(("", "", "requests", "journal"))


def _draw_links(options: Options, rng: Random) -> None:
    """Last of all. What a leader hears late must be followed by queries, and takes its time; with a minority that stays
    faulty, all others must have their votes."""
    tangled, stranded, late = (rng.random() for _ in range(3))
    tangle_mean_ns, strand_mean_ns = (rng.choice((500, 1000, 3000)) * MS for _ in range(2))
    options.tangle_mean_ns = tangle_mean_ns if tangled < 0.25 else 0
    if stranded < 0.2:
        options.strand_mean_ns = strand_mean_ns
        options.operation_mean_ns = min(options.operation_mean_ns, 20 * MS)
    if late < 0.15 and options.nodes >= 3:
        options.heartbeat_timeout_ns, options.heartbeat_interval_ns = 200 * MS, 20 * MS
        options.election_timeout_ns = min(options.election_timeout_ns, 250 * MS)
        options.echo_mean_ns = 500 * MS
        options.duration_ns = max(options.duration_ns, 6 * S)
        options.query_mean_ns = 5 * MS
        options.registers = 1
    can_do_without = options.nodes >= 3 and not (options.loss_mean_ns or options.membership_mean_ns)
    options.faulty_minority = rng.random() < 0.5 and can_do_without


def _draw_tracking(options: Options, rng: Random) -> None:
    """What is left out is in the log and was not executed: nothing to check here."""
    leaves_out = options.poison_chance or options.own_error_mean_ns
    options.tracks = rng.random() < 0.5 and not options.requests and not leaves_out


def _draw_errors(options: Options, rng: Random) -> None:
    """Services that raise, all at one record, or one of them alone."""
    chance, own, poison = rng.random(), rng.random(), rng.choice((0.002, 0.01, 0.03))
    own_error_mean_ns = rng.choice((500, 2000)) * MS
    if chance < 0.3:
        options.on_error, options.poison_chance = "restore", poison
    if rng.random() < 0.15 and options.nodes >= 3 and not (options.membership_mean_ns or options.loss_mean_ns):
        options.difference_mean_ns = 500 * MS
    options.own_error_mean_ns = own_error_mean_ns if own < 0.2 and options.nodes >= 3 else 0


def _draw_versions(options: Options, rng: Random) -> None:
    """Members that all have several versions of the service, and change from one to another."""
    chance, mean_ns = rng.random(), rng.choice((100, 500, 1500)) * MS
    options.upgrade_mean_ns = mean_ns if chance < 0.15 else 0


def _draw_consumers(options: Options, rng: Random) -> None:
    """In few runs, for they make them slower; not where the log forgets before anybody has read it."""
    chance, counts, mean_ns = rng.random(), rng.choice(((2, 0), (0, 3), (2, 2))), rng.choice((300, 1000, 3000)) * MS
    if chance < 0.12 and options.retention_bytes < 0 and options.sessions_max > options.clients:
        options.consumers, options.shared_consumers = counts
        options.consumer_mean_ns = mean_ns


def _draw_rooms(options: Options, rng: Random) -> None:
    """Small disks, filled by the log itself or by something else; retention may make room."""
    chance, fills, room, mean_ns = rng.random(), rng.random(), rng.choice((100, 300, 1500)), rng.choice((300, 1000))
    keeps = rng.random() < 0.5
    if chance >= 0.12 or options.consumer_mean_ns:
        return
    options.disk_low, options.disk_high = 400 * KIB, 600 * KIB
    options.disk_bytes = options.disk_high + room * KIB
    options.fill_mean_ns = mean_ns * MS if fills < 0.5 else 0
    options.term_length = options.segment_length = 64 * KIB
    options.snapshot_padding = min(options.snapshot_padding, 1000)
    options.operation_mean_ns, options.padding_max = min(options.operation_mean_ns, 3 * MS), 3000
    if keeps:
        options.retention_bytes, options.retention_patience_s, options.snapshots_kept = 64 * KIB, 0, 1


def _draw_copies(options: Options, rng: Random) -> None:
    chance, failure_chance = rng.random(), rng.choice((0.0, 0.1, 0.5))
    if chance < 0.5:
        options.copies, options.copy_failure_chance = True, failure_chance


def _draw_levels(options: Options, rng: Random) -> None:
    chance, old, every_bytes = rng.random(), rng.choice((0, 0, 1, 2)), rng.choice((0, 64, 2 * KIB, 20 * KIB))
    if chance < 0.3:
        options.levels, options.old_members, options.state_hash_every_bytes = True, old, every_bytes


def _draw_services(options: Options, rng: Random) -> None:
    """In few runs: members that run several services. Leaving records out is for those that run one."""
    chance, count, limit = rng.random(), rng.choice((2, 2, 3)), rng.choice((1, 3, 100))
    if chance < 0.12 and not options.applications:
        options.services, options.service_record_limit = count, limit
        options.on_error, options.poison_chance = "stop", 0.0


def _draw_own_versions(options: Options, rng: Random) -> None:
    """Upgrades of one of several services alone, and members that lack code. While members lack code, only a quorum
    takes snapshots: not together with what takes more of it away."""
    upgrades, lacks, mean_ns, lack_chance = rng.random(), rng.random(), rng.choice((100, 500)), rng.choice((0.3, 0.7))
    if options.services > 1 and upgrades < 0.6:
        options.upgrades_one, options.levels = True, True
        options.upgrade_mean_ns = options.upgrade_mean_ns or mean_ns * MS
    takes_quorum = options.membership_mean_ns or options.difference_mean_ns or options.loss_mean_ns
    if options.upgrade_mean_ns and options.nodes >= 3 and not takes_quorum and lacks < 0.8:
        options.lack_chance, options.kill_mean_ns = lack_chance, options.kill_mean_ns or S


def _draw_volumes(options: Options, rng: Random) -> None:
    """Last. Who lost its vote must know all that may have it, and be trusted again before others lose something."""
    chance, mean_ns = rng.random(), rng.choice((300, 1000)) * MS
    takes_votes = options.loss_mean_ns or options.membership_mean_ns or options.faulty_minority or options.disk_bytes
    if chance < 0.3 and options.nodes >= 3 and not takes_votes:
        options.volume_mean_ns = mean_ns


def _draw_falls(options: Options, rng: Random) -> None:
    """Last. Messages must be small for a log to be only a little too short."""
    chance, mean_ns = rng.random(), rng.choice((200, 500, 1500)) * MS
    if chance > 0.84 and options.nodes >= 3:
        options.fall_mean_ns, options.padding_max = mean_ns, min(options.padding_max, 200)


def _draw_kept_answers(options: Options, rng: Random) -> None:
    """Room for the answers to few requests. One client has it all, and comes back with the identity that it had: what a
    silent one has not confirmed would hold up the others. Who judges requests beside the cluster has no such bound."""
    chance, kept_bytes_max = rng.random(), rng.choice((1000, 2000, 8000))
    others = options.clients > 1 or options.applications or options.consumers or options.feed_readers
    if chance < 0.8 and options.requests == "journal" and options.levels and not (options.old_members or others):
        options.kept_bytes_max = kept_bytes_max


def _draw_quotas(options: Options, rng: Random) -> None:
    """Last. Fewer than clients send, so that messages wait, and more than they repeat for ever, for a run to end."""
    chance, messages, kib, of_client = rng.random(), rng.choice((0, 30, 100)), rng.choice((0, 64, 256)), rng.random()
    backlog_kib, is_first = rng.choice((4096, 4, 32)), rng.random() < 0.5
    if chance < 0.15:
        options.session_messages, options.session_bytes = messages or 50, kib * KIB
        options.service_backlog, options.has_first_lane = backlog_kib * KIB, is_first
        options.principal_messages = 40 if of_client < 0.3 else 0


def _draw_feeds(options: Options, rng: Random) -> None:
    """In few runs, for readers make them slower; not where a small disk holds them up."""
    chance, count, mean_ns = rng.random(), rng.choice((1, 2, 3)), rng.choice((300, 1000, 3000)) * MS
    if chance < 0.12 and not options.disk_bytes:
        options.feed_readers, options.reader_mean_ns = count, mean_ns
