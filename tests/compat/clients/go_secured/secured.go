// Produces and consumes one record on franz-go over SASL_SSL with SCRAM-SHA-512.
// Arguments: bootstrap servers, file of the certificate authority, user, topic. The password is on standard input.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	authority, err := os.ReadFile(os.Args[2])
	check(err)
	password, err := io.ReadAll(os.Stdin)
	check(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	login := scram.Auth{User: os.Args[3], Pass: strings.TrimSpace(string(password))}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Args[1], ",")...),
		kgo.DialTLSConfig(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}),
		kgo.SASL(login.AsSha512Mechanism()),
		kgo.ConsumeTopics(os.Args[4]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	check(err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	check(client.ProduceSync(ctx, &kgo.Record{Topic: os.Args[4], Value: []byte("from franz-go")}).FirstErr())
	fetches := client.PollFetches(ctx)
	check(fetches.Err())
	fetches.EachRecord(func(record *kgo.Record) { fmt.Println(string(record.Value)) })
}
