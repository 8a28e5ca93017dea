package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"notifier/test/env"
)

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

const (
	editedAlerts, editedProviders, editedReceivers, editedObjects = 3, 2, 2, 4
	// always is the Alert, and its Provider, that nobody edits.
	always = "always"
)

// editedTenant is a tenant whose objects are edited, and their specs as the test wrote them last.
type editedTenant struct {
	*env.Tenant
	alerts    [editedAlerts]editedAlert
	providers [editedProviders]editedProvider
	receivers [editedReceivers]editedReceiver
	templates [editedObjects]map[string]any // of events
	posted    [editedObjects]int
}

// editedAlert takes events for one of the Providers. edits counts the changes of what it does.
type editedAlert struct {
	exists, suspended, errorsOnly bool
	provider                      int
	sources                       []int // objects; none is all of them
	edits                         int
}

// editedProvider sends to the sink, at a path that ends with address. The sink refuses while down.
type editedProvider struct {
	exists, suspended, down bool
	broken                  bool // without its Secret
	address, before         int  // before is the address of the round before
	edits                   int
}

// editedReceiver asks for the reconcile of GitRepositories.
type editedReceiver struct {
	exists, suspended bool
	targets           []int
	token             int
	path              string
}

func (a editedAlert) matches(object int, severity string) bool {
	return a.exists && !a.suspended && (!a.errorsOnly || severity == "error") && (len(a.sources) == 0 || slices.Contains(a.sources, object))
}

func objectName(i int) string   { return fmt.Sprintf("object-%d", i) }
func alertName(i int) string    { return fmt.Sprintf("alert-%d", i) }
func providerName(i int) string { return fmt.Sprintf("provider-%d", i) }
func receiverName(i int) string { return fmt.Sprintf("receiver-%d", i) }

// newEditedTenant makes a tenant with all its objects.
func newEditedTenant(ctx context.Context, w *env.System, sink *env.Sink, r *rand.Rand) (*editedTenant, error) {
	tenant, err := w.Tenant(ctx, "edited-")
	if err != nil {
		return nil, err
	}
	e := &editedTenant{Tenant: tenant}
	for i := range editedObjects {
		for _, kind := range []string{"Kustomization", "GitRepository"} {
			if err := e.Object(ctx, kind, objectName(i), nil, ""); err != nil {
				return nil, err
			}
		}
		if e.templates[i], err = e.Event(ctx, "Kustomization", objectName(i), "info", "ReconciliationSucceeded", "", "main@sha1:1"); err != nil {
			return nil, err
		}
	}
	if err := e.Alert(ctx, always, "generic", sink.URL("/"+e.Namespace+"/"+always+"/0"), env.AnyKustomization); err != nil {
		return nil, err
	}
	for i := range e.providers {
		e.providers[i].exists = true
		if err := e.writeProvider(ctx, i, sink); err != nil {
			return nil, err
		}
	}
	for i := range e.alerts {
		e.alerts[i] = editedAlert{exists: true, provider: i % editedProviders}
		if err := e.writeAlert(ctx, i); err != nil {
			return nil, err
		}
	}
	for i := range e.receivers {
		e.receivers[i] = editedReceiver{exists: true, targets: someOf(r)}
		if err := e.writeReceiver(ctx, i); err != nil {
			return nil, err
		}
	}
	return e, e.settled(ctx)
}

// someOf returns some of the objects, at least one.
func someOf(r *rand.Rand) []int { return r.Perm(editedObjects)[:1+r.IntN(editedObjects)] }

func (e *editedTenant) writeAlert(ctx context.Context, i int) error {
	a := e.alerts[i]
	if !a.exists {
		return e.Delete(ctx, "Alert", alertName(i))
	}
	severity, sources := "info", []string{env.AnyKustomization}
	if a.errorsOnly {
		severity = "error"
	}
	if len(a.sources) > 0 {
		sources = nil
	}
	for _, object := range a.sources {
		sources = append(sources, fmt.Sprintf(`{"kind":"Kustomization","name":%q}`, objectName(object)))
	}
	return e.Object(ctx, "Alert", alertName(i), nil, fmt.Sprintf(
		`{"providerRef":{"name":%q},"eventSeverity":%q,"suspend":%t,"eventSources":[%s],"eventMetadata":{"alert":%q}}`,
		providerName(a.provider), severity, a.suspended, strings.Join(sources, ","), alertName(i)))
}

func (e *editedTenant) writeProvider(ctx context.Context, i int, sink *env.Sink) error {
	p, name := e.providers[i], providerName(i)
	if !p.exists {
		return e.Delete(ctx, "Provider", name)
	}
	secret := name + "-address"
	address := sink.URL(fmt.Sprintf("/%s/%s/%d", e.Namespace, name, p.address))
	write := func() error { return e.Secret(ctx, secret, map[string]string{"address": address}) }
	if p.broken {
		write = func() error {
			return e.Dynamic.Resource(secrets).Namespace(e.Namespace).Delete(ctx, secret, metav1.DeleteOptions{})
		}
	}
	if err := write(); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return e.Object(ctx, "Provider", name, nil, fmt.Sprintf(`{"type":"generic","suspend":%t,"secretRef":{"name":%q}}`, p.suspended, secret))
}

