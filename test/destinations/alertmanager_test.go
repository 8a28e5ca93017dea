package destinations

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"notifier/test/env"
)

// startAlertmanager starts a single Alertmanager without receivers of notifications.
func (s *shared) startAlertmanager(ctx context.Context, program string) error {
	dir, err := env.TempDir("alertmanager")
	if err != nil {
		return err
	}
	address, err := local()
	if err != nil {
		return err
	}
	config := filepath.Join(dir, "alertmanager.yml")
	if err := os.WriteFile(config, []byte("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n"), 0o600); err != nil {
		return err
	}
	p, err := env.Start(env.Command{Path: program, Args: []string{
		"--config.file=" + config, "--storage.path=" + dir, "--web.listen-address=" + address, "--cluster.listen-address=",
	}})
	if err != nil {
		return err
	}
	s.alerts = "http://" + address + "/api/v2/alerts"
	return p.Ready(ctx, "http://"+address+"/-/ready")
}

// alert is an alert in Alertmanager's API.
type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	EndsAt      time.Time         `json:"endsAt"`
	Status      struct {
		State string `json:"state"`
	} `json:"status"`
}

// firing returns a tenant's firing alerts, by the name of their object. Alertmanager omits resolved alerts.
func (s *fixture) firing(ctx context.Context) (map[string]alert, error) {
	query := url.Values{"filter": {fmt.Sprintf("namespace=%q", s.Tenant.Namespace)}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.alerts+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the API of Alertmanager: %s", resp.Status)
	}
	var list []alert
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return nil, err
	}
	all := map[string]alert{}
	for _, a := range list {
		if name := a.Labels["name"]; all[name].Labels != nil {
			return nil, fmt.Errorf("%s has two alerts: %v and %v", name, all[name].Labels, a.Labels)
		}
		all[a.Labels["name"]] = a
	}
	return all, nil
}

// eventually waits until the firing alerts are the wanted ones: the reason of each object's alert.
func (s *fixture) eventually(want map[string]string) map[string]alert {
	s.Helper()
	var all map[string]alert
	s.Must(env.Eventually(s.Within(time.Minute), func(ctx context.Context) (err error) {
		if all, err = s.firing(ctx); err != nil {
			return err
		}
		got := map[string]string{}
		for name, a := range all {
			got[name] = a.Labels["reason"]
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("%v fire, want %v", got, want)
		}
		return nil
	}))
	return all
}

// Fails when Alertmanager refuses an alert, when it does not show the fields that the page promises, when an alert
// remains after the recovery or beside it, or when another object's alert ends.
func TestAnAlertFiresAndIsResolvedInAlertmanager(t *testing.T) {
	s := setUp(t)
	s.Must(s.Tenant.Alert(s.Ctx, "to-alertmanager", "alertmanager", s.alerts, env.AnyKustomization))
	for _, name := range []string{"app", "other"} {
		s.Must(s.Tenant.Object(s.Ctx, "Kustomization", name, nil, ""))
	}
	s.PostEvent(s.Tenant, "Kustomization", "other", "error", "BuildFailed", "no such file", "main@sha1:1")
	s.PostEvent(s.Tenant, "Kustomization", "app", "error", "HealthCheckFailed", hostile, "main@sha1:1")
	fires := s.eventually(map[string]string{"app": "HealthCheckFailed", "other": "BuildFailed"})["app"]
	for label, want := range map[string]string{
		"alertname": "FluxKustomizationHealthcheckfailed", "severity": "error", "kind": "Kustomization", "name": "app",
		"namespace": s.Tenant.Namespace, "reportingcontroller": "kustomize-controller", "revision": "main@sha1:1",
	} {
		if got := fires.Labels[label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	if got := fires.Annotations["message"]; got != hostile || fires.Status.State != "active" {
		t.Errorf("the message of an alert that is %s is\n%q, want\n%q", fires.Status.State, got, hostile)
	}
	if left := time.Until(fires.EndsAt); left < 23*time.Hour || left > 24*time.Hour {
		t.Errorf("the alert ends in %v", left)
	}

	s.PostEvent(s.Tenant, "Kustomization", "app", "error", "BuildFailed", "second", "main@sha1:2")
	s.eventually(map[string]string{"app": "BuildFailed", "other": "BuildFailed"})
	s.PostEvent(s.Tenant, "Kustomization", "app", "info", "ReconciliationSucceeded", hostile, "main@sha1:3")
	s.eventually(map[string]string{"other": "BuildFailed"})
	s.PostEvent(s.Tenant, "Kustomization", "app", "error", "BuildFailed", "third", "main@sha1:3")
	s.eventually(map[string]string{"app": "BuildFailed", "other": "BuildFailed"})
}
