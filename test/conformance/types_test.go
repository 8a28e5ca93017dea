package conformance

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
	"notifier/test/sender"
)

// token is the token of Receivers whose type needs no special one.
const token = "a-long-random-token"

// kind is a type of Receiver with requests of its sender.
type kind struct {
	// secret is the Secret's content, nil for a type without one.
	secret map[string]string
	// spec has the fields of the Receiver's spec beside the common ones, and events its listed events.
	spec   string
	events []string
	// accepted are the webhooks that trigger. repeats says that the sender numbers its deliveries.
	accepted map[string]sender.Webhook
	repeats  bool
	// refused are answered 400 with a reason.
	refused map[string]refusal
	pings   map[string]sender.Webhook
	// sized makes an authentic webhook with a body.
	sized func(body string) sender.Webhook
	// broken is a spec with which the Receiver cannot be served; empty means that it lacks its Secret.
	broken string
}

type refusal struct {
	webhook sender.Webhook
	reason  string
}

// types are all types but event, which has no webhook.
var types = map[string]func(*fixture) kind{
	"acr": acr, "bitbucket": bitbucket, "cdevents": cdevents, "dockerhub": dockerhub, "gcr": gcr, "generic": generic,
	"generic-hmac": genericHMAC, "generic-oidc": genericOIDC, "gitea": gitea, "github": github, "gitlab": gitlab, "harbor": harbor,
	"nexus": nexus, "quay": quay, "standard-webhooks": standardWebhooks,
}

// variants are types with another kind of credential.
var variants = map[string]func(*fixture) kind{"gitlab": gitlabSigned}

// Fails when a type is added to the API and not to this package.
func TestEveryTypeOfTheAPIIsTriedHere(t *testing.T) {
	s := setUp(t)
	want, err := s.Tenant.WebhookTypes(s.Ctx)
	s.Must(err)
	if have := slices.Sorted(maps.Keys(types)); !slices.Equal(have, want) {
		t.Errorf("have %q, want %q", have, want)
	}
}

// One Receiver of the type names two objects and selects one by its label, and there is one object beside them. Fails
// when a type refuses its sender's requests, accepts other requests, or gives another answer. Fails also when a refused
// request triggers, and when an accepted one triggers fewer, or more, objects than the Receiver names.
func TestEachTypeTakesWhatItsSenderSendsAndNothingElse(t *testing.T) {
	for name, make := range types {
		t.Run(name, func(t *testing.T) { s := setUp(t); s.conform(name, make(s)) })
	}
	for name, make := range variants {
		t.Run(name+" otherwise", func(t *testing.T) { s := setUp(t); s.conform(name, make(s)) })
	}
}

// The objects of every tenant here.
var named, beside = []string{"GitRepository/app", "OCIRepository/app", "Kustomization/picked"}, "Kustomization/beside"

const objectManifests = `
{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"GitRepository","metadata":{"name":"app","namespace":"$NS"}}
---
{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"OCIRepository","metadata":{"name":"app","namespace":"$NS"}}
---
{"apiVersion":"kustomize.toolkit.fluxcd.io/v1","kind":"Kustomization","metadata":{"name":"picked","namespace":"$NS","labels":{"app":"yes"}}}
---
{"apiVersion":"kustomize.toolkit.fluxcd.io/v1","kind":"Kustomization","metadata":{"name":"beside","namespace":"$NS","labels":{"app":"no"}}}
---
`

const resources = `"resources":[{"kind":"GitRepository","name":"app"},{"kind":"OCIRepository","name":"app"},
 {"apiVersion":"kustomize.toolkit.fluxcd.io/v1","kind":"Kustomization","name":"*","matchLabels":{"app":"yes"}}]`

// maxBody is the size in bytes of the greatest accepted body.
const maxBody = 3 << 20

func (s *fixture) conform(name string, k kind) {
	s.Helper()
	s.install(name, k)
	path := s.ready("app", k.secret["token"])
	suspended := s.ready("suspended", k.secret["token"])
	pinging := s.ready("pings", k.secret["token"])
	s.ready("marker", "marker-token")
	s.Condition(s.Tenant, "Receiver", "broken", "Ready", metav1.ConditionFalse, "")

	for what, r := range k.refused {
		s.send(what, path, r.webhook, http.StatusBadRequest, reason(r.reason))
	}
	for what, w := range k.pings {
		s.send(what, path, w, http.StatusOK, pinged)
		s.send(what+", listed", pinging, w, http.StatusOK, pinged)
	}
	notReady := http.StatusNotFound // without its Secret
	if k.broken != "" {
		notReady = http.StatusServiceUnavailable
	}
	for what, w := range k.accepted {
		s.send(what+", suspended", suspended, w, http.StatusServiceUnavailable, reason("receiver is suspended"))
		s.send(what+", not ready", env.HookPath(k.secret["token"], "broken", s.Tenant.Namespace), w, notReady, "")
	}
	over := k.sized(strings.Repeat("x", maxBody+1))
	s.sendChunked("over size", path, over, http.StatusRequestEntityTooLarge, reason("body is larger than 3 MiB"))
	if asked := s.settled(); len(asked) != 0 {
		s.Errorf("what was refused asked for %v", asked)
	}

	last := sender.Webhook{}
	for what, w := range k.accepted {
		sent := time.Now()
		s.send(what, path, w, http.StatusOK, accepted)
		s.await(sent, named...)
		last = w
	}
	s.settled()
	if k.repeats {
		again := time.Now()
		s.send("sent again", path, last, http.StatusOK, duplicate)
		s.await(again, named...)
	}
	after := s.settled()
	if _, touched := after[beside]; touched || len(after) != len(named) {
		s.Errorf("asked for %v, want %v alone", after, named)
	}
}

// install makes the objects and the Receivers: "app", "suspended", one that lists the type's pings, and an unserved
// one.
func (s *fixture) install(name string, k kind) {
	s.Helper()
	ref := ""
	manifests := objectManifests + markerManifests
	if k.secret != nil {
		data, err := json.Marshal(k.secret)
		s.Must(err)
		manifests += `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"credentials","namespace":"$NS"},"stringData":` + string(data) + "}\n---\n"
		ref = `"secretRef":{"name":"credentials"},`
	}
	events := func(names ...string) string {
		if len(k.events) == 0 {
			return ""
		}
		text, err := json.Marshal(names)
		s.Must(err)
		return `"events":` + string(text) + ","
	}
	broken := `"secretRef":{"name":"missing"},`
	if k.broken != "" {
		broken = k.broken
	} else {
		broken += k.spec
	}
	manifests += receiver("app", name, ref+k.spec+events(k.events...)+resources) +
		receiver("suspended", name, ref+k.spec+`"suspend":true,`+resources) +
		receiver("pings", name, ref+k.spec+events("ping", "diagnostics:ping")+resources) +
		receiver("broken", name, broken+resources)
	s.Must(s.Tenant.Apply(s.Ctx, manifests))
}
