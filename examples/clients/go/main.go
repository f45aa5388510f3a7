// A caller of Ordo gateways (docs/GATEWAY.md):
//
//	client submit FILE < requests        line N is request N of the identity in FILE, which is made the first time
//	client watch TOPIC SEQUENCE          what is published to a topic, from a number on
//	client consume NAME                  as a member of the shared durable consumer NAME
//
// ORDO_GATEWAYS is HOST:PORT,HOST:PORT; ORDO_TOKEN a token of the cluster; ORDO_CA a PEM file, for TLS.
// Without a token or TLS they are left out, or empty.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"ordo.example/client/ordo"
)

//go:generate protoc -I../../../service_api --go_out=. --go_opt=module=ordo.example/client,Mordo.proto=ordo.example/client/ordo --go-grpc_out=. --go-grpc_opt=module=ordo.example/client,Mordo.proto=ordo.example/client/ordo ordo.proto

// Gateways keep nothing that must not be lost: what one of them did not answer, another one is asked.
type Gateways struct {
	connections []*grpc.ClientConn
	current     int
	failures    int // in a row
}

// A gateway or cluster that is still full after so many failures in a row, or takes no such message, is not asked again.
const failuresMax = 8

func connect() (*Gateways, error) {
	security := insecure.NewCredentials()
	if ca := os.Getenv("ORDO_CA"); ca != "" {
		var err error
		if security, err = credentials.NewClientTLSFromFile(ca, ""); err != nil {
			return nil, err
		}
	}
	gateways := &Gateways{}
	for _, address := range strings.Split(os.Getenv("ORDO_GATEWAYS"), ",") {
		connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(security),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second}),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
		if err != nil {
			return nil, err
		}
		gateways.connections = append(gateways.connections, connection)
	}
	return gateways, nil
}

// Makes a call, again and at the next gateway for as long as its outcome is unknown or nobody can take it.
func (gateways *Gateways) call(once func(context.Context, *grpc.ClientConn) error) error {
	ctx := context.Background()
	if token := os.Getenv("ORDO_TOKEN"); token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	for {
		err := once(ctx, gateways.connections[gateways.current])
		switch code := status.Code(err); {
		case code == codes.Unavailable, code == codes.DeadlineExceeded:
		case code == codes.ResourceExhausted && gateways.failures < failuresMax:
		default:
			gateways.failures = 0
			return err
		}
		log.Print(err)
		gateways.current = (gateways.current + 1) % len(gateways.connections)
		time.Sleep(200 * time.Millisecond << min(gateways.failures, 4))
		gateways.failures++
	}
}

// An identity file has 32 hexadecimal digits, and where the log opened that identity.
var identityFile = regexp.MustCompile(`^([0-9a-fA-F]{32}) ([1-9][0-9]{0,18})\n$`)

// Position 0 is that of a new identity, which has no file yet.
func readIdentity(path string) (identity []byte, position int64, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		identity = make([]byte, 16)
		_, err = rand.Read(identity)
		return identity, 0, err
	}
	if err != nil {
		return nil, 0, err
	}
	fields := identityFile.FindSubmatch(text)
	if fields == nil {
		return nil, 0, fmt.Errorf("%s is not an identity file, which has 32 hexadecimal digits and a position: "+
			"name another file, or delete it if nothing was submitted with it", path)
	}
	if identity, err = hex.DecodeString(string(fields[1])); err == nil {
		position, err = strconv.ParseInt(string(fields[2]), 10, 64)
	}
	return identity, position, err
}

// Is on the disk before the first request is sent.
func writeIdentity(path string, identity []byte, position int64) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err = fmt.Fprintf(file, "%x %d\n", identity, position); err == nil {
		err = file.Sync()
	}
	return err
}

// An identity that the cluster has forgotten is opened at another position: then nobody knows which lines were executed.
func openIdentity(gateways *Gateways, path string) (identity []byte, opened *ordo.OpenIdentityResponse, err error) {
	identity, position, err := readIdentity(path)
	if err != nil {
		return nil, nil, err
	}
	err = gateways.call(func(ctx context.Context, connection *grpc.ClientConn) (err error) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		request := &ordo.OpenIdentityRequest{Identity: identity}
		opened, err = ordo.NewSequencerClient(connection).OpenIdentity(ctx, request)
		return err
	})
	switch {
	case err != nil:
	case position == 0:
		err = writeIdentity(path, identity, opened.IdentityPosition)
	case position != opened.IdentityPosition:
		err = fmt.Errorf("the cluster has forgotten the identity in %s, and which lines were executed: "+
			"find that out, and submit the others with a new file", path)
	}
	return identity, opened, err
}

