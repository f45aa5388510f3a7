"""Which cluster's data each member has, and whether it is complete: sent with its proof, and once a second.

A stream of another member counts only once its sender has proven to be that member (`member_proofs`). With the proof it
says which cluster's log it has, and which start of the member this is. Data of another cluster, and an older copy of
the member's own data, are refused: nothing of that stream counts, no vote and no acknowledgement.

    another cluster's log   refused by each member that sees it; a member that a quorum of the others sees so ends
    an earlier start        refused, and told so (MemberBehind): it starts again as one that lost its log and its vote
    less than it had        of the start that was seen last, but with less than it had acknowledged: the same

docs/CONSENSUS.md, Whose data a folder has, has the argument.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ordo.cluster.module.state.folder_rows import NO_START, Claim, Start
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.log_identity import Log, are_of_two_clusters, pack_identity, unpack_identity
from ordo.consensus.state.distrust import Distrust
from ordo.runtime.errors import ClusterError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.runtime.sbe import bind

if TYPE_CHECKING:
    from ordo.cluster.module.members.cluster_identity import ClusterIdentity
    from ordo.cluster.module.state.host import MemberHost
    from ordo.cluster.module.state.peer_notes import PeerNotes, Point
    from ordo.cluster.module.state.peers import Contacts
    from ordo.cluster.module.state.state_store import StateStore
    from ordo.cluster.wire import records
    from ordo.consensus.core import ConsensusCore
    from ordo.runtime.sbe import Message

NUMBER_MAX = 1 << 62
EVERYTHING = Distrust.LOG | Distrust.VOTE
FOREIGN = "foreign"
NOTHING: Point = (NULL_VALUE, NULL_VALUE)


@dataclass(frozen=True)
class OwnFolder:
    """The claim of this member's folder, what it noted of other members, and its path for error texts."""

    claim: Claim
    notes: PeerNotes
    path: str


class Shown(NamedTuple):
    """What a member shows of its data."""

    log: Log
    start: Start
    distrust: Distrust


def shown_by(values: records.MemberProof | records.MemberStanding) -> Shown | None:
    """Return the standing that a MemberProof or MemberStanding shows; None if its release does not send it."""
    if not 0 < values.start_number <= NUMBER_MAX:
        return None
    return Shown(
        Log(pack_identity(values), values.identity_position, values.executed_position),
        Start(values.start_number, values.start_draw),
        Distrust(values.distrust & int(EVERYTHING)),
    )


