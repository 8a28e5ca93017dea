package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"notifier/test/env"
	"notifier/test/sender"
)

const (
	// docsNamespace is that of the page's manifests; here each section uses a tenant's.
	docsNamespace = "team-a"
	// docsIssuer is the issuer of the page's generic-oidc Receiver, which the test replaces by its own.
	docsIssuer = "https://token.actions.githubusercontent.com"
	// docsAccount is the section that makes the service account of all the others.
	docsAccount = "Who writes"
	eventType   = "event"
)

// Fails when the page does not have each type of the API with a manifest and, unless it has no webhook, a command to try
// it.
func TestDocsTellOfEveryType(t *testing.T) {
	s, page := setUp(t), receiversPage(t)
	types, err := s.Tenant.WebhookTypes(s.Ctx)
	s.Must(err)
	for _, name := range append(types, eventType) {
		receivers, scripts := 0, 0
		for _, b := range page.find(name).blocks {
			switch {
			case b.script():
				scripts++
			case b.manifest():
				for _, obj := range s.objects(b.text) {
					if obj.GetKind() == "Receiver" && field(obj, "spec", "type") == name {
						receivers++
					}
				}
			}
		}
		if receivers == 0 {
			t.Errorf("docs/receivers.md has no section %q with the manifest of a Receiver of that type", name)
		}
		if scripts < receivers && name != eventType {
			t.Errorf("docs/receivers.md, section %q: %d Receivers, but curl lines in sh blocks for %d", name, receivers, scripts)
		}
	}
}

// Fails when a manifest on the page is refused or not ready, or when a command on it is not accepted as written. Fails
// also when an accepted command does not trigger all that the Receiver names, as the service account that the page
// makes.
func TestDocsManifestsAndCommandsWorkAsWritten(t *testing.T) {
	for _, tool := range []string{"sh", "curl", "openssl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("the commands in docs/receivers.md need %s: install it, for instance by apt-get install curl openssl (%v)", tool, err)
		}
	}
	page := receiversPage(t)
	for _, part := range page {
		if !slices.ContainsFunc(part.blocks, func(b block) bool { return b.manifest() || b.script() }) {
			continue
		}
		t.Run(part.title, func(t *testing.T) {
			r := &reader{fixture: setUp(t), secrets: map[string]map[string]string{}}
			r.Must(r.Tenant.Revoke(r.Ctx, r.Tenant.Namespace, "default")) // the page's own account must suffice
			r.read(page.find(docsAccount))
			if part.title != docsAccount {
				r.read(part)
			}
		})
	}
}

// reader follows the steps of a section, in their order.
type reader struct {
	*fixture
	secrets map[string]map[string]string
	// last is the Receiver of the latest manifest.
	last *unstructured.Unstructured
	// idToken is the value of the variable ID_TOKEN.
	idToken string
}

func (r *reader) read(s section) {
	r.Helper()
	for _, b := range s.blocks {
		switch {
		case b.manifest():
			r.apply(b.text)
		case b.script():
			r.run(b.text)
		}
	}
}

// apply makes the objects that the Receivers of the manifests name, applies the manifests and waits until the Receivers
// are ready.
func (r *reader) apply(manifests string) {
	r.Helper()
	if strings.Contains(manifests, docsIssuer) {
		issuer := r.issuer()
		manifests = strings.ReplaceAll(manifests, docsIssuer, issuer.URL)
		r.idToken = issuer.Token("hooks.example.com", sender.Claims{"repository": "team-a/app", "ref": "refs/heads/main"})
	}
	var receivers []*unstructured.Unstructured
	for _, obj := range r.objects(manifests) {
		if obj.GetNamespace() != docsNamespace {
			r.Fatalf("%s %q is in namespace %q, not %q", obj.GetKind(), obj.GetName(), obj.GetNamespace(), docsNamespace)
		}
		switch obj.GetKind() {
		case "Secret":
			data, _, err := unstructured.NestedStringMap(obj.Object, "stringData")
			r.Must(err)
			r.secrets[obj.GetName()] = data
			if data["email"] != "" {
				r.idToken = r.google.Token(data["audience"], sender.Claims{"email": data["email"], "email_verified": true})
			}
		case "Receiver":
			receivers = append(receivers, obj)
			for _, t := range append(r.targets(obj, "resources"), r.targets(obj, "eventSources")...) {
				r.Must(r.Tenant.Object(r.Ctx, t.kind, t.name, t.labels, ""))
			}
		}
		text, err := json.Marshal(obj.Object)
		r.Must(err)
		r.Must(r.Tenant.Apply(r.Ctx, strings.ReplaceAll(string(text), fmt.Sprintf(`"namespace":%q`, docsNamespace), `"namespace":"$NS"`)))
	}
	for _, obj := range receivers {
		_, err := r.Tenant.WaitCondition(r.Ctx, "Receiver", obj.GetName(), "Ready", metav1.ConditionTrue, "Succeeded")
		r.Must(err)
		r.last = obj
		if field(obj, "spec", "type") == eventType {
			r.tell(obj)
		}
	}
}

