//! Raft, abstract, for stateright: the specification of `tests/exploration/raft.py`, written a second time.
//!
//! `raft-model THREADS MEMBERS-TERMS-RECORDS-CRASHES-CHANGES...` goes through all states within each of the limits, and
//! prints how many there are, how deep the search went, and what is broken.

mod raft;

use raft::{check, Log, Raft};
use stateright::{Checker, Model, Property};
use std::time::Instant;

#[derive(Clone, Debug)]
struct Limits {
    members: u8,
    terms: i8,
    records: u8,
    crashes: u8,
    changes: u8,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    LearnTerm(i8),
    Stand(i8),
    Vote(u8, i8),
    Lead,
    Resign,
    Append,
    Change,
    Copy(u8),
    Truncate(u8),
    Sync(u8),
    Lose(u8),
    Crash,
    Commit(u8),
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct State {
    raft: Raft,
    crashes: u8,
}

impl Model for Limits {
    type State = State;
    type Action = (u8, Step);

    fn init_states(&self) -> Vec<State> {
        vec![State { raft: Raft::new(self.members), crashes: 0 }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<(u8, Step)>) {
        for member in 0..self.members {
            let end = raft::end_of(&state.raft.nodes[member as usize].log);
            let mut offer = |step: Step| actions.push((member, step));
            if state.crashes < self.crashes {
                offer(Step::Crash);
            }
            for term in 0..self.terms {
                offer(Step::LearnTerm(term));
                offer(Step::Stand(term));
                (0..self.members).for_each(|candidate| offer(Step::Vote(candidate, term)));
            }
            offer(Step::Lead);
            offer(Step::Resign);
            if end < self.records {
                offer(Step::Append);
                if state.raft.changes.len() < self.changes as usize {
                    offer(Step::Change);
                }
            }
            for position in 0..=self.records {
                offer(Step::Copy(position));
                offer(Step::Truncate(position));
                offer(Step::Sync(position));
                offer(Step::Lose(position));
                offer(Step::Commit(position));
            }
        }
    }

    fn next_state(&self, state: &State, (member, step): (u8, Step)) -> Option<State> {
        let raft = &state.raft;
        let end = raft::end_of(&raft.nodes[member as usize].log);
        let fewer = raft.voters & !(1 << (self.members - 1));
        let after = match step {
            Step::LearnTerm(term) => raft.learn_term(member, term),
            Step::Stand(term) => raft.stand(member, term),
            Step::Vote(candidate, term) => raft.vote(member, candidate, term),
            Step::Lead => raft.lead(member),
            Step::Resign => raft.resign(member),
            Step::Append => raft.append(member, end + 1, None),
            Step::Change => raft.append(member, end + 1, Some(fewer)),
            Step::Copy(to) => raft.copy(member, to),
            Step::Truncate(to) => raft.truncate(member, to),
            Step::Sync(to) => raft.sync(member, to),
            Step::Lose(to) => raft.lose(member, to),
            Step::Commit(to) => raft.commit(member, to),
            Step::Crash => return Some(State { raft: raft.crash(member), crashes: state.crashes + 1 }),
        };
        after.map(|raft| State { raft, crashes: state.crashes })
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("what is committed is the same everywhere, and later leaders have it", |_, state: &State| {
                check(&state.raft)
            }),
            Property::sometimes("a record is committed by two", |_, state: &State| {
                let has_some = |log: &Log, commit: u8| commit > 0 && !log.is_empty();
                state.raft.nodes.iter().filter(|node| has_some(&node.log, node.commit)).count() > 1
            }),
        ]
    }
}

fn limits_of(text: &str) -> Option<Limits> {
    let numbers: Vec<u8> = text.split('-').map(|one| one.parse().ok()).collect::<Option<_>>()?;
    let [members, terms, records, crashes, changes] = numbers[..] else { return None };
    Some(Limits { members, terms: terms as i8, records, crashes, changes })
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let threads = arguments.first().and_then(|one| one.parse().ok()).unwrap_or(1);
    let mut is_broken = false;
    for text in arguments.iter().skip(1) {
        let Some(limits) = limits_of(text) else {
            eprintln!("{text}: five numbers are wanted, MEMBERS-TERMS-RECORDS-CRASHES-CHANGES");
            std::process::exit(2);
        };
        let begin = Instant::now();
        let checker = limits.checker().threads(threads).spawn_bfs().join();
        let broken: Vec<_> = checker
            .model()
            .properties()
            .iter()
            .map(|one| one.name)
            .filter(|name| checker.discovery(name).is_some() == name.starts_with("what"))
            .collect();
        is_broken |= !broken.is_empty();
        let (states, depth) = (checker.unique_state_count(), checker.max_depth());
        println!("{text} {states} states, depth {depth}, {:.1} s, broken: {broken:?}", begin.elapsed().as_secs_f64());
    }
    std::process::exit(is_broken as i32);
}
