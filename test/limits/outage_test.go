package limits

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"notifier/test/env"
)

var (
	outageLasts  = flag.Duration("outage", 30*time.Second, "how long the destination of TestE4AnOutage is down")
	outageMaxAge = flag.Duration("max-age", 15*time.Second, "--delivery-max-age of TestE4AnOutage, shorter than -outage")
)

const (
	// outageDeaths is the least number of dead letters: more than one request replays, and more than one page lists.
	outageDeaths = 1300
	// outagePace is the least load, twenty events a second.
	outagePace = 50 * time.Millisecond
	// outageQuick of the replays are accepted at once, so that the later replays arrive after them. Each of the rest
	// takes the destination outageAnswer, so that some of them still wait when the command has ended.
	outageQuick  = 500
	outageAnswer = 20 * time.Millisecond
)

// A destination is down for longer than deliveries live, under a steady load, first with error answers and then without
// any. The command lists all dead letters with their reasons, and one more command sends all of them. Each event is
// delivered once, those of an object in order, and before its later events. Deliveries that still wait are delivered by
// themselves before that. A healthy destination misses nothing, and the statuses have the same counts as the
// destinations' own ledgers. Fails when the command leaves out a page or ends at the bound of one request, when the
// newest are replayed first, or when a count is wrong.
func TestE4AnOutageEndsWithAllThatDiedListedAndSentInOrderByOneCommand(t *testing.T) {
	s := scoped(t)
	ctx, cancel := context.WithTimeout(t.Context(), *outageLasts+10*time.Minute)
	t.Cleanup(cancel)
	s.Ctx = ctx
	s.startScoped(env.NotifierOptions{Args: []string{
		"--delivery-max-age=" + outageMaxAge.String(), "--dead-letter-replay=0",
	}})
	down, healthy := s.NewSink(), s.NewSink()
	l := s.newOutageLoad(min(outagePace, (*outageLasts-*outageMaxAge)/outageDeaths))
	s.Must(s.Tenant.Alert(s.Ctx, "down", "generic", down.URL("/"), env.AnyKustomization))
	s.Must(s.Tenant.Alert(s.Ctx, "healthy", "generic", healthy.URL("/"), env.AnyKustomization))
	o := &downtime{outageLoad: l, down: newLedger(down), healthy: newLedger(healthy)}
	o.owner()
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- l.run(stop) }()

	o.happens()
	dead := o.listed()
	o.counted("down", len(dead), len(dead), -1)
	asked := o.replayed(dead)
	s.Must(o.down.came(s.Within(2*time.Minute), asked))
	close(stop)
	s.Must(<-ended)
	o.complete(dead, asked)
}

// downtime is the fixture, with the ledgers of the two destinations.
type downtime struct {
	*outageLoad
	down, healthy *ledger
	env           []string // of the command
}

// owner makes the command run as an account with the rights that the product's roles for owners give in the namespace.
func (o *downtime) owner() {
	o.Helper()
	_, err := o.System.Owner(o.Ctx, o.Tenant.Namespace, o.Tenant.Namespace)
	o.Must(err)
	dir := o.T.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	o.Must(o.System.KubeconfigAs(o.Ctx, o.Tenant.Namespace, env.OwnerAccount, kubeconfig))
	o.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "KUBECONFIG=" + kubeconfig, "NOTIFIER_SERVER=" + o.APIURL}
}

// command runs the program as the owner and decodes its answer.
func (o *downtime) command(answer any, args ...string) (notes string) {
	o.Helper()
	c := exec.CommandContext(o.Ctx, o.System.Program, append(args, "-o", "json")...)
	c.Env = o.env
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		o.Fatalf("%v: %v: %s", args, err, stderr.String())
	}
	o.Must(json.Unmarshal(stdout.Bytes(), answer))
	return stderr.String()
}

