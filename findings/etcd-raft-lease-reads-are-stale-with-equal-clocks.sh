#!/usr/bin/env bash
# etcd's Raft library (go.etcd.io/raft/v3, 3.7.0) answers reads by a lease if it is told to (ReadOnlyLeaseBased, with
# CheckQuorum): the leader asks nobody. Its page says that this is linearizable unless clocks drift without bound.
#
# The surprise: clocks may be perfect, and reads are stale all the same. The leader asks once in an election timeout
# whether a majority was heard since it last asked. Followers forget it one election timeout after they last heard it. So
# a leader that is cut off just after it asked passes the next time, for what it had heard at the beginning, and leads
# almost two timeouts without a majority, while the others elect a new one after one timeout, and write. In between the
# old leader gives answers that miss what was written and acknowledged. CheckQuorum is there, and is no lease.
#
# Seen with: go.etcd.io/raft/v3 3.7.0 on Go 1.26; three members in one process, whose ticks come at the same moment and
# whose messages take no time; election timeout 10 ticks, heartbeat 1, PreVote and CheckQuorum; the leader is cut off one
# tick after it asked:
#   ReadOnlyLeaseBased   the others have written 10 ticks later; the old leader's reads are stale up to tick 18
#   ReadOnlySafe         no stale read; the old leader answers none
#
# What follows: keep ReadOnlySafe, the default. A lease must be counted from the moment at which the heartbeat was sent
# that a majority answered, and end before any of them may vote.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >go.mod <<'GO'
module ask

go 1.26

require (
	go.etcd.io/raft/v3 v3.7.0
	google.golang.org/protobuf v1.36.11
)
GO
cat >ask.go <<'GO'
package main

import (
	"fmt"
	"io"
	"log"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

const ticks = 10 // the election timeout; heartbeats go out at every tick

type member struct {
	*raft.RawNode
	storage   *raft.MemoryStorage
	committed uint64
	reads     []raft.ReadState
}

type cluster struct {
	members []*member
	cut     bool // whether member 1 is cut off from 2 and 3
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func newCluster(option raft.ReadOnlyOption) *cluster {
	made := &cluster{}
	for id := uint64(1); id <= 3; id++ {
		storage := raft.NewMemoryStorage()
		voters := &pb.ConfState{Voters: []uint64{1, 2, 3}}
		must(storage.ApplySnapshot(&pb.Snapshot{Metadata: &pb.SnapshotMetadata{
			ConfState: voters, Index: proto.Uint64(1), Term: proto.Uint64(1),
		}}))
		node, err := raft.NewRawNode(&raft.Config{
			ID: id, ElectionTick: ticks, HeartbeatTick: 1, Storage: storage, Applied: 1, MaxSizePerMsg: 1 << 20,
			MaxInflightMsgs: 16, CheckQuorum: true, PreVote: true, ReadOnlyOption: option,
			Logger: &raft.DefaultLogger{Logger: log.New(io.Discard, "", 0)},
		})
		must(err)
		made.members = append(made.members, &member{RawNode: node, storage: storage})
	}
	return made
}

// deliver hands over all messages until none is on the way; none is ever slow.
func (c *cluster) deliver() {
	for busy := true; busy; {
		busy = false
		for _, from := range c.members {
			for from.HasReady() {
				busy = true
				ready := from.Ready()
				must(from.storage.Append(ready.Entries))
				if ready.HardState != nil {
					must(from.storage.SetHardState(ready.HardState))
				}
				from.reads = append(from.reads, ready.ReadStates...)
				from.committed = max(from.committed, from.BasicStatus().GetCommit())
				from.Advance(ready)
				for _, message := range ready.Messages {
					if c.cut && (message.GetFrom() == 1) != (message.GetTo() == 1) {
						continue
					}
					must(c.members[message.GetTo()-1].Step(message))
				}
			}
		}
	}
}

func (c *cluster) tick() {
	for _, one := range c.members {
		one.Tick()
	}
	c.deliver()
}

func (c *cluster) isLeader(id int) bool {
	return c.members[id-1].BasicStatus().RaftState == raft.StateLeader
}

// ask cuts the leader off one tick after it checked its quorum, and says what it answers from then on.
func ask(option raft.ReadOnlyOption) string {
	c := newCluster(option)
	old := c.members[0]
	must(old.Campaign())
	c.deliver()
	for range 2*ticks + 1 {
		c.tick()
	}
	c.cut = true
	first, last, end, written := 0, 0, 0, uint64(0)
	for now := 1; now <= 3*ticks && end == 0; now++ {
		c.tick()
		if !c.isLeader(1) {
			end = now
			break
		}
		if now >= ticks && !c.isLeader(2) && !c.isLeader(3) {
			must(c.members[1].Campaign()) // as the shortest timer that it may draw does
			c.deliver()
		}
		for id := 2; id <= 3 && written == 0; id++ {
			if c.isLeader(id) {
				must(c.members[id-1].Propose([]byte("new")))
				c.deliver()
				written = c.members[id-1].committed
			}
		}
		old.reads = nil
		old.ReadIndex([]byte("read"))
		c.deliver()
		if written > 0 && len(old.reads) > 0 && old.reads[0].Index < written {
			if first == 0 {
				first = now
			}
			last = now
		}
	}
	if first == 0 {
		return fmt.Sprintf("written at %d, nothing stale, no longer leader at tick %d", written, end)
	}
	return fmt.Sprintf("written at %d, stale from tick %d to %d, no longer leader at tick %d", written, first, last, end)
}

func main() {
	fmt.Println("lease:", ask(raft.ReadOnlyLeaseBased))
	fmt.Println("safe:", ask(raft.ReadOnlySafe))
}
GO
GOTOOLCHAIN=local GOFLAGS=-mod=mod go build -o ask-go . 2>go.txt || { cat go.txt; exit 1; }
seen=$(for _ in 1 2 3; do ./ask-go; done | sort -u)
echo "$seen"
expected='lease: written at 4, stale from tick 10 to 18, no longer leader at tick 19
safe: written at 4, nothing stale, no longer leader at tick 19'
[[ $seen == "$expected" ]] || { echo "this has changed" >&2; exit 1; }
