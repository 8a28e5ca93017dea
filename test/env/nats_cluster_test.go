package env_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"notifier/test/env"
)

// A stream of three replicas outlives the kill of its leader, and the killed node returns with the messages published
// meanwhile. Fails when the nodes do not find each other, when a node other than the leader is named, or when a killed
// node is started without its data and under another name.
func TestANATSClusterOutlivesItsLeader(t *testing.T) {
	t.Parallel()
	// The first build of the server takes a while.
	ctx := within(t, 5*time.Minute)
	cluster, err := env.StartNATSCluster(ctx, env.NATSOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	conn, err := nats.Connect(cluster.URL, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	answered := func(request func(ctx context.Context) error) {
		t.Helper()
		if err := env.Eventually(ctx, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // a server that is killed, or has just lost its leader, does not answer
			defer cancel()
			return request(ctx)
		}); err != nil {
			t.Fatal(err)
		}
	}
	publish := func(id string) {
		t.Helper()
		answered(func(ctx context.Context) error {
			_, err := js.Publish(ctx, "s", []byte(id), jetstream.WithMsgID(id))
			return err
		})
	}
	var stream jetstream.Stream
	answered(func(ctx context.Context) (err error) {
		stream, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Replicas: 3})
		return err
	})
	publish("before")
	leader, err := cluster.Leader(ctx, "S")
	if err != nil {
		t.Fatal(err)
	}
	if name := serverName(t, leader.URL); name != stream.CachedInfo().Cluster.Leader {
		t.Errorf("%s is said to lead, and %s does", name, stream.CachedInfo().Cluster.Leader)
	}
	if err := leader.Kill9(); err != nil {
		t.Fatal(err)
	}
	publish("meanwhile")
	if err := leader.Again(ctx); err != nil {
		t.Fatal(err)
	}
	err = env.Eventually(ctx, func(ctx context.Context) error {
		stream, err := js.Stream(ctx, "S")
		if err != nil {
			return err
		}
		info := stream.CachedInfo()
		if info.State.Msgs != 2 || len(info.Cluster.Replicas) != 2 {
			return fmt.Errorf("the stream holds %d messages and has %d followers, want 2 and 2", info.State.Msgs, len(info.Cluster.Replicas))
		}
		for _, follower := range info.Cluster.Replicas {
			if !follower.Current || follower.Offline {
				return fmt.Errorf("%s is not current", follower.Name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// serverName returns the name that the server reports.
func serverName(t *testing.T, url string) string {
	t.Helper()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectedServerName()
}