// happens makes the destination fail for a time. It returns when the destination is up and all deliveries that still
// live have arrived.
func (o *downtime) happens() {
	o.Helper()
	o.Must(o.down.came(o.Within(time.Minute), o.zero()))
	sink := o.down.sink
	sink.Answer(env.Answer{Status: http.StatusServiceUnavailable})
	o.lasts(*outageLasts / 2)
	o.Must(sink.Down())
	sink.Answer(env.Answer{})
	o.lasts(*outageLasts / 2)
	o.died(outageDeaths / 2) // a slow machine takes longer
	o.Must(sink.Up(o.Ctx))
	begin := time.Now()
	o.Must(o.down.update())
	n := len(o.down.taken)
	_, err := sink.Wait(o.Within(time.Minute), func([]env.Received) bool { return o.down.update() == nil && len(o.down.taken) > n })
	o.Must(err)
	probed := time.Since(begin)
	// An event that did not arrive before a younger one of its object is dead: they are sent in order.
	o.Must(o.down.came(o.Within(2*time.Minute), o.count()))
	waited := 0
	for _, a := range o.down.taken[n:] {
		if a.replayed {
			o.Errorf("%s %d was replayed, and nobody asked", a.object, a.n)
		}
		waited++
	}
	o.Logf("down for %s, deliveries live %s; used again after %s more, and all that waited had come after %s: %d deliveries", *outageLasts,
		*outageMaxAge, probed.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond), waited)
}

// zero counts one event of each object.
func (o *downtime) zero() map[string]int {
	counts := map[string]int{}
	for object := range o.count() {
		counts[object] = 0
	}
	return counts
}

// lasts lets time pass.
func (o *downtime) lasts(d time.Duration) {
	o.Helper()
	select {
	case <-time.After(d):
	case <-o.Ctx.Done():
		o.Fatal(o.Ctx.Err())
	}
}

// died waits until so many deliveries are dead letters.
func (o *downtime) died(n int) {
	o.Helper()
	o.Must(env.Eventually(o.Ctx, func(ctx context.Context) error {
		dead, err := o.Metric(ctx, "notifier_deliveries_total", "outcome", "dead")
		if err == nil && dead < float64(n) {
			err = fmt.Errorf("%v of %d deliveries died", dead, n)
		}
		return err
	}))
}

// listedDelivery is a delivery in the command's list.
type listedDelivery struct {
	ID, State, Provider, Alert, Failure, Class string
	Object                                     struct{ Name string }
}

// listed lists the dead letters, and compares them with the events that were posted and not delivered. It returns the
// objects by the IDs.
func (o *downtime) listed() map[string]string {
	o.Helper()
	missing := o.down.missing()
	var page struct{ Items []listedDelivery }
	begin := time.Now()
	notes := o.command(&page, "deliveries", "list", "--state", "dead", "--provider", "down", "--limit", "0")
	took := time.Since(begin)
	dead, by, unexplained := map[string]string{}, map[string]int{}, 0
	for _, d := range page.Items {
		dead[d.ID] = d.Object.Name
		by[d.Object.Name]++
		if d.State != "dead" || d.Class != "expired" || d.Provider != "down" || d.Alert != "down" ||
			!strings.HasPrefix(d.Failure, "expired: not delivered within ") {
			unexplained++
		}
	}
	all := 0
	for object, numbers := range missing {
		if all += len(numbers); by[object] != len(numbers) {
			o.Errorf("%s: %d listed, %d not delivered", object, by[object], len(numbers))
		}
	}
	o.Logf("dead: %d of %d objects; listed: %d in %s, %d without the reason; %q is one; notes %q", all, len(by), len(page.Items),
		took.Round(time.Millisecond), unexplained, page.Items[0].Failure, notes)
	if len(page.Items) != all || len(dead) != all || unexplained > 0 || all < outageDeaths/2 {
		o.Errorf("%d listed, %d of them different, %d not delivered", len(page.Items), len(dead), all)
	}
	return dead
}

