package receiver

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"notifier/internal/event"
	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/verify"
)

// stumbling is a verifier, its check and a filter that panic at one step.
type stumbling struct {
	verify.Verifier
	at string
}

func (s stumbling) step(name string) {
	if s.at == name {
		panic("token " + token)
	}
}

func (s stumbling) Begin(context.Context, http.Header) (verify.Check, error) {
	s.step("begin")
	return stumblingCheck{s}, nil
}

func (s stumbling) Content(context.Context, http.Header, []byte) (verify.Content, error) {
	s.step("content")
	return verify.Content{}, nil
}

type stumblingCheck struct{ stumbling }

func (s stumblingCheck) Write(p []byte) (int, error) { s.step("write"); return len(p), nil }

func (s stumblingCheck) Finish([]byte) (verify.RawClaims, error) { s.step("finish"); return nil, nil }

// stumblingParser is stumbling with bodies that are kept.
type stumblingParser struct{ stumbling }

func (stumblingParser) KeepsBody() bool { return true }

type stumblingFilter struct {
	stumbling
	targets []event.Trigger
}

func (s stumblingFilter) ReadsBody() bool { return true }

func (s stumblingFilter) Select(context.Context, []byte, []byte) ([]event.Trigger, error) {
	s.step("filter")
	return s.targets, nil
}

// Fails when a panic ends the process, is answered with a 2xx, or leaves the request's place or capacity in use. Fails also when the log does not
// have whose Receiver it was, and where.
func TestAPanicAtAnyStepIsNo2xxAndHoldsNothing(t *testing.T) {
	for at, want := range map[string]int{
		"begin": 500, "write": 500, "finish": 500, "content": 500, "content of a kept body": 500, "filter": 500,
		"publish": 503, "publish one of three": 503, "nothing": 200,
	} {
		t.Run(at, func(t *testing.T) {
			hook := newHook(t, "team-a/hook")
			s := stumbling{hook.Verifier, at}
			switch at {
			case "content of a kept body":
				s.at = "content"
				hook.Verifier = stumblingParser{s}
			case "filter":
				hook.Verifier, hook.Filter = s, stumblingFilter{s, hook.Targets}
			case "publish one of three":
				withTargets("a", "b", "c")(hook)
				hook.Verifier = s
			default:
				hook.Verifier = s
			}
			table := newTable(t, unlimited(), hook)
			w := newWebhooks(t, table, triggersFunc(func(_ context.Context, tr event.Trigger) error {
				if at == "publish" || at == "publish one of three" && tr.Target.Name == "b" {
					panic("bus")
				}
				return nil
			}))
			var lines bytes.Buffer
			w.log.Log = slog.New(slog.NewTextHandler(&lines, nil))
			for range 2 { // the first leaves nothing behind that affects the second
				if resp := do(w, push(hook.Path, token, string(make([]byte, 2*limit.BufferSize)))); resp.StatusCode != want {
					t.Errorf("got %d, want %d", resp.StatusCode, want)
				}
			}
			panics := 2.0
			if at == "nothing" {
				panics = 0
			}
			if got := testutil.ToFloat64(w.metrics.panics); got != panics {
				t.Errorf("%v panics counted, want %v", got, panics)
			}
			told := 0.0
			for line := range strings.Lines(lines.String()) {
				if strings.Contains(line, "namespace=team-a receiver=hook") && strings.Contains(line, "recover_test.go") {
					told++
				}
			}
			if told != panics {
				t.Errorf("%v panics are told with their Receiver and place:\n%s", told, lines.String())
			}
			if got := testutil.ToFloat64(w.metrics.webhooks["github"]["panic"]); want == 500 && got != 2 {
				t.Errorf("%v webhooks counted as panics, want 2", got)
			}
			rt := table.first(hook.Path)
			path := table.capacity(rt)
			for level, c := range map[string]capacity{"all": table.all, "namespace": table.ofTenant(rt.owner.tenant), "path": path} {
				if !c.requests.Idle() || !c.bodies.Idle() || !c.triggers.Idle() {
					t.Errorf("something of the %s's capacity is still in use", level)
				}
			}
			if w.inFlight.Load() != 0 {
				t.Error("something is still held")
			}
		})
	}
}
