package gitops

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
)

// team is a tenant with a repository, a webhook and two Alerts on everything.
type team struct {
	*env.Tenant
	fixture *fixture
	repo    *Repository
	// all gets every message, failures errors alone. The lists have the expected lines of each.
	all, failures         *env.Sink
	wantAll, wantFailures []string
	hook, token           string
}

// newTeam makes a team of the tenant, which has no commit yet.
func (s *fixture) newTeam(t *env.Tenant) *team {
	s.Helper()
	m := &team{Tenant: t, fixture: s, all: s.NewSink(), failures: s.NewSink(), token: "token-of-" + t.Namespace}
	var err error
	m.repo, err = s.git.Repository(s.Ctx, t.Namespace)
	s.Must(err)
	s.Must(s.System.ServiceAccount(s.Ctx, t.Namespace, applier))
	s.Must(s.System.Grant(s.Ctx, t.Namespace, applier, []string{"get", "list", "watch", "create", "patch", "delete"}, "configmaps"))
	m.hook, err = t.Receiver(s.Ctx, "push", m.token, env.GitHubSpec("push", "app", ""))
	s.Must(err)
	s.Cleanup(func() {
		if s.Failed() {
			s.Logf("the controllers about %s:\n%s", t.Namespace, s.logs(t.Namespace))
		}
	})
	m.listen()
	return m
}

// listen makes the team's Alerts and waits until they are ready.
func (m *team) listen() {
	s := m.fixture
	s.Helper()
	for severity, sink := range map[string]*env.Sink{"info": m.all, "error": m.failures} {
		s.Must(m.Secret(s.Ctx, severity, map[string]string{"address": sink.URL("/")}))
		s.Must(m.Object(s.Ctx, "Provider", severity, nil, fmt.Sprintf(`{"type":"generic","secretRef":{"name":%q}}`, severity)))
		s.Must(m.Object(s.Ctx, "Alert", severity, nil, fmt.Sprintf(`{"providerRef":{"name":%[1]q},"eventSeverity":%[1]q,
			"eventSources":[{"kind":"GitRepository","name":"*"},{"kind":"Kustomization","name":"*"}]}`, severity)))
		s.Condition(m.Tenant, "Alert", severity, "Serving", metav1.ConditionTrue, "")
	}
}

// deploy makes the GitRepository and the Kustomization "app" at once, as one `kubectl apply` does. Their interval is
// longer than every test.
func (m *team) deploy() {
	m.fixture.Helper()
	m.fixture.Must(m.Object(m.fixture.Ctx, "GitRepository", "app", nil,
		fmt.Sprintf(`{"interval":"1h","url":%q,"ref":{"branch":"main"}}`, m.repo.URL)))
	m.kustomization("app", m.Namespace)
}

// kustomization makes a Kustomization of the GitRepository "app" in the namespace. A failure is tried again after 2 s.
func (m *team) kustomization(name, sourceNamespace string) {
	m.fixture.Helper()
	m.fixture.Must(m.Object(m.fixture.Ctx, "Kustomization", name, nil, fmt.Sprintf(`{"interval":"1h","retryInterval":"2s","prune":true,
		"path":"./deploy","sourceRef":{"kind":"GitRepository","name":"app","namespace":%q}}`, sourceNamespace)))
}

// configMap returns a manifest of the team.
func (m *team) configMap(data string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app, namespace: %s}\ndata: %s\n", m.Namespace, data)
}

// push commits and pushes the manifest and returns the revision.
func (m *team) push(message, manifest string) string {
	m.fixture.Helper()
	revision, err := m.repo.Push(m.fixture.Ctx, message, "deploy/app.yaml", manifest)
	m.fixture.Must(err)
	return revision
}

// pushAndCall pushes and sends the webhook of a Git host.
func (m *team) pushAndCall(message, manifest string) string {
	m.fixture.Helper()
	revision := m.push(message, manifest)
	m.fixture.Push(m.hook, m.token, http.StatusOK)
	return revision
}