// The same identity and number make a request the same: however often it is sent, it is executed once. So a program
// that was killed is started again with the same file and lines.
func submit(gateways *Gateways, path string) error {
	identity, opened, err := openIdentity(gateways, path)
	if err == nil && opened.Confirmed > 0 {
		log.Printf("skips the first %d lines, which were executed before", opened.Confirmed)
	}
	lines := bufio.NewReader(os.Stdin)
	for number, isLast := uint64(1), false; err == nil && !isLast; number++ {
		var line []byte
		if line, err = lines.ReadBytes('\n'); errors.Is(err, io.EOF) {
			isLast, err = true, nil
		}
		payload := bytes.TrimSuffix(line, []byte("\n"))
		switch {
		case err != nil || len(line) == 0 || number <= opened.Confirmed:
		case len(payload) > int(opened.PayloadBytesMax):
			err = fmt.Errorf("line %d has %d bytes, and the cluster takes %d: it was not sent, the lines before it were executed",
				number, len(payload), opened.PayloadBytesMax)
		default:
			err = submitOne(gateways, &ordo.SubmitRequest{
				Identity: identity, Number: number, Payload: payload,
				Confirmed: number - 1, IdentityPosition: opened.IdentityPosition,
			})
		}
	}
	return err
}

func submitOne(gateways *Gateways, request *ordo.SubmitRequest) error {
	err := gateways.call(func(ctx context.Context, connection *grpc.ClientConn) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		answer, err := ordo.NewSequencerClient(connection).Submit(ctx, request)
		if err == nil {
			fmt.Printf("%d\t%d\t%s\n", request.Number, answer.LogPosition, answer.Payload)
		}
		return err
	})
	if status.Code(err) == codes.FailedPrecondition { // executed: the service's own refusal is an answer, too
		fmt.Printf("%d\trefused\t%s\n", request.Number, status.Convert(err).Message())
		return nil
	}
	return err
}

// Messages of a topic have numbers without gaps: who goes on with the next one misses nothing.
func watch(gateways *Gateways, topic string, next uint64) error {
	return gateways.call(func(ctx context.Context, connection *grpc.ClientConn) error {
		stream, err := ordo.NewSequencerClient(connection).SubscribeTopic(ctx, &ordo.SubscribeTopicRequest{
			Topic: topic, Begin: &ordo.SubscribeTopicRequest_FromSequence{FromSequence: next},
		})
		for err == nil {
			var batch *ordo.TopicBatch
			if batch, err = stream.Recv(); err == nil {
				gateways.failures = 0
				for _, message := range batch.Messages {
					fmt.Printf("%d\t%s\n", message.Sequence, message.Payload)
					next = message.Sequence + 1
				}
			}
		}
		return err
	})
}

// What is not acknowledged, because this program or its gateway was killed, is handed out again to any member.
func consume(gateways *Gateways, name string) error {
	return gateways.call(func(ctx context.Context, connection *grpc.ClientConn) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := ordo.NewConsumersClient(connection).Consume(ctx)
		if err == nil {
			begin := &ordo.BeginConsuming{Name: name, IsShared: true}
			// A call that has ended has its error in Recv.
			_ = stream.Send(&ordo.ConsumeRequest{Step: &ordo.ConsumeRequest_Begin{Begin: begin}})
		}
		for err == nil {
			var batch *ordo.ConsumeResponse
			if batch, err = stream.Recv(); err == nil {
				gateways.failures = 0
				_ = stream.Send(&ordo.ConsumeRequest{Step: handle(batch.Entries)})
			}
		}
		return err
	})
}

func handle(entries []*ordo.ConsumedEntry) *ordo.ConsumeRequest_Acknowledgements {
	done := &ordo.Acknowledgements{}
	for _, one := range entries {
		fmt.Printf("%d\t%d\t%s\n", one.Entry.Position, one.TryCount, one.Entry.Payload)
		done.Acknowledgements = append(done.Acknowledgements,
			&ordo.Acknowledgement{Position: one.Entry.Position, TryCount: one.TryCount})
	}
	return &ordo.ConsumeRequest_Acknowledgements{Acknowledgements: done}
}

func run(arguments []string) error {
	gateways, err := connect()
	if err != nil {
		return err
	}
	switch {
	case len(arguments) == 2 && arguments[0] == "submit":
		return submit(gateways, arguments[1])
	case len(arguments) == 3 && arguments[0] == "watch":
		next, err := strconv.ParseUint(arguments[2], 10, 64)
		if err != nil {
			return err
		}
		return watch(gateways, arguments[1], next)
	case len(arguments) == 2 && arguments[0] == "consume":
		return consume(gateways, arguments[1])
	}
	return fmt.Errorf("usage: client submit FILE | watch TOPIC SEQUENCE | consume NAME")
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}
