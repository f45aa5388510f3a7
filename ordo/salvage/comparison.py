"""What stopped members have, compared: which log has the most, what it may lack, and why it may not be taken.

Why the log with the latest term, and of those the longest, has all that is left of what was committed: a record that is
committed and in any log that is left was committed in the term of its leader, and every later leader has it (leader
completeness), so each log that ends in a later term has it as well; of two logs that end in one term, the longer one
begins with the shorter (log matching). So nothing that is left anywhere is given up, and what may be lost lies behind
the end of that log. docs/CONSENSUS.md, A majority that is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from ordo.cluster.module.state.folder_rows import Owner, Start
from ordo.cluster.wire.log_identity import Log, are_of_two_clusters
from ordo.runtime.errors import ClusterError
from ordo.salvage.holdings import Holding


class Loss(NamedTuple):
    """What was committed and is not in the log that goes on."""

    from_position: int
    """Where that log ends: everything that was committed up to here is in it."""
    known_position: int
    """Up to here a member knew that the log was committed. If this is beyond `from_position`, so much is lost."""
    seen_position: int
    """Up to here a member was seen to have the log, committed or not."""
    at_most_position: int | None
    """Nothing beyond was committed by the voters that the log names; None where that cannot be known."""


class Comparison(NamedTuple):
    """The members of a cluster, of which these holdings are left."""

    holdings: list[Holding]
    """The holdings in the order of member ids."""
    best: Holding
    """The one with the most; of equal ones an intact voter, the lowest id first."""
    able: list[int]
    """Voters that are here with all that they acknowledged."""
    gone: list[int]
    """Voters that are not: they are taken as gone for good."""
    loss: Loss
    findings: list[str]
    """What does not fit together."""

    @property
    def quorum(self) -> int:
        return len(self.best.voters) // 2 + 1

    def describe(self) -> dict[str, object]:
        """Return the comparison as what JSON can say."""
        return {
            "best_member_id": self.best.member_id,
            "voters": self.best.voters,
            "able": self.able,
            "gone": self.gone,
            "loss": self.loss._asdict(),
            "findings": self.findings,
        }

    def lines(self) -> Iterator[str]:
        """Yield the report for an operator."""
        for one in self.holdings:
            yield _describe_holding(one, one.member_id in self.best.voters)
        yield from self.findings
        gone = _name(self.gone, "gone, or not able to vote with what it acknowledged") or "no voter is gone"
        yield f"of the voters {_list(self.best.voters)}, {gone}"
        yield f"member {self.best.member_id} has the most: everything committed that is left is in its log"
        if self.best.successor:
            yield (
                "the log has ended for a standby to go on (`ordo standby switch`): go on here only if that standby is "
                "lost and was not promoted, or there are two clusters"
            )
        yield self._describe_loss()

    def _unless_changed(self) -> str:
        """Without a quorum here, the others may have become a quorum of other voters, by one change of the members."""
        if len(self.able) >= self.quorum:
            return ""
        return f", unless a member was removed or promoted behind position={self.best.end_position}"

    def _describe_loss(self) -> str:
        loss = self.loss
        if loss.at_most_position == loss.from_position and loss.known_position <= loss.from_position:
            return (
                f"nothing that was acknowledged is lost{self._unless_changed()}: every quorum of these voters had one "
                f"of the members that are here, and all that they have ends at position={loss.from_position}"
            )
        time = _time(self.best.timestamp_ms)
        known = "nothing of it is known to have been committed"
        if loss.known_position > loss.from_position:
            known = f"it was committed at least up to {loss.known_position}, which is lost for certain"
        seen = ""
        if loss.seen_position > max(loss.from_position, loss.known_position):
            seen = f"; a member that is gone was seen to have the log up to {loss.seen_position}"
        return (
            f"may be lost: what was acknowledged behind position={loss.from_position} (cluster time {time}); {known}"
            f"{seen}; how much at most cannot be known here, because the voters that are gone were a quorum: what any "
            "client, reader or backup has seen of a later position or time was lost as well"
        )


def compare(holdings: Sequence[Holding]) -> Comparison:
    """Compare what is left. Raises ClusterError where the folders are not those of different members of one cluster."""
    found = sorted(holdings, key=lambda one: one.member_id)
    _check_owners(found)
    _check_clusters(found)
    _check_starts(found)
    best = max(found, key=lambda one: (one.rank, one.is_intact, one.member_id in one.voters, -one.member_id))
    able = [one.member_id for one in found if one.is_intact and one.member_id in best.voters]
    gone = [one for one in best.voters if one not in able]
    return Comparison(found, best, able, gone, _find_loss(found, best, len(gone)), list(_find_differences(found, best)))


def find_refusal(comparison: Comparison, member_id: int) -> str:
    """Return why the cluster may not go on with a member's log alone, or ''.

    A quorum of a cluster whose log has ended for a standby serves nobody: where that standby is lost, this is the way
    on.
    """
    best, able = comparison.best, comparison.able
    if len(able) >= comparison.quorum and not best.successor:
        return (
            f"a quorum can be had: members {_list(able)} of the voters {_list(best.voters)} have all that they "
            "acknowledged. Start them: nothing is lost then"
        )
    chosen = next((one for one in comparison.holdings if one.member_id == member_id), None)
    if chosen is None:
        return (
            f"--from {member_id}: the members that are compared are {_list([h.member_id for h in comparison.holdings])}"
        )
    if chosen.rank < best.rank:
        return (
            f"--from {member_id}: member {best.member_id} has more: its log ends at position={best.end_position} in "
            f"term {best.last_term_id}, that of member {member_id} at {chosen.end_position} in term "
            f"{chosen.last_term_id}"
        )
    return ""


# -- whose folders they are --------------------------------------------------------------------------------------------


def _check_owners(holdings: Sequence[Holding]) -> None:
    ids = [one.member_id for one in holdings]
    if len(set(ids)) < len(ids):
        raise ClusterError(f"the folders are of members {_list(ids)}: give one of each member")
    for one in holdings:
        if one.owner is not None and one.owner != Owner(one.cluster_id, one.member_id):
            raise ClusterError(
                f"the data folder of member {one.member_id} of cluster {one.cluster_id} is that of member "
                f"{one.owner.member_id} of cluster {one.owner.cluster_id}: give the member its own, or leave it out"
            )


def _check_clusters(holdings: Sequence[Holding]) -> None:
    """Two that contradict each other are of two clusters, or of one before and after an earlier recovery."""
    for index, one in enumerate(holdings):
        for other in holdings[:index]:
            if one.cluster_id != other.cluster_id or are_of_two_clusters(_log_of(one), _log_of(other)):
                raise ClusterError(
                    f"members {other.member_id} and {one.member_id} have data of two clusters (identities "
                    f"{_log_of(other)} and {_log_of(one)}): leave out the one that is not of this cluster"
                )


def _log_of(one: Holding) -> Log:
    identity, position = (b"", one.start_position) if one.origin is None else one.origin
    return Log(identity, position, one.end_position)


def _check_starts(holdings: Sequence[Holding]) -> None:
    """Refuse a folder that another member has seen in a later life."""
    for one in holdings:
        for other in holdings:
            seen = other.seen_starts.get(one.member_id) if other is not one else None
            if seen is not None and _is_older(one.start, seen):
                raise ClusterError(
                    f"the data folder of member {one.member_id} is an older copy: member {other.member_id} has seen "
                    f"its start {seen.number}, and the folder has {one.start.number}. Give the newest folder of the "
                    "member, or leave it out"
                )


def _is_older(own: Start, seen: Start) -> bool:
    return own.number < seen.number or (own.number == seen.number and own.draw != seen.draw)


# -- what is lost ------------------------------------------------------------------------------------------------------


def _find_loss(holdings: Sequence[Holding], best: Holding, gone_count: int) -> Loss:
    end = best.end_position
    known = max(one.committed_position for one in holdings)
    points = [point for one in holdings for point in one.seen_points.values() if point > best.rank]
    seen = max((position for _, position in points), default=end)
    bound = end if gone_count < len(best.voters) // 2 + 1 else None
    return Loss(end, max(known, end), max(seen, end), bound)


def _find_differences(holdings: Sequence[Holding], best: Holding) -> Iterator[str]:
    """Say what the others have otherwise than the log with the most."""
    digests = {(row.from_position, row.to_position): row.digest for row in best.stretches}
    for one in holdings:
        if one is best:
            continue
        alike, term_id = _find_common(one, best), _find_led_twice(one, best)
        if term_id is not None:
            yield (
                f"members {best.member_id} and {one.member_id} have term {term_id} of two leaders, since one forgot "
                f"its vote: they may have other messages from position={alike} on, and nothing says which were "
                "committed; keep both folders, and find out which is right before you go on"
            )
        elif alike < one.end_position:
            yield (
                f"member {one.member_id} has another log than member {best.member_id} from position={alike} on, up to "
                f"{one.end_position}: a later leader did not have this, so it was never committed"
            )
        for start, end, digest in one.stretches:
            if end <= alike and digests.get((start, end), digest) != digest:
                yield (
                    f"members {best.member_id} and {one.member_id} have different messages between position={start} "
                    f"and {end}, in terms that both know: keep both folders, and find out which is right before you "
                    "go on"
                )
                break
        for position, digest in one.snapshots.items():
            if best.snapshots.get(position, digest) != digest:
                yield (
                    f"members {best.member_id} and {one.member_id} have different snapshots at position={position}: "
                    "their services have executed something differently"
                )


def _find_common(one: Holding, other: Holding) -> int:
    """Return up to where two logs are one, by the terms that both have, up to one that was led twice."""
    common, led_twice = 0, _find_led_twice(one, other)
    for index, row in enumerate(one.terms):
        if row[0] == led_twice:
            break
        if row in other.terms:
            at = other.terms.index(row)
            common = min(_end_of_term(one, index), _end_of_term(other, at))
    return common if one.terms else one.end_position


def _find_led_twice(one: Holding, other: Holding) -> int | None:
    """Return the first term that two logs have of two leads: from two positions on, or as two members led it."""
    bases = dict(other.terms)
    for term_id, base_position in one.terms:
        own, theirs = one.leads.get(term_id), other.leads.get(term_id)
        is_contradicted = own is not None and theirs is not None and own != theirs
        if term_id in bases and (bases[term_id] != base_position or is_contradicted):
            return term_id
    return None


def _end_of_term(one: Holding, index: int) -> int:
    return one.terms[index + 1][1] if index + 1 < len(one.terms) else one.end_position


# -- text --------------------------------------------------------------------------------------------------------------


def _describe_holding(one: Holding, is_voter: bool) -> str:
    snapshots = ", ".join(map(str, sorted(one.snapshots))) or "none"
    lost = "" if not one.distrust.is_loss else f"; it knows that it lost {one.distrust.name}"
    damage = f"; damaged: {one.damage}" if one.damage else ""
    kind = "voter" if is_voter else "learner"
    return (
        f"member {one.member_id}, a {kind}: its log is from position={one.start_position} to {one.end_position}, in "
        f"term {one.last_term_id}, newest record of {_time(one.timestamp_ms)}; it knew up to "
        f"{one.committed_position} to be committed; whole snapshots: {snapshots}{lost}{damage}"
    )


def _time(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _name(member_ids: Sequence[int], what: str) -> str:
    if not member_ids:
        return ""
    return f"{_list(member_ids)} {'is' if len(member_ids) == 1 else 'are'} {what}"


def _list(member_ids: Sequence[int]) -> str:
    return ", ".join(map(str, member_ids))