// told waits until the team has got these lines as well.
func (m *team) told(lines ...string) {
	m.fixture.Helper()
	m.wantAll = append(m.wantAll, lines...)
	for _, l := range lines {
		if strings.Contains(l, " error ") {
			m.wantFailures = append(m.wantFailures, l)
		}
	}
	for sink, want := range m.wants() {
		_, err := sink.Wait(m.fixture.Within(soon), func([]env.Received) bool {
			got := m.lines(sink)
			return !slices.ContainsFunc(want, func(line string) bool { return !slices.Contains(got, line) })
		})
		if err != nil {
			break // the next check reports the missing lines
		}
	}
	m.only()
}

// only ends the test when the team got any unexpected line. The order of the lines about one object counts.
func (m *team) only() {
	m.fixture.Helper()
	for sink, want := range m.wants() {
		got := m.lines(sink)
		if byObject(got) != byObject(want) {
			m.fixture.Fatalf("%s was told:\n%s\nand not:\n%s", m.Namespace, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// wants returns the expected lines of each sink.
func (m *team) wants() map[*env.Sink][]string {
	return map[*env.Sink][]string{m.all: m.wantAll, m.failures: m.wantFailures}
}

// byObject sorts lines by their object and keeps their order otherwise.
func byObject(lines []string) string {
	object := func(line string) string { return strings.SplitN(line, " ", 2)[0] }
	return strings.Join(slices.SortedStableFunc(slices.Values(lines), func(a, b string) int {
		return strings.Compare(object(a), object(b))
	}), "\n")
}

// lines returns the messages at a sink: the object, the severity, the reason, the message and the revision, if any.
func (m *team) lines(sink *env.Sink) []string {
	m.fixture.Helper()
	var lines []string
	for _, r := range sink.Received() {
		var e struct {
			InvolvedObject            struct{ Kind, Namespace, Name string }
			Severity, Reason, Message string
			Metadata                  map[string]string
		}
		m.fixture.Must(json.Unmarshal(r.Body, &e))
		// The duration differs each time.
		if strings.HasPrefix(e.Message, "Reconciliation finished in ") {
			e.Message = "Reconciliation finished"
		}
		o := e.InvolvedObject
		lines = append(lines, line(o.Kind+"/"+o.Namespace+"/"+o.Name, e.Severity, e.Reason, e.Message, e.Metadata["revision"]))
	}
	return lines
}

func line(object, severity, reason, message, revision string) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %q %s", object, severity, reason, strings.TrimSpace(message), revision))
}

// toldApplied waits until the team has got the lines about a commit that was stored and applied. how is the result for
// the manifest; empty: unchanged, as it was applied before.
func (m *team) toldApplied(message, revision, how string) {
	m.fixture.Helper()
	object := "Kustomization/" + m.Namespace + "/app"
	lines := []string{m.stored(message, revision)}
	switch {
	case !m.fixture.posts:
		lines = append(lines, line(object, "info", "ReconciliationSucceeded", "Applied revision: "+revision, revision))
	case how != "":
		lines = append(lines, line(object, "info", "Progressing", "ConfigMap/"+m.Namespace+"/app "+how, revision))
		fallthrough
	default:
		lines = append(lines, line(object, "info", "ReconciliationSucceeded", "Reconciliation finished", revision))
	}
	m.told(lines...)
}

// stored returns the line about a new artifact: from a POST its commit's message, from the status its revision.
func (m *team) stored(message, revision string) string {
	object := "GitRepository/" + m.Namespace + "/app"
	if !m.fixture.posts {
		return line(object, "info", "Succeeded", fmt.Sprintf("stored artifact for revision '%s'", revision), revision)
	}
	return line(object, "info", "NewArtifact", fmt.Sprintf("stored artifact for commit '%s'", message), revision)
}

// failed returns the line about a Kustomization that was not applied.
func (m *team) failed(name, reason, message, revision string) string {
	return line("Kustomization/"+m.Namespace+"/"+name, "error", reason, message, revision)
}