func (e *editedTenant) writeReceiver(ctx context.Context, i int) error {
	r, name := e.receivers[i], receiverName(i)
	if !r.exists {
		return e.Delete(ctx, "Receiver", name)
	}
	if err := e.Secret(ctx, name+"-token", map[string]string{"token": r.secret()}); err != nil {
		return err
	}
	var targets []string
	for _, object := range r.targets {
		targets = append(targets, fmt.Sprintf(`{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"GitRepository","name":%q}`, objectName(object)))
	}
	return e.Object(ctx, "Receiver", name, nil, fmt.Sprintf(
		`{"type":"github","suspend":%t,"secretRef":{"name":%q},"resources":[%s]}`, r.suspended, name+"-token", strings.Join(targets, ",")))
}

func (r editedReceiver) secret() string { return fmt.Sprintf("token-%d", r.token) }

// settled waits until the statuses say that the specs as last written are in use, and notes the Receivers' paths.
func (e *editedTenant) settled(ctx context.Context) error {
	for i, a := range e.alerts {
		if a.exists {
			if _, err := e.WaitCondition(ctx, "Alert", alertName(i), "Serving", "", ""); err != nil {
				return err
			}
		}
	}
	for i, p := range e.providers {
		if p.exists {
			if _, err := e.WaitCondition(ctx, "Provider", providerName(i), "Serving", "", ""); err != nil {
				return err
			}
		}
	}
	for i := range e.receivers {
		r := &e.receivers[i]
		if !r.exists {
			r.path = ""
			continue
		}
		if _, err := e.WaitCondition(ctx, "Receiver", receiverName(i), "Ready", "", ""); err != nil {
			return err
		}
		want := env.HookPath(r.secret(), receiverName(i), e.Namespace)
		err := env.Eventually(ctx, func(ctx context.Context) error {
			obj, err := e.Get(ctx, "Receiver", receiverName(i))
			if err != nil {
				return err
			}
			status, _ := obj.Object["status"].(map[string]any)
			if r.path, _ = status["webhookPath"].(string); r.path != want && !r.suspended {
				return fmt.Errorf("Receiver %s/%s has the path of another token", e.Namespace, receiverName(i))
			}
			return nil
		})
		if err != nil {
			return err
		}
		r.path = want
	}
	return nil
}

// editsOf changes the specs of a tenant, and returns the writes.
func (e *edits) editsOf(tenant *editedTenant) []func(context.Context) error {
	r := e.rand
	var writes []func(context.Context) error
	for i := range tenant.providers {
		tenant.providers[i].before = tenant.providers[i].address
	}
	for range 1 + r.IntN(4) {
		switch r.IntN(3) {
		case 0:
			i := r.IntN(editedAlerts)
			a := &tenant.alerts[i]
			a.edits++
			e.noteEdit(tenant, alertName(i))
			switch {
			case r.IntN(4) == 0, !a.exists:
				a.exists = !a.exists
			case r.IntN(3) == 0, a.suspended:
				a.suspended = !a.suspended
			default:
				a.errorsOnly, a.provider, a.sources = r.IntN(3) == 0, r.IntN(editedProviders), someOf(r)
			}
			writes = append(writes, func(ctx context.Context) error { return tenant.writeAlert(ctx, i) })
		case 1:
			i := r.IntN(editedProviders)
			p := &tenant.providers[i]
			switch {
			case r.IntN(3) == 0:
				e.setDown(tenant, i, !p.down)
				continue
			case r.IntN(5) == 0, !p.exists:
				p.exists = !p.exists
				p.edits++
				e.noteEdit(tenant, providerName(i))
			case r.IntN(3) == 0, p.suspended:
				p.suspended = !p.suspended
				p.edits++
				e.noteEdit(tenant, providerName(i))
			case r.IntN(3) == 0, p.broken:
				p.broken = !p.broken
			default:
				p.address++
			}
			writes = append(writes, func(ctx context.Context) error { return tenant.writeProvider(ctx, i, e.sink) })
		case 2:
			i := r.IntN(editedReceivers)
			of := &tenant.receivers[i]
			switch {
			case r.IntN(4) == 0, !of.exists:
				of.exists = !of.exists
			case r.IntN(3) == 0, of.suspended:
				of.suspended = !of.suspended
			case r.IntN(2) == 0:
				of.token++
			default:
				of.targets = someOf(r)
			}
			writes = append(writes, func(ctx context.Context) error { return tenant.writeReceiver(ctx, i) })
		}
	}
	e.t.Logf("%s edits of %s: alerts %+v, providers %+v", time.Now().Format("05.000"), tenant.Namespace, tenant.alerts, tenant.providers)
	return writes
}

// noteEdit records that an Alert or a Provider takes other events from now on.
func (e *edits) noteEdit(tenant *editedTenant, name string) {
	e.edited[tenant.Namespace+name] = append(e.edited[tenant.Namespace+name], &edited{from: time.Now()})
}
