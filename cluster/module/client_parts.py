"""Builds the parts of a member that serve clients: sessions, requests, services that answer, the ingress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ordo.cluster.module.services.services import Services
from ordo.cluster.module.sessions.group_queries import GroupQueries
from ordo.cluster.module.sessions.queries import FIRST_ROUND_ID_BITS, Queries, QueryLink, ReadRounds
from ordo.cluster.module.sessions.query_gate import QueryGate
from ordo.cluster.module.sessions.session_notices import SessionNotices
from ordo.cluster.module.sessions.session_quotas import QuotaCounters, SessionQuotas
from ordo.cluster.module.sessions.session_requests import LogFacts, SessionBounds, SessionRequests
from ordo.cluster.module.sessions.sessions import OpenSessions
from ordo.runtime.security.authentication import AcceptAll, Authenticator
from ordo.sequencer.leader_ingress import LeaderIngress

if TYPE_CHECKING:
    from ordo.archive.protocol.own_codecs import ToldIdentity
    from ordo.cluster.module.member_parts import Foundation
    from ordo.cluster.module.members.outgoing_messages import OutgoingMessages
    from ordo.runtime.native.cluster_time import TimeUnit
    from ordo.transport.streams.image import Image

SESSION_ID_MAX = 2**62


@dataclass(frozen=True)
class ClientParts:
    """The sessions of one member's clients, and the services that answer them."""

    sessions: OpenSessions
    notices: SessionNotices
    requests: SessionRequests
    services: Services
    leader_ingress: LeaderIngress
    quotas: SessionQuotas
    session_timeout_ns: int

    def take_time_unit(self, unit: TimeUnit) -> None:
        """Measure the silence of sessions in this unit, that of the term which this member begins to lead."""
        self.sessions.session_timeout = self.session_timeout_ns // unit.length_ns


def make_client_parts(
    base: Foundation,
    authenticator: Authenticator | None,
    told_identity: Callable[[], ToldIdentity | None],
    on_image_gone: Callable[[Image], None],
    told_beginning: Callable[[], ToldIdentity | None],
) -> ClientParts:
    """Build the parts that serve clients. `on_image_gone` takes each image of the leader's ingress that ends."""
    authenticator = authenticator or AcceptAll()
    config, client, member, sequencer = base.config, base.seams.client, base.member, base.sequencer
    session_timeout = config.session_timeout_ns // config.cluster_time_unit.length_ns
    session_ids = base.seams.random.secret("session ids")
    speaks_for = getattr(authenticator, "speaks_for", lambda principal, key_name: True)
    sessions = OpenSessions(
        client, sequencer.sessions, session_timeout, authenticator.rights_of, speaks_for, sequencer.prove_ingress
    )
    requests = SessionRequests(
        client,
        sessions,
        authenticator,
        session_timeout_ns=config.session_timeout_ns,
        bounds=SessionBounds.configured(config),
        log_facts=LogFacts(lambda: base.log.message_bytes_max, config.cluster_id, told_identity, told_beginning),
        on_rejected=member.on_invalid_request,
        draw_session_id=lambda: session_ids.randint(1, SESSION_ID_MAX),
    )
    services = Services(member, sessions, config.service_count, member.clock_watch.clock.set_alarm)
    leader_ingress = LeaderIngress(
        client,
        config,
        on_available_image=sequencer.add_ingress_image,
        on_unavailable_image=on_image_gone,
        on_error=member.record_error,
    )
    notices = SessionNotices(member, sessions)
    quota_counters = QuotaCounters.of(client, config.cluster_id)
    quotas = SessionQuotas(config.quotas, config.principals, sequencer, sessions, notices, quota_counters)
    return ClientParts(sessions, notices, requests, services, leader_ingress, quotas, config.session_timeout_ns)


def make_queries(
    base: Foundation, sessions: OpenSessions, outgoing: OutgoingMessages, *, lets_everybody_in: bool
) -> Queries:
    """Build what takes the queries of a member's clients."""
    config, seams, member, counters = base.config, base.seams, base.member, base.counters
    gate = QueryGate(member, sessions, lets_everybody_in, base.sequencer.prove_ingress)
    return Queries(
        base.core,
        QueryLink(seams.client, counters.container_park_flags[0], config.cluster_id),
        GroupQueries(member, sessions, counters.commit_position),
        send=outgoing.send,
        broadcast=outgoing.broadcast,
        find_refusal=gate.find_refusal,
        rounds=ReadRounds(
            seams.random.stream("queries").getrandbits(FIRST_ROUND_ID_BITS), config.leader_heartbeat_interval_ns
        ),
        queries_max=config.queries_max,
    )
