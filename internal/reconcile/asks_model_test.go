package reconcile

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	v1 "notifier/api/v1"
	"notifier/internal/event"
	"notifier/internal/event/view"
	"notifier/internal/reconcile/kube"
)

// FuzzEachRequestIsServedOnceByTheObjectThatMadeIt plays Alerts and Providers that request replays and tests while they are changed, deleted
// and made again, beside reads of Secrets, requests, reads and notes of handled requests that come late or fail, and terms of the worker that
// end. Fails when a request is served by another object, or by what the object was before or after it, when it is served more than once
// without the end of a term, or when it is neither served nor refused in the end.
func FuzzEachRequestIsServedOnceByTheObjectThatMadeIt(f *testing.F) {
	for seed := range uint64(5) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		a := &askers{
			moody: newMoody(seed), asked: map[request]bool{}, times: map[requestKey]int{}, last: map[requestKey]string{}, served: map[requestKey]int{},
		}
		s := a.settings()
		moodily := s.change
		s.change = func(o *Options) {
			moodily(o)
			o.MaxAlertsPerNamespace, o.Requests, o.Health = 0, by(a), moodyFeed{o.Health, a.moody}
		}
		play(t, s, func(*world) { a.play(rand.New(rand.NewPCG(seed, 1)), seed%2 == 0) })
	})
}

// requestKey is an annotation of an object.
type requestKey struct{ kind, uid, annotation string }

// request is a value of an annotation beside a version of the object's spec.
type request struct {
	requestKey
	spec, value string
}

// askers are the objects that request something, and a Requests.
type askers struct {
	*moody
	specs, terms int // how many there were

	requests sync.Mutex
	asked    map[request]bool
	// times counts how often an annotation was set to another value, served how often one was served. last is the value that was served or
	// refused last.
	times, served map[requestKey]int
	last          map[requestKey]string
}

// moodyFeed is a HealthFeed behind a moody server.
type moodyFeed struct {
	HealthFeed
	m *moody
}

func (f moodyFeed) Get(ctx context.Context, key string) ([]byte, error) {
	if err := f.m.fault(ctx); err != nil {
		return nil, err
	}
	return f.HealthFeed.Get(ctx, key)
}

func (f moodyFeed) Put(ctx context.Context, key string, value []byte) error {
	if err := f.m.fault(ctx); err != nil {
		return err
	}
	return f.HealthFeed.Put(ctx, key, value)
}

func (a *askers) Replay(ctx context.Context, namespace string, r view.ReplayRequest) (view.ReplayResult, error) {
	kind, name := v1.ProviderKind, r.Provider
	if r.Alert != "" {
		kind, name = v1.AlertKind, r.Alert
	}
	return view.ReplayResult{Replayed: 1}, a.serve(ctx, kind, kube.Key{Namespace: namespace, Name: name}, v1.ReplayAnnotation, r.IDs[0])
}

func (a *askers) Test(ctx context.Context, namespace string, r view.TestRequest) (view.TestResult, error) {
	k := kube.Key{Namespace: namespace, Name: r.Provider}
	return view.TestResult{}, a.serve(ctx, v1.ProviderKind, k, v1.TestAnnotation, r.Value)
}

// inUse returns the UID and the spec of the object that the tables have. A Provider that cannot be used has no spec.
func (a *askers) inUse(kind string, k kube.Key) (uid, spec string) {
	if kind == v1.AlertKind {
		if alert, ok := a.w.options.Alerts.Lookup(k.Namespace, k.Name); ok {
			return alert.UID, alert.Provider
		}
		return "", ""
	}
	d := a.w.options.Destinations.Get(k.Namespace, k.Name)
	switch {
	case d == nil:
		return "", ""
	case d.Sender == nil:
		return d.UID, ""
	}
	return d.UID, fmt.Sprint("spec-", d.Limit)
}

// serve serves one request, later than it is asked, unless it fails.
func (a *askers) serve(ctx context.Context, kind string, k kube.Key, annotation, value string) error {
	uid, spec := a.inUse(kind, k)
	of := requestKey{kind, uid, annotation}
	a.requests.Lock()
	defer a.requests.Unlock()
	if spec == "" {
		a.last[of] = value
		return event.NewError(event.Permanent, "refused", "it cannot be used", nil)
	}
	if !a.asked[request{of, spec, value}] {
		a.w.t.Errorf("%s %s of %s is served as %s %s, which did not ask for it", annotation, value, k, uid, spec)
	}
	a.requests.Unlock()
	err := a.fault(ctx)
	a.requests.Lock()
	if err != nil {
		return err
	}
	if a.served[of]++; a.served[of] > a.times[of]+a.terms {
		a.w.t.Errorf("%s of %s is served %d times, and was asked for %d times in %d terms", annotation, k, a.served[of], a.times[of], a.terms)
	}
	a.last[of] = value
	return nil
}

