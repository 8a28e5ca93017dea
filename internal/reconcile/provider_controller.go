package reconcile

import (
	"cmp"
	"context"
	"io"
	"strings"
	"time"

	"golang.org/x/time/rate"

	v1 "notifier/api/v1"
	"notifier/internal/alerts"
	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/registry"
	"notifier/internal/reconcile/kube"
	"notifier/internal/reconcile/secrets"
)

// providerController compiles Providers into destinations.
type providerController struct {
	*kindOf[*v1.Provider]
	// alert returns an Alert from the cache.
	alert func(kube.Key) (*v1.Alert, bool)
}

// keys returns the keys to compile when a Provider is made, changed or deleted. It first announces the Provider's Secrets, so that a
// start knows all of them before it reads any.
func (c *providerController) keys(p *v1.Provider) []kube.Key {
	if checkProvider(p) == nil {
		wants := wantsOf(secretReferences(p, &credentials{}))
		c.secrets.Expect(secrets.User{Kind: v1.ProviderKind, Key: kube.KeyOf(p)}, wants...)
	}
	return kube.Self(p)
}

func (c *providerController) compile(ctx context.Context, k kube.Key) error {
	object, ok := c.objects.Get(k)
	if !ok || object.DeletionTimestamp != nil {
		c.forget(k)
		return nil
	}
	if d := c.options.Destinations.Get(k.Namespace, k.Name); d != nil && d.UID != string(object.UID) {
		c.forget(k) // the object may have another owner than that destination's, and its compile may be put off or fail
	}
	if f := checkProvider(object); f != nil {
		c.secrets.Release(secrets.User{Kind: v1.ProviderKind, Key: k})
		c.refuse(object, *f)
		return nil
	}
	sender, built, f, err := c.build(ctx, object)
	switch {
	case err != nil:
		c.unbuilt(object, err)
	case f != nil:
		c.refuse(object, *f)
	default:
		c.serve(object, sender, built)
	}
	return err
}

// build returns the sender of a checked Provider and its destination, or the fault that its owner has to correct. It returns an error if the
// Secrets cannot be read, or nothing compiled, now.
func (c *providerController) build(
	ctx context.Context, p *v1.Provider,
) (sender provider.Sender, built *alerts.Destination, f *fault, err error) {
	if err := c.refresh(ctx, p); err != nil {
		return nil, nil, nil, err
	}
	found, f, err := readCredentials(ctx, c.secrets, p)
	if f != nil || err != nil {
		return nil, nil, f, err
	}
	text := found.text() + len(p.Spec.CommitStatusExpr)
	err = compileInTurn(ctx, c.compiling, p.Namespace, text, func() { sender, f = c.sender(p, found) })
	return sender, &alerts.Destination{Version: found.version(p), Changed: found.written()}, f, err
}

// refresh has the Secrets read again if the Provider has a new reconcile request, or the last read failed.
func (c *providerController) refresh(ctx context.Context, p *v1.Provider) error {
	before, known := c.verdicts.on(p)
	if !known || !before.unread() && before.requestedAt == p.Annotations[v1.ReconcileRequestAnnotation] {
		return nil
	}
	return c.secrets.Refresh(ctx, secrets.User{Kind: v1.ProviderKind, Key: kube.KeyOf(p)})
}

// unbuilt ends a reconcile without a result. The destination in use stays, since the obstacle is unrelated to the Provider, unless the
// Provider is suspended by now, or the destination drops events that the Provider as it is now keeps. One that has none gets one, so that it is
// not taken for gone.
func (c *providerController) unbuilt(p *v1.Provider, err error) {
	f, isolated := unreadable(), kube.IsIsolated(err)
	message := f.message
	if kube.IsLater(err) {
		message = "it waits for its namespace's turn to be compiled"
	}
	before := c.options.Destinations.Get(p.Namespace, p.Name)
	dropped := p.Spec.Suspend || before != nil && (before.Suspended || before.Unsupported)
	if before == nil || dropped || isolated && before.Sender == nil {
		c.put(p, &alerts.Destination{NotReady: message})
	}
	switch {
	case isolated:
		c.verdicts.put(p, refused(p, f))
	case dropped:
		c.verdicts.changed(kube.KeyOf(p)) // its Alerts say whether events still are
	}
}

// serve puts a built destination into use.
func (c *providerController) serve(p *v1.Provider, sender provider.Sender, built *alerts.Destination) {
	limit := c.options.Limits.Of(sender)
	if l := p.Spec.RateLimit; l != nil {
		limit = provider.Limit{Rate: rate.Limit(l.PerSecond), Burst: int(cmp.Or(l.Burst, l.PerSecond))}
	}
	built.Sender, built.Limit, built.Burst = sender, limit.Rate, limit.Burst
	c.put(p, built)
	v := served(p, v1.SucceededReason, "Provider initialized"+shortened(p)+ignoring(sender))
	if p.Spec.Suspend {
		v = served(p, v1.SuspendedReason, "spec.suspend is set: nothing is sent; unset it to go on")
	}
	c.verdicts.put(p, v)
}

// shortened returns the text about a time-out beyond maxTimeout, or "".
func shortened(p *v1.Provider) string {
	if p.Timeout() <= maxTimeout {
		return ""
	}
	return "; spec.timeout is cut to " + maxTimeout.String()
}

// ignoring returns the text about the Secret's headers that are not sent, or "".
func ignoring(sender provider.Sender) string {
	s, ok := sender.(interface{ Ignored() []string })
	if !ok || len(s.Ignored()) == 0 {
		return ""
	}
	return "; of the Secret's key headers these are ignored: " + strings.Join(s.Ignored(), ", ")
}

// refuse takes the Provider out of use. Deliveries to it wait.
func (c *providerController) refuse(p *v1.Provider, f fault) {
	c.put(p, &alerts.Destination{NotReady: f.message})
	c.verdicts.put(p, refused(p, f))
}

// put completes a destination, replaces the former one and closes its idle connections.
func (c *providerController) put(p *v1.Provider, d *alerts.Destination) {
	before := c.options.Destinations.Get(p.Namespace, p.Name)
	d.UID, d.Type, d.Suspended = string(p.UID), p.Spec.Type, p.Spec.Suspend
	d.Unsupported = !registry.Builds(p.Spec.Type) && !kube.IsUndecodable(p) // then the type is not known
	d.Takes, d.Created = registry.Takes(p.Spec.Type), p.CreationTimestamp.Time
	changed := before != nil && before.Version != d.Version
	switch {
	case changed && before.Version != "": // it has none while it cannot be built
		d.Changed = time.Now()
	case before != nil && before.Changed.After(d.Changed):
		d.Changed = before.Changed
	}
	c.options.Destinations.Put(p.Namespace, p.Name, d)
	closeSender(before)
	if changed { // also where the verdict is the same
		c.restate(kube.KeyOf(p))
	}
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

func (c *providerController) forget(k kube.Key) {
	before := c.options.Destinations.Get(k.Namespace, k.Name)
	c.options.Destinations.Delete(k.Namespace, k.Name)
	closeSender(before)
	c.secrets.Release(secrets.User{Kind: v1.ProviderKind, Key: k})
	c.verdicts.remove(k)
}
