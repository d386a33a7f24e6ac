// Members of a consumer group on franz-go, each with a client of its own: classic range, classic
// cooperative, KIP-848. The contract is that of tests/support/members: settings as one JSON argument, events
// as JSON lines, each a single write, and everybody leaves when standard input ends.
package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type settings struct {
	Bootstrap   string   `json:"bootstrap"`
	Group       string   `json:"group"`
	Topic       string   `json:"topic"`
	Names       []string `json:"names"`
	Protocol    string   `json:"protocol"`
	SessionMs   int      `json:"session_ms"`
	HeartbeatMs int      `json:"heartbeat_ms"`
}

type facts map[string]any

func say(member, event string, more facts) {
	line := facts{"member": member, "event": event}
	for name, value := range more {
		line[name] = value
	}
	encoded, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	if _, err := os.Stdout.Write(append(encoded, '\n')); err != nil {
		panic(err)
	}
}

func partitionsOf(topics map[string][]int32) []int32 {
	all := []int32{}
	for _, partitions := range topics {
		all = append(all, partitions...)
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	return all
}

func options(member string, with settings) []kgo.Opt {
	session := time.Duration(with.SessionMs) * time.Millisecond
	heartbeat := time.Duration(with.HeartbeatMs) * time.Millisecond
	told := func(event string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, client *kgo.Client, topics map[string][]int32) {
			more := facts{"partitions": partitionsOf(topics)}
			if event == "assigned" {
				_, generation := client.GroupMetadata()
				more["generation"] = generation
			}
			say(member, event, more)
		}
	}
	all := []kgo.Opt{
		kgo.SeedBrokers(with.Bootstrap),
		kgo.ConsumerGroup(with.Group),
		kgo.ConsumeTopics(with.Topic),
		kgo.ClientID(member),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(told("assigned")),
		kgo.OnPartitionsRevoked(told("revoked")),
		kgo.OnPartitionsLost(told("lost")),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
		kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.MetadataMaxAge(5 * time.Second),
	}
	switch with.Protocol {
	case "consumer":
		return append(all, kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer())
	case "cooperative":
		all = append(all, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	default:
		all = append(all, kgo.Balancers(kgo.RangeBalancer()))
	}
	return append(all, kgo.SessionTimeout(session), kgo.HeartbeatInterval(heartbeat))
}

// process reports the records of one poll and commits them; the rebalance waits until the caller allows it.
func process(ctx context.Context, client *kgo.Client, member string, fetches kgo.Fetches) {
	done := map[int32][]int64{}
	last := []*kgo.Record{}
	fetches.EachPartition(func(part kgo.FetchTopicPartition) {
		if len(part.Records) == 0 {
			return
		}
		for _, record := range part.Records {
			done[part.Partition] = append(done[part.Partition], record.Offset)
		}
		last = append(last, part.Records[len(part.Records)-1])
	})
	if len(last) == 0 {
		return
	}
	for partition, offsets := range done {
		say(member, "processed", facts{"partition": partition, "offsets": offsets})
	}
	if err := client.CommitRecords(ctx, last...); err != nil {
		say(member, "refused", facts{"error": err.Error()})
		return
	}
	for _, record := range last {
		say(member, "committed", facts{"partition": record.Partition, "offset": record.Offset + 1})
	}
}

func run(member string, with settings, leave context.Context) {
	client, err := kgo.NewClient(options(member, with)...)
	if err != nil {
		panic(err)
	}
	for leave.Err() == nil {
		fetches := client.PollRecords(leave, 200)
		process(context.Background(), client, member, fetches)
		client.AllowRebalance()
	}
	client.Close()
	say(member, "closed", nil)
}

func main() {
	with := settings{}
	if err := json.Unmarshal([]byte(os.Args[1]), &with); err != nil {
		panic(err)
	}
	leave, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	members := sync.WaitGroup{}
	for _, name := range with.Names {
		members.Add(1)
		go func() {
			defer members.Done()
			run(name, with, leave)
		}()
	}
	members.Wait()
}