func (a *askers) play(rng *rand.Rand, restless bool) {
	for _, namespace := range []string{"team-a", "team-b"} {
		for i := range 2 {
			a.changeSecret(rand.New(rand.NewPCG(3, 3)), kube.Key{Namespace: namespace, Name: fmt.Sprint("s", i)}, i)
		}
	}
	stop := a.lead()
	for range 150 {
		<-time.After(time.Duration(rng.Int64N(int64([]time.Duration{5 * time.Millisecond, 300 * time.Millisecond, 8 * time.Second}[rng.IntN(3)]))))
		kind := []string{v1.ProviderKind, v1.AlertKind}[rng.IntN(2)]
		namespace, name := []string{"team-a", "team-b"}[rng.IntN(2)], fmt.Sprint("x", rng.IntN(2))
		switch n := rng.IntN(20); {
		case n == 0 && restless:
			stop()
			a.requests.Lock()
			a.terms++
			a.requests.Unlock()
			stop = a.lead()
		case n < 5:
			a.put(kind, namespace, name, nil)
		default:
			a.change(rng, kind, namespace, name)
		}
	}
	a.mu.Lock()
	a.cured = true
	a.mu.Unlock()
	pass(time.Hour)
	stop()
	for _, kind := range []string{v1.ProviderKind, v1.AlertKind} {
		for _, k := range a.w.kinds[kind].keysIn("") {
			o, _ := a.w.kinds[kind].get(k)
			for annotation, value := range o.GetAnnotations() {
				if last := a.last[requestKey{kind, string(o.GetUID()), annotation}]; last != value {
					a.w.t.Errorf("%s %s of %s is lost, the last one was %q", annotation, value, k, last)
				}
			}
		}
	}
}

// change makes an object, or changes its annotations and its spec.
func (a *askers) change(rng *rand.Rand, kind, namespace, name string) {
	var o kube.Object
	annotations, spec := map[string]string{}, ""
	before, err := a.w.cluster.Tracker.Get(resources[kind], namespace, name)
	if err == nil {
		o = before.(kube.Object)
		maps.Copy(annotations, o.GetAnnotations())
	} else if o = newProvider(name); kind == v1.AlertKind {
		o = newAlert(name)
	}
	if o.SetNamespace(namespace); err != nil || rng.IntN(3) == 0 {
		a.specs++
		switch o := o.(type) {
		case *v1.Provider:
			o.Spec.RateLimit = &v1.ProviderRateLimit{PerSecond: int32(a.specs)}
			o.Spec.SecretRef = []*v1.LocalObjectReference{nil, {Name: "s0"}, {Name: "s1"}}[rng.IntN(3)]
		case *v1.Alert:
			o.Spec.ProviderRef.Name = fmt.Sprint("spec-", a.specs)
		}
	}
	switch o := o.(type) {
	case *v1.Provider:
		spec = fmt.Sprint("spec-", o.Spec.RateLimit.PerSecond)
	case *v1.Alert:
		spec = o.Spec.ProviderRef.Name
	}
	may := []string{v1.ReplayAnnotation, v1.TestAnnotation}
	if kind == v1.AlertKind {
		may = may[:1]
	}
	var set []string
	for _, annotation := range may {
		if value := fmt.Sprintf("%02x", rng.IntN(4)); rng.IntN(2) == 0 && annotations[annotation] != value {
			annotations[annotation], set = value, append(set, annotation)
		}
	}
	o.SetAnnotations(annotations)
	a.requests.Lock() // none is served before it is known here
	defer a.requests.Unlock()
	a.put(kind, namespace, name, o)
	is, err := a.w.cluster.Tracker.Get(resources[kind], namespace, name)
	a.must(err)
	uid := string(is.(kube.Object).GetUID())
	for _, annotation := range set {
		a.times[requestKey{kind, uid, annotation}]++
	}
	for annotation, value := range annotations {
		a.asked[request{requestKey{kind, uid, annotation}, spec, value}] = true
	}
}