class Standings:
    """What one member knows of the other members' data."""

    def __init__(
        self,
        host: MemberHost,
        core: ConsensusCore,
        contacts: Contacts,
        store: StateStore,
        identity: ClusterIdentity,
        own_id: int,
        folder: OwnFolder,
        executed_position: Callable[[], int],
    ) -> None:
        """Take the member's parts; `executed_position` returns how far it has executed the log."""
        self._host = host
        self._executed_position = executed_position
        self._core = core
        self._contacts = contacts
        self._store = store
        self._identity = identity
        self._claim = folder.claim
        self._own_id = own_id
        self._folder = folder.path
        self._starts = store.folder.peers()
        self._clusters = store.folder.peer_clusters()
        """Keyed by member: which cluster's data it showed with the start that is in `_starts`."""
        self._notes = folder.notes
        self._acknowledged: dict[int, Point] = folder.notes.load(self._starts)
        """Keyed by member: with the start that is in `_starts`, or with earlier ones."""
        self._foreign: dict[int, bytes] = {}
        """Members with data of another cluster, by what they showed last."""
        self._told: set[tuple[int, str]] = set()
        self.start_point: Point = (core.candidate_term_id, core.append_position)
        """What it had when it started, or when its log became whole again."""
        self._lacks_log = Distrust.LOG in core.distrust
        self._told_to_lack = Distrust.NONE
        self._first_position = core.commit_position
        self.handlers: dict[Message, Callable[[Any, int], None]] = dict(
            (
                bind(ordo_codecs.MEMBER_STANDING, self._on_standing),
                bind(ordo_codecs.MEMBER_BEHIND, self._on_behind),
            )
        )

    # -- what this member shows ----------------------------------------------------------------------------------------

    def _own_fields(self) -> dict[str, object]:
        log = self._own_log
        return {
            "member_id": self._own_id,
            "distrust": int(self._core.distrust & EVERYTHING),
            "identity_position": log.position,
            "executed_position": log.executed_position,
            "start_number": self._claim.start.number,
            "start_draw": self._claim.start.draw,
            **unpack_identity(log.identity),
        }

    @property
    def _own_log(self) -> Log:
        origin = self._identity.origin
        identity, position = (b"", self._first_position) if origin is None else origin
        return Log(identity, position, self._executed_position())

    def encode_proof(self, nonce: int) -> bytes:
        """Return the encoded answer to a challenge."""
        return ordo_codecs.MEMBER_PROOF.encode(
            nonce=nonce,
            previous_number=self._claim.previous.number,
            previous_draw=self._claim.previous.draw,
            start_term_id=self.start_point[0],
            start_position=self.start_point[1],
            **self._own_fields(),
        )

    def on_distrust(self, distrust: Distrust) -> Distrust:
        """Note what this member lacks from now on; return the note to be stored.

        A log that has become whole again has all that was acknowledged. Members that did not hear that it was not whole
        would compare with what was left of it at the start, and refuse this member for good. Once this member was told
        that its folder is an older copy, it regains nothing before it has started again.
        """
        distrust |= self._told_to_lack
        if self._lacks_log and Distrust.LOG not in distrust:
            self.start_point = (self._core.candidate_term_id, self._core.append_position)
        self._lacks_log = Distrust.LOG in distrust
        return distrust

    def work(self) -> None:
        """Tell the others, once a second.

        Raises ClusterError where a quorum has another cluster's log than this member.
        """
        self._demand_own_cluster()
        core = self._core
        has_joined = core.leader_member_id != NULL_VALUE and core.leadership_term_id == core.candidate_term_id
        term_id, position = (core.leadership_term_id, core.append_position) if has_joined else NOTHING
        standing = ordo_codecs.MEMBER_STANDING.encode(
            leadership_term_id=term_id, append_position=position, **self._own_fields()
        )
        self._contacts.broadcast(standing)

    # -- what others show ----------------------------------------------------------------------------------------------

    def admits(self, values: records.MemberProof) -> bool:
        """Return whether a proven member may take part, with the data that it shows."""
        shown = shown_by(values)
        if shown is None:
            return True
        member_id = int(values.member_id)
        if not self._is_of_this_cluster(member_id, shown):
            return False
        known = self._known_start(member_id, shown)
        if known == shown.start:
            return True
        previous = Start(values.previous_number, values.previous_draw)
        is_older = known != previous and known.number >= previous.number
        lost = self._find_lost(member_id, (values.start_term_id, values.start_position)) if known == previous else None
        if is_older or lost is not None:
            has_told = (EVERYTHING if is_older else Distrust.LOG) in shown.distrust
            if is_older or not has_told:
                self._tell_behind(member_id, shown, known)
            if not has_told:
                self._tell_of_old_data(member_id, lost)
                return False
        self._core.on_restarted(member_id)
        self._remember(member_id, shown)
        if shown.distrust:
            self._acknowledged.pop(member_id, None)
        elif member_id in self._acknowledged:
            self._notes.put(member_id, shown.start, self._acknowledged[member_id])
        return True

    def _known_start(self, member_id: int, shown: Shown) -> Start:
        """Return the newest start that was seen of a member, with data of the cluster that it shows now.

        A member that has no log yet admits data of any cluster. What it saw of a wrong folder says nothing of the
        member's own.
        """
        noted = self._clusters.get(member_id, b"")
        if noted and shown.log.identity and noted != shown.log.identity:
            self._acknowledged.pop(member_id, None)
            return NO_START
        return self._starts.get(member_id, NO_START)

    def _remember(self, member_id: int, shown: Shown) -> None:
        self._starts[member_id], self._clusters[member_id] = shown.start, shown.log.identity
        self._store.folder.put_peer(member_id, shown.start, shown.log.identity)

    def _find_lost(self, member_id: int, start_point: Point) -> Point | None:
        """Return what a member had acknowledged and no longer had at its start, or None."""
        known, progress = self._acknowledged.get(member_id, NOTHING), self._core.progress
        if self._core.is_leading:
            known = max(known, (self._core.leadership_term_id, int(progress.member_position(member_id))))
        return known if known[1] > NULL_VALUE and start_point < known else None

    def _is_of_this_cluster(self, member_id: int, shown: Shown) -> bool:
        own = self._own_log
        if not are_of_two_clusters(own, shown.log):
            self._foreign.pop(member_id, None)
            self._told.discard((member_id, FOREIGN))
            return True
        self._foreign[member_id] = shown.log.identity
        self._tell_once(
            (member_id, FOREIGN),
            f"member {member_id} has the data of another cluster (identity {shown.log}, here it is {own}), and counts "
            "for nothing: start it with its own data folder, or with an empty one and `--rejoin`",
        )
        return False

    def is_foreign(self, member_id: int) -> bool:
        """Return whether a member has shown that its data is of another cluster."""
        return member_id in self._foreign

    def _tell_once(self, what: tuple[int, str], text: str) -> None:
        if what not in self._told:
            self._told.add(what)
            self._host.record_error(text)

    def _tell_of_old_data(self, member_id: int, lost: Point | None) -> None:
        what = "" if lost is None else f", without what it acknowledged up to position={lost[1]} in term {lost[0]}"
        self._tell_once(
            (member_id, "old"),
            f"member {member_id} was started with an older copy of its data{what}: it does not vote or count until it "
            "has caught up",
        )

    def _tell_behind(self, member_id: int, shown: Shown, known: Start) -> None:
        """Tell a member that it lacks data.

        Only a member of the same identity is told: others must not hold members back.
        """
        origin = self._identity.origin
        if origin is None:
            return
        behind = ordo_codecs.MEMBER_BEHIND.encode(
            member_id=self._own_id,
            follower_member_id=member_id,
            start_number=shown.start.number,
            start_draw=shown.start.draw,
            known_number=max(known.number, shown.start.number),
            **unpack_identity(origin.identity),
        )
        self._contacts.send(member_id, behind)

    # -- what other members say ----------------------------------------------------------------------------------------

    def _on_standing(self, standing: records.MemberStanding, now_ns: int) -> None:
        shown = shown_by(standing)
        if shown is None or not self._is_of_this_cluster(standing.member_id, shown):
            return
        member_id = int(standing.member_id)
        if self._starts.get(member_id) != shown.start:
            return
        if shown.log.identity and shown.log.identity != self._clusters.get(member_id):
            self._remember(member_id, shown)
        if standing.append_position >= 0:
            self._note(member_id, shown.start, (standing.leadership_term_id, standing.append_position))

    def _note(self, member_id: int, start: Start, point: Point) -> None:
        if point > self._acknowledged.get(member_id, NOTHING):
            self._acknowledged[member_id] = point
            self._notes.put(member_id, start, point)

    def _on_behind(self, behind: records.MemberBehind, now_ns: int) -> None:
        """Note that another member knows of data that this one had and no longer has."""
        origin = self._identity.origin
        is_for_this = behind.follower_member_id == self._own_id
        is_of_this_start = (behind.start_number, behind.start_draw) == self._claim.start
        if not (is_for_this and is_of_this_start and 0 < behind.known_number < NUMBER_MAX):
            return
        if origin is not None and origin.identity != pack_identity(behind):
            return
        rows, start = self._store.folder, self._claim.start
        if rows.start.number <= behind.known_number:
            rows.put_start(Start(behind.known_number + 1, start.draw))
        if EVERYTHING in self._core.distrust or EVERYTHING in self._store.load().distrust:
            return
        self._told_to_lack = EVERYTHING
        self._store.put_distrust(self._core.distrust | EVERYTHING)
        text = (
            f"the data folder {self._folder} is an older copy: member {behind.member_id} knows that this member has "
            "had more. It starts again as one that lost its log and its vote, and votes and counts once it has caught "
            "up; if no other member can lead, see `ordo cluster trust --help`"
        )
        self._host.record_error(text)
        self._host.start_again(text)

    def _demand_own_cluster(self) -> None:
        for identity in set(self._foreign.values()):
            member_ids = sorted(one for one, found in self._foreign.items() if found == identity)
            if self._core.is_quorum(member_ids):
                raise ClusterError(self._describe_foreign_folder(member_ids, identity.hex()[:12] or "none"))

    def _describe_foreign_folder(self, member_ids: list[int], identity: str) -> str:
        return (
            f"the data folder {self._folder} is of another cluster: it has identity {self._own_log}, and members "
            f"{member_ids} have {identity}. If the folder is the wrong one, start this member with its own, or "
            "with an empty one and `--rejoin`; if theirs were emptied or exchanged, stop them, and start them with an "
            "empty folder and `--rejoin` while this member runs (`ordo cluster trust --help` if most are lost)"
        )
