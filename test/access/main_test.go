// Package access tests the reports to an installation and its tenants about writes that would be refused, before there
// is anything to write: missing permissions and accounts, API servers without constrained impersonation, and Flux's own
// definitions.
package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
)

func TestMain(m *testing.M) { env.Main(m) }

// interval is the time between two reviews of the processes here.
const interval = 4 * time.Second

// soon bounds waits without a promised time: a machine that is busy with other tests may be slow.
const soon = 30 * time.Second

var flags = []string{"--access-review-interval", interval.String(), "--log-level", "debug"}

var shared = env.Shared(func(ctx context.Context) (*env.Notifier, error) {
	w, err := env.NewSystem(ctx, true)
	if err != nil {
		return nil, err
	}
	return w.Start(ctx, env.NotifierOptions{Args: flags})
})

// clusters bounds how many clusters of single tests run at once, beside the shared one: each is an API server.
var clusters = make(chan struct{}, 2)

// ofItsOwn returns the fixture on a cluster of the test's own, whose definitions and roles it may change. args are the
// control plane's.
func ofItsOwn(t *testing.T, args ...string) *fixture {
	t.Helper()
	t.Parallel()
	clusters <- struct{}{}
	t.Cleanup(func() { <-clusters })
	w, err := env.Shared(func(ctx context.Context) (*env.System, error) {
		cluster, err := env.StartControlPlane(ctx, env.ClusterOptions{Args: args})
		if err != nil {
			return nil, err
		}
		return env.InstallOn(ctx, cluster, true)
	})()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Stop() })
	return &fixture{env.NewFixture(t, w, nil)}
}

type fixture struct{ *env.Fixture }

// setUp makes the fixture with one tenant and the process that the tests of an up-to-date API server share.
func setUp(t *testing.T) *fixture {
	t.Helper()
	return &fixture{env.SetUp(t, shared)}
}

// denied waits until condition WriteDenied of a Receiver has the reason and the words, and for the Event with the same
// text. It checks that Ready is unchanged.
func (s *fixture) denied(receiver, reason string, words ...string) {
	s.Helper()
	var c *metav1.Condition
	s.Must(env.Eventually(s.Within(30*time.Second), func(ctx context.Context) error {
		obj, err := s.Tenant.Get(ctx, "Receiver", receiver)
		if err != nil {
			return err
		}
		all, err := env.Conditions(obj)
		if err != nil {
			return err
		}
		if ready := meta.FindStatusCondition(all, "Ready"); ready == nil || ready.Status != metav1.ConditionTrue {
			return fmt.Errorf("%s: Ready is %+v", receiver, ready)
		}
		c = meta.FindStatusCondition(all, "WriteDenied")
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason {
			return fmt.Errorf("%s: WriteDenied is %+v", receiver, c)
		}
		for _, word := range words {
			if !strings.Contains(c.Message, word) {
				return fmt.Errorf("%s: WriteDenied does not say %q: %s", receiver, word, c.Message)
			}
		}
		return nil
	}))
	s.Must(env.Eventually(s.Within(soon), func(ctx context.Context) error {
		events, err := s.System.Client.CoreV1().Events(s.Tenant.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.InvolvedObject.Name == receiver && e.Type == "Warning" && e.Reason == reason && e.Message == c.Message {
				return nil
			}
		}
		return fmt.Errorf("no Warning Event %s on %s among %d", reason, receiver, len(events.Items))
	}))
}

// cleared waits until condition WriteDenied of a Receiver is False, for the interval and the time of a status write at
// most.
func (s *fixture) cleared(receiver string) {
	s.Helper()
	begin := time.Now()
	_, err := s.Tenant.WaitCondition(s.Within(interval+5*time.Second), "Receiver", receiver, "WriteDenied", metav1.ConditionFalse, "")
	s.Must(err)
	s.Logf("cleared after %s", time.Since(begin).Round(10*time.Millisecond))
}

// never fails the test if a Receiver has condition WriteDenied True after its review. The denial of a Receiver that is
// made later shows that the review is over.
func (s *fixture) never(receiver string) {
	s.Helper()
	s.Must(s.Tenant.ServiceAccount(s.Ctx, s.Tenant.Namespace, "nobody"))
	s.receiver("later", "nobody", `{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"GitRepository","name":"app"}`)
	s.denied("later", "Forbidden")
	obj := s.Read(s.Tenant, "Receiver", receiver)
	all, err := env.Conditions(obj)
	s.Must(err)
	if c := meta.FindStatusCondition(all, "WriteDenied"); c != nil && c.Status == metav1.ConditionTrue {
		s.Errorf("%s: %s", receiver, c.Message)
	}
}

// receiver makes a Receiver of type generic with resources, and waits until it is ready.
func (s *fixture) receiver(name, account, resources string) string {
	s.Helper()
	path, err := s.Tenant.Receiver(s.Ctx, name, "t", fmt.Sprintf(
		`{"type":"generic","secretRef":{"name":"%s-token"},"serviceAccountName":%q,"resources":[%s]}`, name, account, resources))
	s.Must(err)
	return path
}

// said waits until /readyz is 200 and has a line with this beginning and the words.
func (s *fixture) said(begins string, words ...string) {
	s.Helper()
	s.Must(env.Eventually(s.Within(30*time.Second), func(ctx context.Context) error {
		resp, err := s.Do(ctx, http.MethodGet, s.HealthURL+"/readyz", nil, nil)
		if err != nil {
			return err
		}
		if resp.Status != http.StatusOK {
			return fmt.Errorf("/readyz is %d: %s", resp.Status, resp.Body)
		}
		for line := range strings.Lines(string(resp.Body)) {
			if !strings.HasPrefix(line, begins) {
				continue
			}
			for _, word := range words {
				if !strings.Contains(line, word) {
					return fmt.Errorf("/readyz does not say %q: %s", word, line)
				}
			}
			return nil
		}
		return fmt.Errorf("/readyz has no line %q: %s", begins, resp.Body)
	}))
}

// metric waits until a metric has the value.
func (s *fixture) metric(name string, want float64) {
	s.Helper()
	s.Must(env.Eventually(s.Within(20*time.Second), func(ctx context.Context) error {
		got, err := s.Metric(ctx, name)
		if err == nil && got != want {
			err = fmt.Errorf("%s is %v, want %v", name, got, want)
		}
		return err
	}))
}

// logged waits for a line of the log that has the words.
func (s *fixture) logged(words ...string) {
	s.Helper()
	s.Must(env.Eventually(s.Within(20*time.Second), func(context.Context) error {
		for line := range strings.Lines(s.Logs()) {
			missing := false
			for _, word := range words {
				missing = missing || !strings.Contains(line, word)
			}
			if !missing {
				return nil
			}
		}
		return errors.New("the log has no line with " + strings.Join(words, " and "))
	}))
}
