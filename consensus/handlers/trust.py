"""Trust: members that lost something they had acknowledged may not vote until they are trusted again.

A member votes, and stands, with the promise that it still has every record it acknowledged and knows every term it
voted in. One that finds a part of its log or its vote gone takes no part in elections until it can give that promise:

    LOG   the log lacks records that were acknowledged. It follows a leader that the others elected, and copies its log.
          It is whole again once everything that leader had published, when it was asked after this start, is committed.
    VOTE  a vote may have been given in a term that is forgotten. It follows nobody until every other member has told
          the term it is bound to, then binds itself to the highest.

One whose service's state is in doubt (STATE) lost nothing of this: it votes, and stands back from leading. So does one
whose service is far behind while another's is level.

docs/CONSENSUS.md, Trust, has the argument. Such a member says so with each TrustRequest, so that nobody waits for its
vote; the answers give terms and the end of the leader's log. Answers to earlier starts do not count: their request id
is another.
"""

from ordo.consensus.state.commands import PersistCandidateTerm, PersistDistrust
from ordo.consensus.state.context import Context
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.messages import FORGOTTEN_TERM, NULL_TERM, StandsBack, TrustAnswer, TrustRequest
from ordo.consensus.state.states import ElectionState
from ordo.runtime.native.sentinels import NULL_POSITION


def send_trust_request(ctx: Context) -> None:
    """Tell all others, once per heartbeat interval, that this member does not vote or lead.

    It says what it must learn before it votes, or that it does not want to lead.
    """
    if not ((ctx.distrust or ctx.lags) and ctx.now_ns >= ctx.trust_send_ns):
        return
    ctx.trust_send_ns = ctx.now_ns + ctx.config.leader_heartbeat_interval_ns
    if ctx.distrust.is_loss:
        ctx.broadcast(TrustRequest(ctx.trust_request_id, ctx.own.member_id))
    else:
        ctx.broadcast(StandsBack(ctx.own.member_id))


def on_stands_back(ctx: Context, message: StandsBack) -> None:
    """Note that a member stands back, so that the leadership is not handed to it."""
    ctx.members[message.member_id].stood_back_ns = ctx.now_ns


def on_trust_request(ctx: Context, message: TrustRequest) -> None:
    """Stop waiting for that member's vote, and tell it this member's term.

    The term is left out if it is forgotten here, too. A leader with the term's first record appended tells the term it
    leads.
    """
    ctx.members[message.member_id].distrusted_ns = ctx.now_ns
    leads = ctx.is_leading and ctx.state is not ElectionState.LEADER_INIT
    answer = TrustAnswer(
        message.request_id,
        ctx.own.member_id,
        FORGOTTEN_TERM if Distrust.VOTE in ctx.distrust else ctx.candidate_term_id,
        ctx.leadership_term_id if leads else NULL_TERM,
        ctx.append_position if leads else NULL_POSITION,
    )
    ctx.send(message.member_id, answer)


def on_trust_answer(ctx: Context, message: TrustAnswer) -> None:
    """Take note of a term, and of the end of the log of the leader this member follows."""
    if not ctx.distrust or message.request_id != ctx.trust_request_id:
        return
    ctx.trust_terms[message.member_id] = message.candidate_term_id
    is_from_leader = (
        ctx.is_following
        and message.member_id == ctx.progress.leader_member_id
        and message.leadership_term_id == ctx.leadership_term_id
    )
    if is_from_leader and ctx.trust_position == NULL_POSITION:
        ctx.trust_position = message.log_position
    regain_vote(ctx)


def regain_vote(ctx: Context) -> None:
    """Trust the own vote again once all other members have reported their terms: none can be above those.

    Those that forgot theirs, too, are fewer than a quorum: a leader elected by forgotten votes is known to others.
    Stored in any case: a term that is known from the log alone would be forgotten with a part of it.
    """
    terms = ctx.trust_terms
    if Distrust.VOTE not in ctx.distrust or any(other.member_id not in terms for other in ctx.others()):
        return
    forgetful = sum(one is ctx.own or terms[one.member_id] == FORGOTTEN_TERM for one in ctx.voters())
    if forgetful >= ctx.quorum_threshold:
        return
    ctx.candidate_term_id = max(ctx.candidate_term_id, *terms.values())
    ctx.note_term(ctx.candidate_term_id)
    if ctx.candidate_term_id != NULL_TERM:
        ctx.emit(PersistCandidateTerm(ctx.candidate_term_id, ctx.append_position))
    set_distrust(ctx, ctx.distrust & ~Distrust.VOTE)


def regain_log(ctx: Context) -> None:
    """Trust this member's log again once all that the leader had published when asked is here and committed."""
    if Distrust.LOG in ctx.distrust and NULL_POSITION < ctx.trust_position <= ctx.progress.commit_position:
        set_distrust(ctx, ctx.distrust & ~Distrust.LOG)


def set_distrust(ctx: Context, distrust: Distrust) -> None:
    """Set the reasons for this member's distrust. The shell makes them durable before the member votes."""
    ctx.distrust = distrust
    ctx.emit(PersistDistrust(distrust))
