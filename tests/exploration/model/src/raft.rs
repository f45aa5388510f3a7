//! Raft's steps, each with the rules under which it is allowed: None where one does not hold.

use std::collections::BTreeMap;

/// Runs: the term, and where its last record ends.
pub type Log = Vec<(i8, u8)>;
/// A bit for each member.
pub type Members = u8;

const NOBODY: i8 = -1;
/// The vote of a term in which a member may have voted before it crashed.
const SPENT: i8 = -2;
const NO_TERM: i8 = -1;

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct Node {
    pub term: i8,
    pub vote: i8,
    pub log: Log,
    pub durable: u8,
    pub commit: u8,
    pub leads: bool,
}

/// What a candidate asked for votes with, and who gave one.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct Request {
    pub log: Log,
    pub voters: Members,
}

/// Who leads a term, all that it has had in its log, and how far it has committed.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct Office {
    pub leader: u8,
    pub log: Log,
    pub commit: u8,
}

/// All members, and all that was ever so and may still be heard of.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct Raft {
    pub voters: Members,
    pub nodes: Vec<Node>,
    pub requests: BTreeMap<(i8, u8), Request>,
    pub offices: BTreeMap<i8, Office>,
    pub changes: BTreeMap<(i8, u8), Members>,
}

pub fn end_of(log: &[(i8, u8)]) -> u8 {
    log.last().map_or(0, |run| run.1)
}

fn last_term(log: &[(i8, u8)]) -> i8 {
    log.last().map_or(NO_TERM, |run| run.0)
}

/// The log up to a position.
fn cut(log: &[(i8, u8)], end: u8) -> Log {
    let mut kept = Log::new();
    for &(term, run_end) in log {
        if end_of(&kept) >= end {
            break;
        }
        kept.push((term, run_end.min(end)));
    }
    kept
}

/// The term of the record that ends at a position, if the log has one there.
fn term_at(log: &[(i8, u8)], end: u8) -> i8 {
    log.iter().find(|run| run.1 >= end).map_or(NO_TERM, |run| run.0)
}

fn is_prefix(one: &[(i8, u8)], other: &[(i8, u8)]) -> bool {
    cut(other, end_of(one)) == one
}

/// Up to where two logs are the same.
fn common_end(one: &[(i8, u8)], other: &[(i8, u8)]) -> u8 {
    let shorter = end_of(one).min(end_of(other));
    (0..=shorter).rev().find(|&end| cut(one, end) == cut(other, end)).unwrap_or(0)
}

/// What must be so in each state.
pub fn check(raft: &Raft) -> bool {
    let agree = raft.nodes.iter().all(|one| {
        raft.nodes.iter().all(|other| {
            let end = one.commit.min(other.commit);
            cut(&one.log, end) == cut(&other.log, end)
        })
    });
    agree
        && raft.offices.iter().all(|(term, office)| {
            let committed = cut(&office.log, office.commit);
            raft.offices.range(term..).all(|(_, later)| is_prefix(&committed, &later.log))
        })
}

impl Raft {
    pub fn new(members: u8) -> Self {
        let node = Node { term: NO_TERM, vote: NOBODY, log: Log::new(), durable: 0, commit: 0, leads: false };
        Raft {
            voters: ((1u16 << members) - 1) as Members,
            nodes: vec![node; members as usize],
            requests: BTreeMap::new(),
            offices: BTreeMap::new(),
            changes: BTreeMap::new(),
        }
    }

    fn node(&self, member: u8) -> &Node {
        &self.nodes[member as usize]
    }

    fn with(&self, member: u8, change: impl FnOnce(&mut Node)) -> Raft {
        let mut after = self.clone();
        change(&mut after.nodes[member as usize]);
        after
    }

    /// The records of a log that say who votes, by where they end.
    fn changes_of<'a>(&'a self, log: &'a [(i8, u8)]) -> impl Iterator<Item = (u8, Members)> + 'a {
        let is_in = |&(&(term, end), _): &(&(i8, u8), &Members)| end <= end_of(log) && term_at(log, end) == term;
        self.changes.iter().filter(is_in).map(|(&(_, end), &voters)| (end, voters))
    }

    fn voters_of(&self, log: &[(i8, u8)]) -> Members {
        self.changes_of(log).max_by_key(|change| change.0).map_or(self.voters, |change| change.1)
    }

    fn is_quorum(&self, members: Members, log: &[(i8, u8)]) -> bool {
        let voters = self.voters_of(log);
        2 * (members & voters).count_ones() > voters.count_ones()
    }

    /// §5.1: a member is bound to a higher term that somebody has opened.
    pub fn learn_term(&self, member: u8, term: i8) -> Option<Raft> {
        let is_opened = self.requests.keys().any(|key| key.0 == term);
        (term > self.node(member).term && is_opened).then(|| {
            self.with(member, |node| {
                node.term = term;
                node.vote = NOBODY;
                node.leads = false;
            })
        })
    }

    /// §5.2: a candidate opens a term above those that it knows, with a vote for itself.
    pub fn stand(&self, member: u8, term: i8) -> Option<Raft> {
        let own = self.node(member);
        (term > own.term && term > last_term(&own.log)).then(|| {
            let mut after = self.with(member, |node| {
                node.term = term;
                node.vote = member as i8;
                node.leads = false;
            });
            after.requests.insert((term, member), Request { log: own.log.clone(), voters: 1 << member });
            after
        })
    }

