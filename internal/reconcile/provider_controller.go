package reconcile

import (
	"cmp"
	"context"
	"io"
	"strings"

	"golang.org/x/time/rate"

	v1 "notifier/api/v1"
	"notifier/api/v1beta3"
	"notifier/internal/alerts"
	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/registry"
	"notifier/internal/receiver/limit"
	"notifier/internal/reconcile/identity"
	"notifier/internal/reconcile/kube"
	"notifier/internal/reconcile/secrets"
)

// providerController compiles Providers into destinations.
type providerController struct {
	providers    *kube.Informer[*v1beta3.Provider]
	secrets      *secrets.Store
	destinations *alerts.Destinations
	network      provider.Network
	// alert returns an Alert from the cache.
	alert func(kube.Key) (*v1beta3.Alert, bool)
	// compiling gives namespaces turns to compile expressions and long Secrets; programs has the compiled expressions.
	compiling *limit.CompileShare
	programs  *remembered[*statusProgram]
	// identities is nil in an installation without workload identity.
	identities *identity.Accounts
	// limits apply to Providers that set none.
	limits   registry.Limits
	verdicts *verdicts
}

// keys returns the keys to compile when a Provider is made, changed or deleted. It first announces the Provider's Secrets, so that a
// start knows all of them before it reads any.
func (c *providerController) keys(p *v1beta3.Provider) []kube.Key {
	if checkProvider(p) == nil {
		wants, _ := wantsOf(p)
		c.secrets.Expect(secrets.User{Kind: v1beta3.ProviderKind, Key: kube.KeyOf(p)}, wants...)
	}
	return kube.Self(p)
}

func (c *providerController) reconcile(ctx context.Context, k kube.Key) error {
	object, ok := c.providers.Get(k)
	if !ok || object.DeletionTimestamp != nil {
		c.forget(k)
		return nil
	}
	if c.verdicts.replaced(object) { // it may have another owner, and its compile may be put off or fail
		c.forget(k)
	}
	if f := checkProvider(object); f != nil {
		c.secrets.Release(secrets.User{Kind: v1beta3.ProviderKind, Key: k})
		c.refuse(object, *f)
		return nil
	}
	if err := c.refresh(ctx, object); err != nil {
		return c.unread(object, err)
	}
	found, f, err := readCredentials(ctx, c.secrets, object)
	switch {
	case err != nil:
		return c.unread(object, err)
	case f != nil:
		c.refuse(object, *f)
		return nil
	}
	named, err := c.statusProgram(ctx, object)
	if err != nil {
		return err
	}
	var sender registry.Sender
	if err := compileInTurn(ctx, c.compiling, object.Namespace, found.text(), func() {
		sender, f = c.compile(object, found, named)
	}); err != nil {
		return err
	}
	if f != nil {
		c.refuse(object, *f)
		return nil
	}
	c.serve(object, sender, found.version(object))
	return nil
}

// refresh has the Secrets read again if the Provider has a new reconcile request, or the last read failed.
func (c *providerController) refresh(ctx context.Context, p *v1beta3.Provider) error {
	before, known := c.verdicts.on(p)
	if !known || !before.unread() && before.requestedAt == p.Annotations[v1.ReconcileRequestAnnotation] {
		return nil
	}
	return c.secrets.Refresh(ctx, secrets.User{Kind: v1beta3.ProviderKind, Key: kube.KeyOf(p)})
}

// unread ends a reconcile whose Secrets could not be read. The destination in use stays: the failure is unrelated to the Secrets.
func (c *providerController) unread(p *v1beta3.Provider, err error) error {
	if kube.IsIsolated(err) {
		f := unreadable()
		if before := c.destinations.Get(p.Namespace, p.Name); before == nil || before.Sender == nil {
			c.put(p, &alerts.Destination{NotReady: f.message})
		}
		c.decide(p, refused(p, f))
	}
	return err
}

func (c *providerController) serve(p *v1beta3.Provider, sender registry.Sender, version string) {
	limit := c.limits.Of(sender)
	if l := p.Spec.RateLimit; l != nil {
		limit = provider.Limit{Rate: rate.Limit(l.PerSecond), Burst: int(cmp.Or(l.Burst, l.PerSecond))}
	}
	c.put(p, &alerts.Destination{Sender: sender, Version: version, Limit: limit.Rate, Burst: limit.Burst})
	v := served(p, v1.SucceededReason, "Provider initialized"+ignoring(sender))
	if p.Spec.Suspend {
		v = served(p, v1.SuspendedReason, "spec.suspend is set: nothing is sent; unset it to go on")
	}
	c.decide(p, v)
}

// ignoring returns the text about the Secret's headers that are not sent, or "".
func ignoring(sender registry.Sender) string {
	s, ok := sender.(interface{ Ignored() []string })
	if !ok || len(s.Ignored()) == 0 {
		return ""
	}
	return "; of the Secret's key headers these are ignored: " + strings.Join(s.Ignored(), ", ")
}

// refuse takes the Provider out of use. Deliveries to it wait.
func (c *providerController) refuse(p *v1beta3.Provider, f fault) {
	c.put(p, &alerts.Destination{NotReady: f.message})
	c.decide(p, refused(p, f))
}

// put completes a destination, replaces the former one and closes its idle connections.
func (c *providerController) put(p *v1beta3.Provider, d *alerts.Destination) {
	before := c.destinations.Get(p.Namespace, p.Name)
	d.UID, d.Type, d.Suspended, d.Unsupported = string(p.UID), p.Spec.Type, p.Spec.Suspend, !registry.Builds(p.Spec.Type)
	d.Takes, d.Created = registry.Takes(p.Spec.Type), p.CreationTimestamp.Time
	c.destinations.Put(p.Namespace, p.Name, d)
	closeSender(before)
}

// closeSender closes a destination's idle connections. It does not disturb sends in progress.
func closeSender(d *alerts.Destination) {
	if d == nil {
		return
	}
	if closer, ok := d.Sender.(io.Closer); ok {
		_ = closer.Close()
	}
}

func (c *providerController) decide(p *v1beta3.Provider, v verdict) {
	c.verdicts.put(kube.KeyOf(p), v)
}

func (c *providerController) forget(k kube.Key) {
	before := c.destinations.Get(k.Namespace, k.Name)
	c.destinations.Delete(k.Namespace, k.Name)
	closeSender(before)
	c.secrets.Release(secrets.User{Kind: v1beta3.ProviderKind, Key: k})
	c.programs.remove(k)
	c.verdicts.remove(k)
}