// replayed sends the dead letters again by one command, and returns how many events of each object were posted until it
// ended.
func (o *downtime) replayed(dead map[string]string) map[string]int {
	o.Helper()
	var replays atomic.Int64
	o.down.sink.AnswerWith(func(r env.Received) env.Answer {
		if r.Header.Get("Replayed") == "true" && replays.Add(1) > outageQuick {
			return env.Answer{Delay: outageAnswer}
		}
		return env.Answer{}
	})
	var result struct {
		Replayed int
		More     bool
		Refused  map[string]string
	}
	begin := time.Now()
	notes := o.command(&result, "deliveries", "replay", "--state", "dead", "--provider", "down")
	asked := o.count()
	o.Must(o.down.update())
	came := 0
	for _, a := range o.down.taken {
		if a.replayed {
			came++
		}
	}
	o.Logf("replayed: %d in %s by one command, of which %d had come by then; notes:\n%s", result.Replayed,
		time.Since(begin).Round(time.Millisecond), came, notes)
	if result.Replayed != len(dead) || result.More || len(result.Refused) > 0 {
		o.Errorf("%+v of %d", result, len(dead))
	}
	return asked
}

// complete compares the ledgers with the posted events, and the statuses with the ledgers.
func (o *downtime) complete(dead map[string]string, asked map[string]int) {
	o.Helper()
	posted, all := o.count(), 0
	for _, n := range posted {
		all += n
	}
	for name, l := range map[string]*ledger{"down": o.down, "healthy": o.healthy} {
		err := env.Eventually(o.Within(2*time.Minute), func(context.Context) error {
			if err := l.update(); err != nil || len(l.taken) >= all {
				return err
			}
			return fmt.Errorf("%d of %d came", len(l.taken), all)
		})
		if err != nil {
			o.Errorf("%s: %v", name, err)
		}
		failed := 0
		if name == "down" {
			failed = len(dead)
		}
		// Once the statuses are at rest no further delivery can arrive.
		o.counted(name, 0, failed, all)
		o.Must(l.update())
		found := l.faults(posted, asked)
		replays := map[string]bool{}
		for _, a := range l.taken {
			if a.replayed {
				replays[a.id] = true
			}
		}
		o.Logf("%s: %d posted, %d accepted, %d of them replayed; lost %d, twice %d, out of order %d", name, all, len(l.taken), len(replays),
			found.lost, found.twice, found.disordered)
		if found != (faults{}) || len(l.taken) != all {
			o.Errorf("%s: %+v, %d of %d came", name, found, len(l.taken), all)
		}
		if len(replays) != failed {
			o.Errorf("%s: %d replays of %d that died", name, len(replays), failed)
		}
		for id := range replays {
			if dead[id] == "" {
				o.Errorf("%s: %s was replayed and not listed", name, id)
			}
		}
	}
	var page struct{ Items []listedDelivery }
	o.command(&page, "deliveries", "list", "--state", "dead")
	if len(page.Items) > 0 {
		o.Errorf("%d are still listed as dead", len(page.Items))
	}
}

// counted waits until the statuses of a Provider and its Alert, which have the same name, count so many deliveries dead,
// given up and accepted, and none waiting. With delivered -1, for a time under load, it ignores the accepted and the
// waiting ones.
func (o *downtime) counted(name string, dead, failed, delivered int) {
	o.Helper()
	want := map[string]int64{"dead": int64(dead), "failed": int64(failed)}
	if delivered >= 0 {
		want["delivered"], want["pending"] = int64(delivered), 0
	}
	for _, kind := range []string{"Provider", "Alert"} {
		var got map[string]int64
		err := env.Eventually(o.Within(time.Minute), func(context.Context) error {
			status, _, err := unstructured.NestedMap(o.Read(o.Tenant, kind, name).Object, "status")
			if err != nil {
				return err
			}
			got = map[string]int64{}
			wrong := false
			for field, n := range want {
				got[field], _ = status[field].(int64)
				wrong = wrong || got[field] != n
			}
			if wrong {
				return fmt.Errorf("%v instead of %v", got, want)
			}
			return nil
		})
		o.Logf("status of %s %s: %v", kind, name, got)
		if err != nil {
			o.Errorf("status of %s %s: %v", kind, name, err)
		}
	}
}
