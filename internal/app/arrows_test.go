package app_test

import (
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "notifier/"

// TestImportArrows checks the architecture's arrows: the packages that each package may reach, over any number of imports. Any may reach
// internal/options. Fails when, for instance, internal/receiver imports internal/bus.
func TestImportArrows(t *testing.T) {
	for name, tc := range map[string]struct {
		pkg string
		// internal are the packages of this module that may be reached, by prefix; forbidden are modules that must not be.
		internal, forbidden []string
	}{
		"the vocabulary knows nobody": {
			pkg: "internal/event", forbidden: []string{"k8s.io/", "github.com/nats-io/", "github.com/go-chi/"},
		},
		"the bounds on what tenants share know nobody": {
			pkg: "internal/fair", forbidden: []string{"k8s.io/", "github.com/nats-io/", "github.com/go-chi/"},
		},
		"the bounds on patterns know nobody": {
			pkg: "internal/patterns", forbidden: []string{"k8s.io/", "github.com/"},
		},
		"clients of Kubernetes' own kinds know nobody": {
			pkg: "internal/builtin", forbidden: []string{"github.com/nats-io/", "github.com/go-chi/"},
		},
		"the bus knows only the vocabulary and is alone with NATS": {
			pkg: "internal/bus", internal: []string{"internal/event", "internal/fair", "internal/bus/"}, forbidden: []string{"k8s.io/", "github.com/go-chi/"},
		},
		"the lease knows no bus": {
			pkg: "internal/bus/lease", internal: []string{"internal/event", "internal/fair"}, forbidden: []string{"k8s.io/", "github.com/nats-io/nats-server"},
		},
		"the server in this process and its files know no bus": {
			pkg: "internal/bus/embedded", internal: []string{"internal/fair"}, forbidden: []string{"k8s.io/", "github.com/nats-io/nats.go/jetstream"},
		},
		"webhooks know only the vocabulary, the bounds on patterns and the packages below them": {
			pkg: "internal/receiver", internal: []string{
				"internal/event", "internal/fair", "internal/patterns", "internal/receiver/answer", "internal/receiver/cel", "internal/receiver/limit",
				"internal/receiver/oidc", "internal/receiver/verify",
			},
			forbidden: []string{"k8s.io/", "github.com/nats-io/"},
		},
		"listeners know only limits": {
			pkg: "internal/receiver/server", internal: []string{"internal/fair", "internal/receiver/limit"},
			forbidden: []string{"k8s.io/", "github.com/nats-io/", "github.com/go-chi/"},
		},
		"the authentication of clients by their SVIDs knows no listener": {
			pkg: "internal/receiver/spiffe", internal: []string{"internal/event", "internal/fair"},
			forbidden: []string{"k8s.io/", "github.com/nats-io/", "github.com/go-chi/"},
		},
		"types of Receivers know no handler": {
			pkg: "internal/receiver/verify", internal: []string{
				"internal/event", "internal/fair", "internal/patterns", "internal/receiver/answer", "internal/receiver/cel", "internal/receiver/limit",
				"internal/receiver/oidc", "internal/receiver/verify/cdevents",
			},
			forbidden: []string{"k8s.io/", "github.com/nats-io/", "github.com/go-chi/"},
		},
		"the reader of CDEvents knows nobody": {
			pkg: "internal/receiver/verify/cdevents", forbidden: []string{"k8s.io/", "github.com/nats-io/", "github.com/go-chi/"},
		},
		"the events endpoint knows only the vocabulary, limits and answers": {
			pkg: "internal/receiver/events", internal: []string{
				"internal/event", "internal/fair", "internal/receiver/answer", "internal/receiver/limit",
			},
			forbidden: []string{"k8s.io/", "github.com/nats-io/"},
		},
		"Receivers of type event know no Kubernetes and no bus": {
			pkg: "internal/receiver/subscribe", internal: []string{"internal/event", "internal/fair", "internal/patterns", "internal/receiver"},
			forbidden: []string{"k8s.io/", "github.com/nats-io/"},
		},
		"what receivers' tests share knows only the vocabulary": {
			pkg: "internal/receiver/receivertest", internal: []string{"internal/event"},
			forbidden: []string{"k8s.io/", "github.com/nats-io/", "github.com/go-chi/"},
		},
		"the program has nothing that is for tests": {
			pkg: "cmd/notifier", internal: []string{"api/", "internal/"}, forbidden: []string{
				module + "internal/receiver/receivertest", module + "internal/receiver/oidc/oidctest", module + "internal/receiver/spiffe/spiffetest",
				module + "internal/alerts/provider/providertest", module + "internal/alloctest", "testing", "net/http/httptest",
				"github.com/cdevents/sdk-go", "github.com/cloudevents/sdk-go", "github.com/google/go-github", "github.com/santhosh-tekuri/jsonschema",
			},
		},
		"limits of senders know only the bounds on what tenants share": {
			pkg: "internal/receiver/limit", internal: []string{"internal/fair"}, forbidden: []string{"k8s.io/", "github.com/nats-io/", "github.com/go-chi/"},
		},
		"the alert plane knows only the vocabulary, its filters with the bounds on patterns, and its destinations": {
			pkg: "internal/alerts", internal: []string{
				"internal/event", "internal/fair", "internal/patterns", "internal/alerts/filter", "internal/alerts/provider",
			},
			forbidden: []string{"k8s.io/", "github.com/nats-io/", "github.com/go-chi/"},
		},
		"filters of Alerts know only the bounds on patterns and what tenants share": {
			pkg: "internal/alerts/filter", internal: []string{"internal/fair", "internal/patterns"},
			forbidden: []string{"k8s.io/", "github.com/nats-io/", "github.com/go-chi/"},
		},
		"the API knows what owners are shown, and neither Kubernetes nor the bus": {
			pkg: "internal/api", internal: []string{"internal/event", "internal/fair", "internal/api/brief", "internal/receiver/limit", "internal/receiver/answer"},
			forbidden: []string{"k8s.io/", "github.com/nats-io/"},
		},
		"the page knows the API": {
			pkg: "internal/api/page", internal: []string{
				"internal/event", "internal/fair", "internal/api", "internal/receiver/limit", "internal/receiver/answer",
			},
			forbidden: []string{"k8s.io/", "github.com/nats-io/"},
		},
		"who asks the Kubernetes API about users knows the API": {
			pkg: "internal/api/access", internal: []string{
				"internal/event", "internal/fair", "internal/api", "internal/receiver/limit", "internal/receiver/answer",
			},
			forbidden: []string{"github.com/nats-io/"},
		},
		"the API's client knows only what it is answered": {
			pkg: "internal/api/client", internal: []string{"internal/event"}, forbidden: []string{"k8s.io/", "github.com/nats-io/", "github.com/go-chi/"},
		},
		"the command knows the API's client and nothing of the process": {
			pkg: "internal/command", internal: []string{"internal/event", "internal/builtin", "internal/api/client"},
			forbidden: []string{"github.com/nats-io/", "github.com/go-chi/"},
		},
		"tokens of service accounts know no controller": {
			pkg: "internal/reconcile/identity", internal: []string{
				"api/", "internal/event", "internal/builtin", "internal/fair", "internal/alerts/provider", "internal/reconcile/kube", "internal/reconcile/bounds",
			},
			forbidden: []string{"github.com/nats-io/", "github.com/go-chi/"},
		},
		"the recorder of Events knows no controller": {
			pkg: "internal/reconcile/recorder", internal: []string{
				"api/", "internal/event", "internal/builtin", "internal/fair", "internal/reconcile/kube", "internal/reconcile/bounds",
			},
			forbidden: []string{"github.com/nats-io/", "github.com/go-chi/"},
		},
		"the check of definitions knows only the kinds": {
			pkg: "internal/reconcile/definitions", internal: []string{"api/", "internal/fair"}, forbidden: []string{"github.com/nats-io/", "github.com/go-chi/"},
		},
		"Secrets know no controller and no table": {
			pkg: "internal/reconcile/secrets", internal: []string{
				"api/", "internal/event", "internal/builtin", "internal/fair", "internal/alerts/provider", "internal/reconcile/kube", "internal/reconcile/bounds",
			},
			forbidden: []string{"github.com/nats-io/", "github.com/go-chi/"},
		},
		"the Kubernetes side fills the tables and knows no bus": {
			// It builds destinations, one of which uses NATS; TestOnlyTheBusAndADestinationSpeakNATS allows no other use.
			pkg: "internal/reconcile",
			internal: []string{
				"api/", "internal/event", "internal/builtin", "internal/fair", "internal/patterns", "internal/alerts", "internal/receiver", "internal/reconcile/",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, dep := range deps(t, tc.pkg) {
				own, isOwn := strings.CutPrefix(dep, module)
				switch {
				case isOwn && own != "internal/options" && !hasPrefix(tc.internal, own):
					t.Errorf("%s reaches %s", tc.pkg, own)
				case hasPrefix(tc.forbidden, dep):
					t.Errorf("%s reaches %s", tc.pkg, dep)
				}
			}
		})
	}
}

// TestOnlyTheBusAndADestinationSpeakNATS checks that only the process's own bus, with the packages below it, and the destination of that
// type import NATS. Fails when, for instance, internal/reconcile imports nats.go.
func TestOnlyTheBusAndADestinationSpeakNATS(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	found := 0
	for line := range strings.Lines(string(out)) {
		pkg, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.Contains(imports, "github.com/nats-io/") {
			continue
		}
		if found++; !hasPrefix([]string{module + "internal/bus", module + "internal/alerts/provider/nats"}, pkg) {
			t.Errorf("%s imports %s", pkg, imports)
		}
	}
	if found != 5 {
		t.Errorf("%d packages speak NATS, want 5", found)
	}
}

// TestOnlyTheKindsInUseAreLinked checks that the program links no group of Kubernetes' API but those that it uses, nor client-go's typed
// clientset and informers, which link all. Each group is registered when a process starts and stays in its memory. Fails when, for
// instance, internal/reconcile imports k8s.io/client-go/kubernetes.
func TestOnlyTheKindsInUseAreLinked(t *testing.T) {
	used := map[string]bool{"core/v1": false, "authentication/v1": false, "authorization/v1": false, "apidiscovery/v2": false}
	all := []string{
		"k8s.io/client-go/applyconfigurations", "k8s.io/client-go/discovery", "k8s.io/client-go/informers", "k8s.io/client-go/kubernetes",
		"k8s.io/client-go/listers",
	}
	for _, dep := range deps(t, "cmd/notifier") {
		group, isGroup := strings.CutPrefix(dep, "k8s.io/api/")
		_, isUsed := used[group]
		switch {
		case isGroup && isUsed:
			used[group] = true
		case isGroup || hasPrefix(all, dep):
			t.Errorf("cmd/notifier reaches %s", dep)
		}
	}
	for group, linked := range used {
		if !linked {
			t.Errorf("cmd/notifier no longer reaches k8s.io/api/%s", group)
		}
	}
}

func hasPrefix(prefixes []string, s string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

// reach has the packages that each package of this module reaches.
var reach = sync.OnceValue(func() map[string][]string {
	out, _ := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Deps " "}}`, module+"...").Output() // deps reports what is not there
	all := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		all[fields[0]] = fields[1:]
	}
	return all
})

func deps(t *testing.T, pkg string) []string {
	t.Helper()
	found := reach()[module+pkg]
	if len(found) == 0 {
		t.Fatalf("go list has no package %s", pkg)
	}
	return found
}
