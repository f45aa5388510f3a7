// Says of a history of registers whether it is linearizable, by Porcupine.
//
// The history is read from standard input, one operation a line, in JSON; the answer is one word: linearizable,
// violated or undecided. A register that nobody has written has the value that -initial gives, or none.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

// A value is missing where a register was never written, or where the outcome was never learnt.
type value = *uint64

type operation struct {
	Process  int    `json:"process"`
	Key      string `json:"key"`
	Kind     string `json:"kind"`
	Argument value  `json:"argument"`
	Expected value  `json:"expected"`
	Output   value  `json:"output"`
	Matched  *bool  `json:"matched"`
	Called   int64  `json:"called"`
	Returned int64  `json:"returned"`
	IsKnown  bool   `json:"is_known"`
}

// What a register holds, comparable by value.
type state struct {
	isWritten bool
	value     uint64
}

func stateOf(one value) state {
	if one == nil {
		return state{}
	}
	return state{true, *one}
}

// The text that was appended to is known by its hash, modulo 2^64, as the service keeps it.
func appended(before state, argument uint64) state {
	return state{true, before.value*1_000_003 + argument}
}

func step(before, input, _ interface{}) (bool, interface{}) {
	held, done := before.(state), input.(operation)
	switch done.Kind {
	case "read":
		return !done.IsKnown || stateOf(done.Output) == held, held
	case "write":
		return true, stateOf(done.Argument)
	case "append":
		after := appended(held, *done.Argument)
		return !done.IsKnown || stateOf(done.Output) == after, after
	case "cas":
		matches := stateOf(done.Expected) == held
		after := held
		if matches {
			after = stateOf(done.Argument)
		}
		return !done.IsKnown || *done.Matched == matches, after
	}
	log.Fatalf("kind=%q: a register knows read, write, cas and append", done.Kind)
	return false, nil
}

func partition(history []porcupine.Operation) [][]porcupine.Operation {
	byKey := map[string][]porcupine.Operation{}
	for _, one := range history {
		key := one.Input.(operation).Key
		byKey[key] = append(byKey[key], one)
	}
	parts := [][]porcupine.Operation{}
	for _, part := range byKey {
		parts = append(parts, part)
	}
	return parts
}

func read() []porcupine.Operation {
	history := []porcupine.Operation{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var one operation
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			log.Fatalf("line %d: %v", len(history)+1, err)
		}
		history = append(history, porcupine.Operation{
			ClientId: one.Process, Input: one, Output: nil, Call: one.Called, Return: one.Returned,
		})
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
	return history
}

func main() {
	initial := flag.Int64("initial", -1, "what a register holds at first; -1: nothing")
	limit := flag.Duration("limit", time.Minute, "give up after so long")
	flag.Parse()
	words := map[porcupine.CheckResult]string{
		porcupine.Ok: "linearizable", porcupine.Illegal: "violated", porcupine.Unknown: "undecided",
	}
	model := porcupine.Model{
		Partition: partition,
		Init: func() interface{} {
			if *initial < 0 {
				return state{}
			}
			return state{true, uint64(*initial)}
		},
		Step: step,
	}
	fmt.Println(words[porcupine.CheckOperationsTimeout(model, read(), *limit)])
}
