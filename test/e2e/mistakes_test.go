package e2e

import (
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
)

// mistake is a mistake of a tenant. In its texts "$NAME" is replaced by the name of the object, "$SINK" by a destination
// and "$HTTPS" by the same with https.
type mistake struct {
	kind, spec string
	// secret is the content of the Secret "$NAME"; nil: there is none.
	secret map[string]string
	// before makes the other objects, and act causes the mistake to show; each may be nil.
	before, act func(s *fixture, name string)
	// columns are the wanted ones of `kubectl get` beside PROBLEM, "" for an empty one.
	columns map[string]string
	// problem, the fault, and next, the remedy, are in that column, in the condition's message and in the Warning.
	problem, next string
	// condition reports it in `kubectl describe`, with its reason unless that changes; none for a mistake that only
	// outsiders cause.
	condition, reason string
	// event is the reason of the Warning, if it is not the condition's; "-" for none: the owner asked for this state.
	event string
}

// hush is in every Secret of a mistake, and must show nowhere.
const hush = "hush-4711"

// whenTrue are the conditions that report a fault by being True.
var whenTrue = []string{"WriteDenied", "LoopDetected", "DeliveriesLost"}

// Each mistake of a tenant shows where the tenant looks. Fails when `kubectl get` or `kubectl describe` do not name the
// fault and the next step, or when no Warning does. Fails also when a Provider or an Alert is not Ready for it, or when
// a Secret shows.
func TestAMistakeIsReportedWithItsRemedy(t *testing.T) {
	s := setUp(t)
	sink := s.NewSink()
	sink.AnswerWith(mistakenDestination)
	tls := httptest.NewUnstartedServer(http.NotFoundHandler())
	tls.Config.ErrorLog = log.New(io.Discard, "", 0) // it would log every failed handshake
	tls.StartTLS()
	t.Cleanup(tls.Close)
	all := map[string]mistake{}
	for _, rows := range []map[string]mistake{
		tokenMistakes(), targetMistakes(), webhookMistakes(), providerMistakes(), wayMistakes(), sendingMistakes(tls.URL),
		alertMistakes(sink.URL("")), matchingMistakes(),
	} {
		for name, m := range rows {
			if _, twice := all[name]; twice {
				t.Fatalf("two mistakes are called %q", name)
			}
			all[name] = m
		}
	}
	t.Logf("%d mistakes", len(all))
	names := slices.Sorted(maps.Keys(all))
	object := func(i int) string { return fmt.Sprintf("m%d", i) }
	for i, name := range names { // all of them first, so that the waits overlap
		s.make(all[name], object(i), sink)
	}
	for i, name := range names {
		if act := all[name].act; act != nil {
			act(s, object(i))
		}
	}
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			s := &fixture{s.Fixture.Under(t)}
			m := all[name]
			s.Must(env.Eventually(s.Within(soon), func(ctx context.Context) error { return s.tells(ctx, m, object(i)) }))
		})
	}
}

// make makes the object of a mistake and the objects that it needs.
func (s *fixture) make(m mistake, name string, sink *env.Sink) {
	s.Helper()
	if m.secret != nil {
		data := map[string]string{"unused": hush}
		maps.Copy(data, m.secret)
		s.Must(s.Tenant.Secret(s.Ctx, name, data))
	}
	if m.before != nil {
		m.before(s, name)
	}
	spec := strings.NewReplacer("$NAME", name, "$SINK", sink.URL(""), "$HTTPS", "https://"+sink.Addr()).Replace(m.spec)
	s.Must(s.Tenant.Object(s.Ctx, m.kind, name, nil, spec))
}

// tells returns nil if every place that a tenant reads reports a mistake.
func (s *fixture) tells(ctx context.Context, m mistake, name string) error {
	shown, err := s.columns(ctx, m.kind, name)
	if err != nil {
		return err
	}
	d, err := s.describe(ctx, m.kind, name)
	if err != nil {
		return err
	}
	if text := fmt.Sprint(shown, d); strings.Contains(text, hush) {
		s.Errorf("a Secret shows: %s", text)
	}
	for _, want := range []string{m.problem, m.next} {
		if !strings.Contains(shown["Problem"], want) {
			return fmt.Errorf("PROBLEM is %q, without %q", shown["Problem"], want)
		}
	}
	for column, want := range m.columns {
		if shown[column] != want {
			return fmt.Errorf("%s is %q, want %q", strings.ToUpper(column), shown[column], want)
		}
	}
	if m.kind != "Receiver" && shown["Ready"] != "True" {
		return fmt.Errorf("READY is %q", shown["Ready"])
	}
	if m.condition == "" {
		return nil
	}
	status := metav1.ConditionFalse
	if slices.Contains(whenTrue, m.condition) {
		status = metav1.ConditionTrue
	}
	if err := d.says(m.condition, status, m.reason, m.problem); err != nil {
		return err
	}
	switch m.event {
	case "-":
		return nil
	case "":
		return d.warned(m.reason, m.problem)
	}
	return d.warned(m.event, m.problem)
}

// mistakenDestination answers as destinations do on mistakes.
func mistakenDestination(r env.Received) env.Answer {
	switch r.Path {
	case "/wrong-token":
		return env.Answer{Status: http.StatusUnauthorized, Body: hush}
	case "/forbidden":
		return env.Answer{Status: http.StatusForbidden, Body: hush}
	case "/wrong-path":
		return env.Answer{Status: http.StatusNotFound, Body: hush}
	case "/wrong-channel":
		return env.Answer{Status: http.StatusNotFound, Body: "channel_not_found"}
	case "/gone":
		return env.Answer{Status: http.StatusGone}
	case "/wrong-type":
		return env.Answer{Status: http.StatusBadRequest}
	case "/moved":
		return env.Answer{Status: http.StatusMovedPermanently, Header: http.Header{"Location": {"/elsewhere"}}}
	case "/slow":
		return env.Answer{Hang: true}
	}
	return env.Answer{}
}
