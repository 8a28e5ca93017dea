package limits

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"notifier/test/env"
)

// said is the content of a message of type generic.
type said struct {
	Message string `json:"message"`
	Reason  string `json:"reason"`
	// Replayed is the header of that name.
	Replayed bool `json:"-"`
}

// saidAt returns the messages that the sink accepted, in order.
func (s *fixture) saidAt(sink *env.Sink) (all []said) {
	s.Helper()
	for _, r := range sink.Received() {
		if r.Status != http.StatusOK {
			continue
		}
		var m said
		s.Must(json.Unmarshal(r.Body, &m))
		m.Replayed = r.Header.Get("Replayed") == "true"
		all = append(all, m)
	}
	return all
}

// annotate sets an annotation as kubectl annotate --overwrite does.
func (s *fixture) annotate(kind, name, key, value string) {
	s.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: value}}})
	s.Must(err)
	_, err = s.Tenant.Dynamic.Resource(env.Kinds[kind]).Namespace(s.Tenant.Namespace).Patch(
		s.Ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	s.Must(err)
}

// handled waits until a Provider's status reports that a value was handled.
func (s *fixture) handled(name, field, value string) {
	s.Helper()
	s.Must(env.Eventually(s.Within(time.Minute), func(context.Context) error {
		got, _, err := unstructured.NestedString(s.Read(s.Tenant, "Provider", name).Object, "status", field)
		if err == nil && got != value {
			err = fmt.Errorf("%s is %q", field, got)
		}
		return err
	}))
}

// givenUp waits until a Provider's condition counts so many given-up deliveries.
func (s *fixture) givenUp(name string, n int) {
	s.Helper()
	s.Must(env.Eventually(s.Within(2*time.Minute), func(context.Context) error {
		conditions, err := env.Conditions(s.Read(s.Tenant, "Provider", name))
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(conditions, "DeliveriesLost")
		if c == nil {
			return errors.New("nothing was given up yet")
		}
		if !strings.HasPrefix(c.Message, fmt.Sprint(n, " given up")) {
			return errors.New(c.Message)
		}
		return nil
	}))
}

// A destination is down for longer than deliveries live. Its owner has the dead letters sent by an annotation: all of
// them, in order, once, also over the death of the process. A test message is sent once for a value. Fails when
// --delivery-max-age has no effect, when a value is handled again after a restart, and when the replay does not keep the
// order.
func TestE4DeadDeliveriesAreReplayedInOrderAndOnceOnRequest(t *testing.T) {
	const deaths = 40
	s := scoped(t)
	s.startScoped(env.NotifierOptions{Args: []string{"--delivery-max-age=5s", "--dead-letter-replay=0"}})
	sink := s.AlertedSink()
	s.Must(sink.Down())
	var want []string
	for i := range deaths {
		want = append(want, fmt.Sprint("death-", i))
		if r := s.failure(want[i]); r.Status != http.StatusAccepted {
			s.Fatalf("POST of an event: %d", r.Status)
		}
	}
	s.givenUp("all", deaths)
	s.Must(sink.Up(s.Ctx))
	s.annotate("Provider", "all", "notification.toolkit.fluxcd.io/replay", "dead")
	_, err := sink.Wait(s.Within(time.Minute), func(all []env.Received) bool { return len(all) >= deaths })
	s.Must(err)
	s.handled("all", "lastHandledReplay", "dead")
	s.annotate("Provider", "all", "notification.toolkit.fluxcd.io/test", "1")
	s.handled("all", "lastHandledTest", "1")
	_, err = sink.Wait(s.Within(time.Minute), func(all []env.Received) bool { return len(all) > deaths })
	s.Must(err)

	s.Must(s.Kill())
	s.Must(s.Restart(s.Ctx))
	s.annotate("Provider", "all", "notification.toolkit.fluxcd.io/test", "1")
	s.annotate("Provider", "all", "example.com/other", "change")
	s.annotate("Provider", "all", "notification.toolkit.fluxcd.io/test", "2")
	s.handled("all", "lastHandledTest", "2")
	_, err = sink.Wait(s.Within(time.Minute), func(all []env.Received) bool { return len(all) > deaths+1 })
	s.Must(err)
	s.failure("the last")
	_, err = sink.Wait(s.Within(time.Minute), func(all []env.Received) bool { return len(all) > deaths+2 })
	s.Must(err)

	all := s.saidAt(sink)
	if len(all) != deaths+3 {
		t.Fatalf("%d messages", len(all))
	}
	var got []string
	for _, m := range all[:deaths] {
		got = append(got, m.Message)
		if !m.Replayed {
			t.Errorf("%q does not say that it is a replay", m.Message)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("sent %v", got)
	}
	for i, m := range all[deaths : deaths+2] {
		if m.Reason != "Test" || m.Replayed {
			t.Errorf("test message %d is %+v", i, m)
		}
	}
	if m := all[deaths+2]; m.Message != "the last" || m.Replayed {
		t.Errorf("the last message is %+v", m)
	}
}