// run runs a command with the page's variables, and only PATH of this process's environment.
func (r *reader) run(script string) {
	r.Helper()
	if r.last == nil || strings.Count(script, `curl -i "$HOOK_URL" `) != 1 {
		r.Fatalf("a block of language sh is one curl -i \"$HOOK_URL\" under the manifest of its Receiver: %s", script)
	}
	path, err := r.Tenant.ReceiverPath(r.Ctx, r.last.GetName())
	r.Must(err)
	cmd := exec.CommandContext(r.Ctx, "sh", "-euc", script)
	cmd.Dir = r.TempDir()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOOK_URL=" + r.HooksURL + path}
	if token := r.secrets[field(r.last, "spec", "secretRef", "name")]["token"]; token != "" {
		cmd.Env = append(cmd.Env, "TOKEN="+token)
	}
	if r.idToken != "" {
		cmd.Env = append(cmd.Env, "ID_TOKEN="+r.idToken)
	}
	sent := time.Now()
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, failed.Stderr)
	}
	r.Must(err)
	answer := string(out)
	if !strings.HasPrefix(answer, "HTTP/1.1 200 ") || !strings.HasSuffix(answer, "\r\n\r\n"+accepted) {
		r.Fatalf("got %s\nfor %s", answer, script)
	}
	for _, t := range r.targets(r.last, "resources") {
		r.await(sent, t.kind+"/"+t.name)
	}
}

// tell POSTs an event of a Receiver of type event, as the object's controller would. It repeats that until the Receiver
// has triggered its target: an event counts only when the process knows its object.
func (r *reader) tell(obj *unstructured.Unstructured) {
	r.Helper()
	source, target := r.targets(obj, "eventSources")[0], r.targets(obj, "resources")[0]
	ctx, cancel := context.WithTimeout(r.Ctx, 30*time.Second)
	defer cancel()
	told := 0
	r.Must(env.Eventually(ctx, func(ctx context.Context) error {
		told++
		revision := fmt.Sprintf("1.0.%d", told)
		event, err := r.Tenant.Event(ctx, source.kind, source.name, "info", "Succeeded", "Latest image tag resolved to "+revision, revision)
		if err != nil {
			return err
		}
		if _, err := r.Post(ctx, event); err != nil {
			return err
		}
		at, err := r.Tenant.Requested(ctx, target.kind, target.name)
		if err == nil && at.IsZero() {
			err = fmt.Errorf("%s %q was not asked to reconcile", target.kind, target.name)
		}
		return err
	}))
}

// target is an object that a Receiver names, or an object that it selects.
type target struct {
	kind, name string
	labels     map[string]string
}

// targets returns one object for each entry of a list in a Receiver's spec.
func (r *reader) targets(obj *unstructured.Unstructured, list string) []target {
	r.Helper()
	entries, _, err := unstructured.NestedSlice(obj.Object, "spec", list)
	r.Must(err)
	var all []target
	for _, entry := range entries {
		entry := &unstructured.Unstructured{Object: entry.(map[string]any)}
		t := target{kind: field(entry, "kind"), name: field(entry, "name")}
		if _, known := env.Kinds[t.kind]; !known {
			r.Fatalf("kind %q is none that the tests know", t.kind)
		}
		if t.name == "*" {
			t.name = "shop-app"
			t.labels, _, err = unstructured.NestedStringMap(entry.Object, "matchLabels")
			r.Must(err)
		}
		all = append(all, t)
	}
	return all
}

// objects decodes manifests.
func (s *fixture) objects(manifests string) []*unstructured.Unstructured {
	s.Helper()
	objects, err := env.Decode(manifests)
	s.Must(err)
	return objects
}

// field returns a text in an object, "" if it is missing.
func field(obj *unstructured.Unstructured, path ...string) string {
	text, _, _ := unstructured.NestedString(obj.Object, path...) // a value of another type counts as missing
	return text
}
