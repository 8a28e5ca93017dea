package bus

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/event"
)

// childDirEnv makes the test binary a process that publishes until it is killed.
const childDirEnv = "NOTIFIER_BUS_CHILD"

const childCallers = 8

// child publishes events and triggers on several goroutines and prints a line after each acknowledgement, never before.
func child(dir string) int {
	b, err := Open(context.Background(), Options{
		DataDir: dir, Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(), Shards: 2,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	lines := make(chan string)
	for c := range childCallers {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d", c, i)
				if _, err := b.PublishEvent(context.Background(), testRecord(id, "team", "app"+strconv.Itoa(c))); err == nil {
					lines <- "event " + id
				}
				if err := b.PublishTriggers(context.Background(), testTrigger("team", "key"+strconv.Itoa(c), int64(i+1))); err == nil {
					lines <- "trigger " + strconv.Itoa(c) + " " + strconv.Itoa(i+1)
				}
			}
		}()
	}
	for line := range lines {
		fmt.Fprintln(os.Stdout, line)
	}
	return 0
}

// acknowledged runs a child until it has printed n lines, kills it with SIGKILL, and returns every line that it printed.
func acknowledged(t *testing.T, dir string, n int) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDirEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var lines []string
	scanner := bufio.NewScanner(out)
	for scanner.Scan() {
		lines = append(lines, scanner.Text())
		if len(lines) == n {
			must(t, cmd.Process.Kill())
		}
	}
	_ = cmd.Wait()
	if len(lines) < n {
		t.Fatalf("child ended after %d lines", len(lines))
	}
	return lines
}

// Invariants T3 and E2: an acknowledged message is there after kill -9, and the stream still recognizes its duplicates. Fails when the
// committer closes a round before it has written it.
func TestAcknowledgedMessagesSurviveKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	events, accepted := map[string]bool{}, map[string]int64{}
	for _, line := range acknowledged(t, dir, 400) {
		f := strings.Fields(line)
		if f[0] == "event" {
			events[f[1]] = true
			continue
		}
		n, err := strconv.ParseInt(f[2], 10, 64)
		must(t, err)
		accepted["key"+f[1]] = max(accepted["key"+f[1]], n)
	}
	b := open(t, dir, nil)
	for id := range events {
		duplicate, err := b.PublishEvent(testContext(t), testRecord(id, "team", "app"))
		if err != nil || !duplicate {
			t.Fatalf("event %s published again: duplicate %v, error %v", id, duplicate, err)
		}
	}
	missing := make(chan int)
	start(t, func(ctx context.Context) error {
		return b.Events(ctx, handlerOf(light, func(_ context.Context, batch []*event.Record) error {
			for _, r := range batch {
				delete(events, r.ID)
			}
			select {
			case missing <- len(events):
			case <-ctx.Done():
			}
			return nil
		}))
	})
	for receive(t, missing) > 0 {
		continue
	}
	held := make(chan event.Message[event.Trigger])
	start(t, triggerTo(b, held))
	for range accepted {
		h := receive(t, held)
		if got, least := h.Value.Accepted.Unix(), accepted[h.Value.Key]; got < least {
			t.Errorf("trigger %s was accepted at %d, one of %d was acknowledged", h.Value.Key, got, least)
		}
		must(t, h.Ack(testContext(t)))
	}
}

// Invariant E4 over a crash: messages that the dead process had in hand are handed out at once and before any younger one. Fails when
// takeOver does not reset the consumer: "1" is then handed out after event.AckWait, behind "2" and "3".
func TestMessagesOfADeadOwnerComeBackFirst(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, nil)
	ctx := testContext(t)
	must(t, publishDeliveries(ctx, b, []event.Delivery{testDelivery("1", "team", "slack"), testDelivery("2", "team", "slack")}))
	held := make(chan event.Message[event.Delivery])
	stop := start(t, deliverTo(b, held))
	if h := receive(t, held); h.Value.ID != "1" || !h.Value.Recheck {
		t.Fatalf("first hand-out: %s, recheck %v", h.Value.ID, h.Value.Recheck)
	}
	must(t, publishDeliveries(ctx, b, []event.Delivery{testDelivery("3", "team", "slack")}))
	die(b)
	stop()

	b = open(t, dir, nil)
	must(t, publishDeliveries(ctx, b, []event.Delivery{testDelivery("4", "team", "slack")}))
	held = make(chan event.Message[event.Delivery])
	start(t, deliverTo(b, held))
	var got []string
	for range 4 {
		h := receive(t, held)
		got = append(got, fmt.Sprint(h.Value.ID, " ", h.Value.Recheck))
		must(t, h.Ack(ctx))
	}
	if diff := cmp.Diff([]string{"1 true", "2 true", "3 true", "4 true"}, got); diff != "" {
		t.Error(diff)
	}
}

