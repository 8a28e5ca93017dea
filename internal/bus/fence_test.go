package bus

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/event"
	"notifier/internal/fair"
)

// replicaEnv makes the test binary a replica that acts while it is the worker, until it is killed: "<URL of NATS>".
const replicaEnv = "NOTIFIER_BUS_REPLICA"

// running is printed in place of a shard when nothing would be sent.
const running = -1

// replica prints a line, "<shard> <nanoseconds>", whenever it would send now, and lines with running all the time.
func replica(url string) int {
	ctx := context.Background()
	b, err := Open(ctx, Options{
		URL: url, ReplicaID: "paused", Shards: fleetShards, Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() {
		for fair.Sleep(ctx, 2*time.Millisecond) == nil {
			fmt.Fprintln(os.Stdout, running, time.Now().UnixNano())
		}
	}()
	_ = b.Deliveries(ctx, func(ctx context.Context, shard int, _ <-chan event.Message[event.Delivery]) error {
		for ctx.Err() == nil {
			now := time.Now()
			if event.Owned(ctx) {
				fmt.Fprintln(os.Stdout, shard, now.UnixNano())
			}
			_ = fair.Sleep(ctx, 2*time.Millisecond)
		}
		return nil
	})
	return 0
}

// E3, T4: a process that was stopped until another took its work over does nothing when it continues. Fails when Owned reads the context
// alone, and when a term continues after it has lapsed: a renewal's answer is read before Owned is called.
func TestAReplicaThatWasStoppedSendsNothingForWhatItLost(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), replicaEnv+"="+f.url)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	acts := make(chan act, 1000)
	go readActs(out, acts)
	for receive(t, acts).shard == running {
		continue
	}
	f.join("other")
	must(t, cmd.Process.Signal(syscall.SIGSTOP))
	f.await("other")
	resumed := time.Now()
	must(t, cmd.Process.Signal(syscall.SIGCONT))
	for looks := 0; looks < 500; { // a second
		a := receive(t, acts)
		if a.at.Before(resumed) {
			continue
		}
		looks++
		if a.shard != running {
			t.Fatalf("it acted for shard %d, %s after it went on", a.shard, a.at.Sub(resumed))
		}
	}
	f.await("other")
}

// act is a message that a replica would have sent.
type act struct {
	shard int
	at    time.Time
}

func readActs(out interface{ Read([]byte) (int, error) }, acts chan<- act) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		shard, at, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.Atoi(shard)
		nanos, err2 := strconv.ParseInt(at, 10, 64)
		if err == nil && err2 == nil {
			acts <- act{n, time.Unix(0, nanos)}
		}
	}
	close(acts)
}

// E3: a worker that was stopped until another routes runs on for a moment before its context ends. Fails when events are handed out without
// a call of the fence.
func TestE3AReaderThatWasReplacedHandsNothingOut(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	c, err := b.takeOver(ctx, routeRole())
	must(t, err)
	out := make(chan event.Message[*event.Record], 1)
	r := &eventReader{consumer: c, handler: newHeldEvents().handler(), out: out}
	replaced := event.WithFence(ctx, func() bool { return false })
	if err := r.hand(replaced, logEntry{seq: 1, record: testRecord("1", "team", "app")}); !errors.Is(err, errFenced) || len(out) > 0 {
		t.Errorf("got %v, %d handed out", err, len(out))
	}
}
