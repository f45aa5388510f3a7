// A producer and a group of franz-go, a client in Go alone: `program produce|consume ADDRESS TOPIC COUNT`.
//
// produce sends COUNT records, idempotent as by default, and prints the offset of each; consume reads COUNT records as a
// member of the group TOPIC, prints offset, key and value of each, and commits.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func demand(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func produce(ctx context.Context, client *kgo.Client, topic string, count int) {
	records := make([]*kgo.Record, count)
	for index := range records {
		key, value := strconv.Itoa(index%3), strconv.Itoa(index)
		records[index] = &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value)}
	}
	results := client.ProduceSync(ctx, records...)
	demand(results.FirstErr())
	for _, one := range records {
		fmt.Println(one.Offset)
	}
}

func consume(ctx context.Context, client *kgo.Client, count int) {
	for found := 0; found < count; {
		fetches := client.PollFetches(ctx)
		for _, one := range fetches.Errors() {
			demand(one.Err)
		}
		fetches.EachRecord(func(one *kgo.Record) {
			fmt.Printf("%d\t%s\t%s\n", one.Offset, one.Key, one.Value)
			found++
		})
	}
	demand(client.CommitUncommittedOffsets(ctx))
	demand(client.LeaveGroupContext(ctx))
}

func main() {
	verb, address, topic := os.Args[1], os.Args[2], os.Args[3]
	count, err := strconv.Atoi(os.Args[4])
	demand(err)
	options := []kgo.Opt{kgo.SeedBrokers(address), kgo.AllowAutoTopicCreation()}
	if verb == "consume" {
		options = append(options, kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	}
	client, err := kgo.NewClient(options...)
	demand(err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if verb == "produce" {
		produce(ctx, client, topic, count)
	} else {
		consume(ctx, client, count)
	}
}