// die ends the server and the connection under a running bus: nothing is acknowledged, flushed or released.
func die(b *Bus) {
	b.closed.Store(true)
	b.abandon()
}

// A message at which the process dies each time becomes a dead letter after maxDeliveries of them, and the messages beside it do not. Fails
// when countCrashes does not count (the message then kills for ever).
func TestAMessageThatKillsTheProcessBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	limits := poisoning{cautiousAfter: 4, maxDeliveries: 10}
	openAgain := func() *Bus {
		b := open(t, dir, func(o *Options) { o.Shards = 1 })
		b.poisoning = limits
		return b
	}
	b := openAgain()
	must(t, publishDeliveries(testContext(t), b, []event.Delivery{
		testDelivery("good1", "team", "slack"), testDelivery("poison", "team", "slack"), testDelivery("good2", "team", "slack"),
	}))
	kills := 0
	for done := 0; done < 2; {
		held := make(chan event.Message[event.Delivery])
		stop := start(t, deliverTo(b, held))
		for done < 2 {
			h := receive(t, held)
			if h.Value.ID == "poison" {
				kills++
				die(b)
				break
			}
			must(t, h.Ack(testContext(t)))
			done++
		}
		stop()
		if done == 2 {
			break
		}
		if kills > limits.maxDeliveries {
			t.Fatalf("killed %d times", kills)
		}
		b = openAgain()
	}
	if kills != limits.maxDeliveries {
		t.Errorf("killed %d times, not %d", kills, limits.maxDeliveries)
	}
	dead := deadLetters(t, b)
	if len(dead) != 1 || header(dead[0].Header, headerLabel) != "poison" || dead[0].Header.Get(headerID) != "poison" {
		t.Errorf("dead letters: %v", dead)
	}
}

// E2: an event at which the process dies each time becomes a dead letter, and those beside it are routed. Fails when the reader of EVENTS
// does not count the crashes at its cursor, or does not hand the event out alone.
func TestE2AnEventThatKillsTheProcessBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	limits := poisoning{cautiousAfter: 4, maxDeliveries: 8}
	openAgain := func() *Bus {
		b := open(t, dir, func(o *Options) { o.Shards = 1 })
		b.poisoning = limits
		return b
	}
	b := openAgain()
	publishEvents(t, b, "good1", "poison", "good2")
	kills := 0
	for routed := map[string]bool{}; len(routed) < 2; {
		events := newHeldEvents()
		stop := start(t, events.read(b))
		for len(routed) < 2 {
			h := receive(t, events.handed)
			if h.Value.ID == "poison" {
				kills++
				die(b)
				events.drop(t, h)
				break
			}
			must(t, h.Ack(testContext(t)))
			routed[h.Value.ID] = true
		}
		stop()
		if len(routed) == 2 {
			break
		}
		// The count begins anew when the cursor has passed the first event, and a death may prevent that from being saved.
		if kills > limits.maxDeliveries+limits.cautiousAfter {
			t.Fatalf("killed %d times", kills)
		}
		b = openAgain()
	}
	if kills < limits.maxDeliveries {
		t.Errorf("killed %d times, not %d", kills, limits.maxDeliveries)
	}
	dead := deadLetters(t, b)
	if len(dead) != 1 || header(dead[0].Header, headerLabel) != "poison" {
		t.Errorf("dead letters: %v", dead)
	}
}
