"""Records of the log that are left out, because services failed at them: the same ones on all members.

A service that fails at a record stands still there, and its member says so to the others. What follows is decided by
the log alone:

    a quorum of voters failed alike, with on_error = "restore"   the leader appends a SkipEvent that names the record
    an operator orders it (`ordo cluster skip`)                   the same
    enough executed it that no quorum can fail, or one did        this member's error is its own: it stops alone
    and no quorum failed for some seconds
    on_error = "stop"                                             the member stops, unless another one knows of a skip

Once a SkipEvent is committed it is kept in the store, and holds for ever: a member that executed a part of the record,
or all of it, starts again from a snapshot of before, and leaves it out. docs/ARCHITECTURE.md, Bad messages.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ordo.cluster.module.state.host import MemberHost
from ordo.cluster.module.state.state_store import Skip
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.ordo_codecs import FailureVerdict, RecordOrder
from ordo.cluster.wire.succession import IS_OVER
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.native.time_units import MILLISECOND_NS
from ordo.runtime.sbe import bind

if TYPE_CHECKING:
    from ordo.cluster.module.state.counters import ModuleCounters
    from ordo.cluster.module.state.host import Replication
    from ordo.cluster.module.state.state_store import StateStore
    from ordo.cluster.wire import records
    from ordo.consensus.state.configuration import Configuration
    from ordo.runtime.sbe import Message

REPORT_INTERVAL_NS = 100 * MILLISECOND_NS
REPORT_AGE_NS_MAX = 10 * REPORT_INTERVAL_NS
STOP_DELAY_NS_MAX = 1_000 * MILLISECOND_NS
"""How long a member that is going to stop waits for others to say that the record is left out."""
UNDECIDED_NS_MAX = 5_000 * MILLISECOND_NS
"""How long a member waits for a quorum that failed alike, once it knows of one that executed the record."""
TEXT_BYTES_MAX = 300


class SkipHost(MemberHost, Protocol):
    """The member that runs the service."""

    @property
    def cluster_time(self) -> int: ...

    @property
    def is_log_over(self) -> bool: ...


class Failure(NamedTuple):
    """A record at which a service failed or, with `is_held`, waits because it was told to."""

    log_position: int
    is_held: bool
    wants_skip: bool
    error: bytes
    """The type of what the service raised: members failed alike where it is the same."""
    text: bytes


class _Report(NamedTuple):
    failure: Failure
    heard_ns: int


class Skips:
    """One member's skips: `known` are the committed ones, by the position of the record that is left out."""

    def __init__(
        self,
        host: SkipHost,
        replication: Replication,
        store: StateStore,
        counters: ModuleCounters,
        own_id: int,
        *,
        restores: bool,
        order: Callable[[bytes], bool],
    ) -> None:
        """Take the member's parts.

        `restores`: on_error is "restore". `order` sends to the service, and returns False when it cannot.
        """
        self._host = host
        self._replication = replication
        self._store = store
        self._counters = counters
        self._own_id = own_id
        self._restores = restores
        self._order = order
        self.known: dict[int, Skip] = {}
        self._appended: deque[Skip] = deque()
        self._wishes: frozenset[int] = frozenset()
        self._held: set[int] = set()
        self._unsent: deque[bytes] = deque()
        self._failures: dict[int, Failure] = {}
        """Keyed by service: where it is halted."""
        self._considered: Failure | None = None
        """What `_failed_ns` and `_answers` are of."""
        self._failed_ns = 0
        self._reported_ns = NULL_VALUE
        self._answers: dict[int, FailureVerdict] = {}
        self._reports: dict[int, _Report] = {}
        self._ordered_position = NULL_VALUE
        self.handlers: dict[Message, Callable[[Any, int], None]] = dict(
            (
                bind(ordo_codecs.FAILURE_REPORT, self._on_report),
                bind(ordo_codecs.FAILURE_ANSWER, self._on_answer),
            )
        )

    def start(self, of_snapshot: list[Skip], log_position: int) -> None:
        """Begin. `log_position` is where execution begins; the log's own records were given to `on_record` before."""
        state = self._store.load()
        self.known.update(state.skips)
        self._wishes = state.skip_wishes
        for skip in of_snapshot:
            if skip.log_position not in self.known:
                self._store.put_skip(skip)
                self.known[skip.log_position] = skip
        for skip in self.known.values():
            if skip.log_position > log_position:
                self._send(skip.log_position, RecordOrder.SKIP, skip.text)
        waiting = {skip.log_position for skip in self._appended} | self._wishes
        self._held = {one for one in waiting if one > log_position and one not in self.known}
        for position in sorted(self._held):
            self._send(position, RecordOrder.HOLD)
        self._counters.record_orders.set(len(self._unsent))
        self._counters.skipped_records.set(len(self.known))

    @property
    def _configuration(self) -> Configuration:
        return self._replication.core.configuration

    @property
    def _failure(self) -> Failure | None:
        """The failure that this member reports to the others.

        The first record in the log at which one of its services failed, the same on all members once their services
        have come as far as they can.
        """
        return min(self._failures.values(), key=lambda one: one.log_position, default=None)

    def _forget_failures(self, position: int) -> None:
        """Forget failures at this record: the services halted there continue, or end."""
        self._failures = {one: it for one, it in self._failures.items() if it.log_position != position}

    def _has_executed(self, position: int) -> bool:
        """Return whether all services have.

        One that stands still in the middle of a batch has not told how far it came.
        """
        for service_id, counter in enumerate(self._counters.service_positions):
            failure = self._failures.get(service_id)
            if counter.value < position and (failure is None or failure.log_position <= position):
                return False
        return True

    @property
    def wishes(self) -> frozenset[int]:
        """The positions of the records that an operator wants skipped, ordered while the member was stopped."""
        return self._wishes

    def below(self, log_position: int) -> list[Skip]:
        """Return the skipped records that a state at this position leaves out."""
        return [skip for position, skip in sorted(self.known.items()) if position <= log_position]

    # -- the log -------------------------------------------------------------------------------------------------------

    def on_record(self, position: int, values: records.SkipEvent) -> None:
        """Take a SkipEvent of this member's durable log; it takes effect once it is committed."""
        self._appended.append(Skip(values.skipped_position, position, values.timestamp, values.text))

    def truncate(self, position: int) -> None:
        """Forget SkipEvents beyond `position`, where the log was truncated."""
        while self._appended and self._appended[-1].skip_position > position:
            gone = self._appended.pop().log_position
            if gone in self._held and gone not in self._wishes:
                self._held.discard(gone)
                self._release(gone)

    def _release(self, position: int) -> None:
        self._forget_failures(position)
        self._send(position, RecordOrder.EXECUTE)

    def _learn(self, skip: Skip) -> None:
        """Apply a committed SkipEvent."""
        position = skip.log_position
        if position in self.known:
            return
        self._store.put_skip(skip)
        self.known[position] = skip
        self._counters.skipped_records.set(len(self.known))
        self._host.announce("cluster.skip", f"the record at position {position} is left out: {_text(skip.text)}")
        has_failed = any(one.log_position == position and not one.is_held for one in self._failures.values())
        if has_failed or any(one.value >= position for one in self._counters.service_positions):
            self._restore(position)
        else:
            self._forget_failures(position)
            self._send(position, RecordOrder.SKIP, skip.text)

    def _restore(self, position: int) -> None:
        """Start again: the stored skip makes the next start choose a snapshot from before the record."""
        self._host.start_again(f"executes the log again without the record at position {position}")

    # -- this member's service -----------------------------------------------------------------------------------------

    def on_service_failure(self, service_id: int, values: records.ServiceFailure, now_ns: int) -> None:
        """Note that a service is halted at a record."""
        position, is_held = values.log_position, bool(values.is_held)
        if position in self.known:
            if not is_held:
                self._restore(position)
            return
        failure = Failure(position, is_held, is_held or self._restores, values.error, values.text)
        self._failures[service_id] = failure
        if self._failure == failure:
            self._considered = None
        if not is_held:
            self._host.record_error(f"the service failed at position {position}: {_text(values.text)}")
        self.work(now_ns)

    def _resolve(self, failure: Failure, now_ns: int) -> None:
        """Decide what follows from the failure of this member's service."""
        voters, threshold = self._configuration.voter_ids, self._configuration.quorum_threshold
        executed = sorted(one for one, verdict in self._answers.items() if verdict is FailureVerdict.EXECUTED)
        # A member that cannot be asked must not keep this one, which may lead, from starting again.
        is_undecided = bool(executed) and not failure.is_held and now_ns >= self._failed_ns + UNDECIDED_NS_MAX
        if is_undecided or sum(one in voters for one in executed) > len(voters) - threshold:
            self._stand_alone(failure, executed)
            return
        others = [one for one in self._configuration.member_ids if one != self._own_id]
        is_answered = all(one in self._answers for one in others)
        if not failure.wants_skip and (is_answered or now_ns >= self._failed_ns + STOP_DELAY_NS_MAX):
            self._stop(failure)
        elif now_ns >= self._reported_ns + REPORT_INTERVAL_NS or self._reported_ns == NULL_VALUE:
            self._reported_ns = now_ns
            self._replication.contacts.broadcast(
                ordo_codecs.FAILURE_REPORT.encode(
                    log_position=failure.log_position,
                    member_id=self._own_id,
                    is_held=int(failure.is_held),
                    wants_skip=int(failure.wants_skip),
                    error=failure.error,
                    text=failure.text,
                )
            )

    def _stand_alone(self, failure: Failure, executed: list[int]) -> None:
        """Stop this member alone: no quorum can have failed, so the others' state is the valid one."""
        position = failure.log_position
        if failure.is_held:
            self._host.record_error(
                f"the record at position {position} is not left out: members {executed} have executed it"
            )
            self._store.remove_skip_wish(position)
            self._wishes -= {position}
            self._held.discard(position)
            self._release(position)
            return
        self._host.record_error(
            f"members {executed} executed the record at position {position}, at which the service failed here: this "
            "member stops alone"
        )
        self._stop(failure)

    def _stop(self, failure: Failure) -> None:
        self._forget_failures(failure.log_position)
        self._send(failure.log_position, RecordOrder.STOP)

    def _send(self, position: int, order: RecordOrder, text: bytes = b"") -> None:
        self._unsent.append(ordo_codecs.RECORD_ORDER.encode(log_position=position, order=order, text=text))

    # -- other members -------------------------------------------------------------------------------------------------

    def _on_report(self, report: records.FailureReport, now_ns: int) -> None:
        position = report.log_position
        failure = Failure(position, bool(report.is_held), bool(report.wants_skip), report.error, report.text)
        self._reports[report.member_id] = _Report(failure, now_ns)
        skip = self.known.get(position)
        verdict = FailureVerdict.UNKNOWN
        if skip is not None:
            verdict = FailureVerdict.SKIPPED
        elif any(one.log_position == position for one in self._failures.values()):
            verdict = FailureVerdict.FAILED
        elif self._has_executed(position):
            verdict = FailureVerdict.EXECUTED
        answer = ordo_codecs.FAILURE_ANSWER.encode(
            log_position=position,
            skip_position=NULL_VALUE if skip is None else skip.skip_position,
            timestamp=NULL_VALUE if skip is None else skip.timestamp,
            member_id=self._own_id,
            follower_member_id=report.member_id,
            verdict=verdict,
            text=b"" if skip is None else skip.text,
        )
        self._replication.contacts.send(report.member_id, answer)

    def _on_answer(self, answer: records.FailureAnswer, now_ns: int) -> None:
        failure = self._failure
        is_asked = failure is not None and failure.log_position == answer.log_position
        if answer.follower_member_id != self._own_id or not is_asked or answer.verdict not in list(FailureVerdict):
            return
        self._answers[answer.member_id] = FailureVerdict(answer.verdict)
        if answer.verdict == FailureVerdict.SKIPPED:
            self._learn(Skip(answer.log_position, answer.skip_position, answer.timestamp, answer.text))

    # -- the leader ----------------------------------------------------------------------------------------------------

    @property
    def _leads(self) -> bool:
        """Whether this member appends to the log. It need not serve yet: this record may be what keeps it from that."""
        return self._replication.sequencer.leading_term_id != NULL_VALUE and not self._host.transfer.is_under_way

    def on_skip_request(self, request: records.SkipRequest) -> bytes:
        """Handle an operator's request and return the answer."""
        position, refusal = request.log_position, ""
        failure = self._failure
        if not self._leads:
            refusal = f"member {self._own_id} does not lead"
        elif self._host.is_log_over:
            refusal = IS_OVER
        elif position in self.known:
            refusal = f"the record at position {position} is left out already"
        elif failure is None or failure.log_position != position:
            where = "runs" if failure is None else f"stands still at position {failure.log_position}"
            refusal = f"the service does not stand still at position {position}: it {where}"
        elif not self._append(failure):
            refusal = "the log has no room at the moment; try again"
        return ordo_codecs.SKIP_RESPONSE.encode(
            correlation_id=request.correlation_id,
            leader_member_id=self._replication.core.leader_member_id,
            log_position=position,
            refusal=refusal,
        )

    def _decide(self, now_ns: int) -> None:
        """Append a SkipEvent for the record that a quorum of the voters failed at alike."""
        voters, threshold = self._configuration.voter_ids, self._configuration.quorum_threshold
        failures = {
            one: report.failure
            for one, report in self._reports.items()
            if now_ns < report.heard_ns + REPORT_AGE_NS_MAX and report.failure.wants_skip
        }
        if self._failure is not None and self._failure.wants_skip:
            failures[self._own_id] = self._failure
        of_voters = [failure for one, failure in failures.items() if one in voters]
        held = Counter(failure.log_position for failure in of_voters if failure.is_held)
        raised = Counter((one.log_position, one.error) for one in of_voters if not one.is_held)
        for failure in of_voters:
            position = failure.log_position
            alike = 0 if failure.is_held else raised[position, failure.error]
            if threshold == 1 and not failure.is_held and not self._learners_confirm(now_ns):
                continue
            if held[position] + alike >= threshold and not self._is_under_way(position):
                self._append(failure)
                return

    def _learners_confirm(self, now_ns: int) -> bool:
        """Return whether the learners confirm a failure.

        A sole voter is a quorum by itself: only the learners tell an error of its own from one of the record. Those
        that say nothing for some seconds are not waited for; what one said that has been removed since still counts.
        """
        if FailureVerdict.EXECUTED in self._answers.values():
            return False
        others = [one for one in self._configuration.member_ids if one != self._own_id]
        verdicts = [self._answers.get(one, FailureVerdict.UNKNOWN) for one in others]
        return all(one is FailureVerdict.FAILED for one in verdicts) or now_ns >= self._failed_ns + UNDECIDED_NS_MAX

    def _is_under_way(self, position: int) -> bool:
        is_appended = any(skip.log_position == position for skip in self._appended)
        return position in self.known or is_appended or position == self._ordered_position

    def _append(self, failure: Failure) -> bool:
        if self._host.is_log_over:
            return False
        record = ordo_codecs.SKIP_EVENT.encode(
            leadership_term_id=self._replication.sequencer.leading_term_id,
            timestamp=self._host.cluster_time,
            skipped_position=failure.log_position,
            member_id=self._own_id,
            text=failure.text[:TEXT_BYTES_MAX],
        )
        if int(self._replication.sequencer.append(record)) <= 0:
            return False
        self._ordered_position = failure.log_position
        return True

    # -- time ----------------------------------------------------------------------------------------------------------

    def work(self, now_ns: int) -> None:
        """Advance the decisions about failures; called with every slow tick."""
        while self._unsent and self._order(self._unsent[0]):
            self._unsent.popleft()
        while self._appended and self._appended[0].skip_position <= self._replication.sequencer.commit_position:
            self._learn(self._appended.popleft())
        failure = self._failure
        if failure != self._considered:
            self._considered = failure
            self._failed_ns, self._reported_ns, self._answers = now_ns, NULL_VALUE, {}
        if failure is not None:
            self._resolve(failure, now_ns)
        if not self._leads:
            self._ordered_position = NULL_VALUE
        elif self._failure is not None or self._reports:
            self._decide(now_ns)


def _text(text: bytes) -> str:
    return text.decode("utf-8", "replace")
