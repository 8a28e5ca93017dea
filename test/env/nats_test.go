package env_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"notifier/test/env"
)

func TestNATSServerKeepsPortAndDataOverKill9(t *testing.T) {
	// The first build of the server takes a while.
	ctx := within(t, 5*time.Minute)
	server, err := env.StartNATS(ctx, env.NATSOptions{SyncAlways: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	connect := func() (*nats.Conn, jetstream.JetStream) {
		t.Helper()
		conn, err := nats.Connect(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		js, err := jetstream.New(conn)
		if err != nil {
			t.Fatal(err)
		}
		return conn, js
	}

	conn, js := connect()
	if got := conn.MaxPayload(); got != 8<<20 {
		t.Errorf("maximal payload is %d", got)
	}
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(ctx, "s", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	if err := server.Kill9(); err != nil {
		t.Fatal(err)
	}
	if err := server.Again(ctx); err != nil {
		t.Fatal(err)
	}
	_, js = connect()
	stream, err := js.Stream(ctx, "S")
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("after kill -9 the stream holds %d messages, want 1", n)
	}
	if err := server.Stop(); err != nil {
		t.Errorf("stop: %v\n%s", err, server.Process().Logs())
	}
}