    /// §5.2, §5.4.1: one vote in a term, and to a log that is as new as the own. A vote may be given again.
    pub fn vote(&self, member: u8, candidate: u8, term: i8) -> Option<Raft> {
        let own = self.node(member);
        let request = self.requests.get(&(term, candidate))?;
        if term == own.term && own.vote == candidate as i8 && request.voters & 1 << member != 0 {
            return Some(self.clone());
        }
        let is_free = term > own.term || (term == own.term && [NOBODY, candidate as i8].contains(&own.vote));
        let is_as_new = (last_term(&request.log), end_of(&request.log)) >= (last_term(&own.log), end_of(&own.log));
        (is_free && is_as_new).then(|| {
            let mut after = self.with(member, |node| {
                node.term = term;
                node.vote = candidate as i8;
                node.leads = false;
            });
            after.requests.entry((term, candidate)).and_modify(|given| given.voters |= 1 << member);
            after
        })
    }

    /// §5.2: a candidate leads once a quorum has voted for it.
    pub fn lead(&self, member: u8) -> Option<Raft> {
        let own = self.node(member);
        let request = self.requests.get(&(own.term, member))?;
        let is_elected = own.vote == member as i8
            && request.log == own.log
            && self.is_quorum(request.voters, &own.log)
            && !self.offices.contains_key(&own.term);
        is_elected.then(|| {
            let mut after = self.with(member, |node| node.leads = true);
            after.offices.insert(own.term, Office { leader: member, log: own.log.clone(), commit: own.commit });
            after
        })
    }

    pub fn resign(&self, member: u8) -> Option<Raft> {
        Some(self.with(member, |node| node.leads = false))
    }

    /// §5.3, dissertation §4.1: a leader appends; who votes changes by one, and once the change before is committed.
    pub fn append(&self, member: u8, end: u8, voters: Option<Members>) -> Option<Raft> {
        let own = self.node(member);
        if !own.leads || !self.offices.contains_key(&own.term) || end <= end_of(&own.log) {
            return None;
        }
        if let Some(wanted) = voters {
            let is_one = (self.voters_of(&own.log) ^ wanted).count_ones() <= 1;
            let is_settled = self.changes_of(&own.log).all(|change| change.0 <= own.commit);
            let has_begun = last_term(&cut(&own.log, own.commit)) == own.term;
            if !(is_one && is_settled && has_begun) {
                return None;
            }
        }
        let mut log = own.log.clone();
        match log.last_mut() {
            Some(run) if run.0 == own.term => run.1 = end,
            _ => log.push((own.term, end)),
        }
        let mut after = self.with(member, |node| node.log = log.clone());
        after.offices.entry(own.term).and_modify(|office| office.log = log);
        if let Some(wanted) = voters {
            after.changes.insert((own.term, end), wanted);
        }
        Some(after)
    }

    /// §5.3: more of the leader's log is copied, of which the own is the beginning.
    pub fn copy(&self, member: u8, end: u8) -> Option<Raft> {
        let own = self.node(member);
        let office = self.offices.get(&own.term)?;
        let is_next = end > end_of(&own.log) && end <= end_of(&office.log);
        (!own.leads && is_prefix(&own.log, &office.log) && is_next)
            .then(|| self.with(member, |node| node.log = cut(&office.log, end)))
    }

    /// §5.3, §5.4.3: what contradicts the leader's log is removed; nothing that it has, and nothing that is committed.
    pub fn truncate(&self, member: u8, end: u8) -> Option<Raft> {
        let own = self.node(member);
        let office = self.offices.get(&own.term)?;
        let is_allowed = end < end_of(&own.log) && end >= common_end(&own.log, &office.log) && end >= own.commit;
        (!own.leads && is_allowed).then(|| {
            self.with(member, |node| {
                node.log = cut(&node.log, end);
                node.durable = node.durable.min(end);
            })
        })
    }

    pub fn sync(&self, member: u8, end: u8) -> Option<Raft> {
        let own = self.node(member);
        (own.durable <= end && end <= end_of(&own.log)).then(|| self.with(member, |node| node.durable = end))
    }

    /// §5, §5.3: what is not durable may be lost, but not while its member leads, who would write something else there.
    pub fn lose(&self, member: u8, end: u8) -> Option<Raft> {
        let own = self.node(member);
        let is_allowed = !own.leads && own.durable <= end && end <= end_of(&own.log);
        is_allowed.then(|| self.with(member, |node| node.log = cut(&node.log, end)))
    }

    /// A member starts again with its term, that a vote may have been given in it, and its log.
    pub fn crash(&self, member: u8) -> Raft {
        self.with(member, |node| {
            node.vote = SPENT;
            node.durable = end_of(&node.log);
            node.commit = 0;
            node.leads = false;
        })
    }

    /// §5.3, §5.4.2: a leader commits what a quorum has, up to a record of its term; others what their leader has.
    pub fn commit(&self, member: u8, end: u8) -> Option<Raft> {
        let own = self.node(member);
        let office = self.offices.get(&own.term)?;
        if end <= own.commit || end > own.durable {
            return None;
        }
        let log = cut(&own.log, end);
        let mut after = self.with(member, |node| node.commit = end);
        if !own.leads {
            return (end <= office.commit && is_prefix(&log, &office.log)).then_some(after);
        }
        let holds = |node: &Node| is_prefix(&log, &cut(&node.log, node.durable));
        let holders = (0..self.nodes.len()).filter(|&one| holds(&self.nodes[one])).fold(0, |all, one| all | 1 << one);
        if last_term(&log) != own.term || !self.is_quorum(holders, &cut(&own.log, own.durable)) {
            return None;
        }
        after.offices.entry(own.term).and_modify(|office| office.commit = end);
        Some(after)
    }
}
