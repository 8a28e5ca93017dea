package load

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"notifier/test/env"
)

const (
	// publishers is how many publish at a time. Each publishes messages of the size of an event and waits for each
	// acknowledgement.
	publishers  = 64
	messageSize = 1200
)

// StartJetStream starts the baseline of durable messages: an embedded nats-server with SyncAlways, which acknowledges a
// message when it is on disk. It returns the URL for Publishes.
func StartJetStream(ctx context.Context) (*env.Process, string, error) {
	dir, err := env.TempDir("jetstream")
	if err != nil {
		return nil, "", err
	}
	return start(ctx, "jetstream", dir)
}

// Publishes makes the baseline publish for the time and returns the number of acknowledged messages a second.
func Publishes(ctx context.Context, url string, during time.Duration) (rate float64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/?for="+during.String(), nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the publishes ended with %s", resp.Status)
	}
	_, err = fmt.Fscan(resp.Body, &rate)
	return rate, err
}

func jetStream(dir string) (http.Handler, error) {
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, JetStream: true, StoreDir: dir, SyncAlways: true})
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		return nil, errors.New("nats-server is not ready")
	}
	conn, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	_, err = js.CreateStream(context.Background(), jetstream.StreamConfig{
		Name: "bench", Subjects: []string{"bench.>"}, Storage: jetstream.FileStorage, MaxBytes: 1 << 30,
	})
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		during, err := time.ParseDuration(r.FormValue("for"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		rate, err := publish(r.Context(), js, during)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, "%f\n", rate)
	}), nil
}

// publish returns the number of acknowledged messages a second.
func publish(ctx context.Context, js jetstream.JetStream, during time.Duration) (float64, error) {
	body := []byte(strings.Repeat("x", messageSize))
	var acknowledged atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	begin := time.Now()
	for i := range publishers {
		g.Go(func() error {
			for time.Since(begin) < during {
				if _, err := js.Publish(ctx, fmt.Sprintf("bench.%d", i), body); err != nil {
					return err
				}
				acknowledged.Add(1)
			}
			return nil
		})
	}
	err := g.Wait()
	return float64(acknowledged.Load()) / time.Since(begin).Seconds(), err
}
