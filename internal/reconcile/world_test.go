package reconcile

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	v1 "notifier/api/v1"
	"notifier/api/v1beta3"
	"notifier/internal/alerts"
	"notifier/internal/receiver"
	"notifier/internal/receiver/oidc"
	"notifier/internal/receiver/subscribe"
	"notifier/internal/reconcile/kube"
	"notifier/internal/reconcile/kube/kubetest"
)

// world is a Reconciler over fakes, which leads.
type world struct {
	*Reconciler
	t       *testing.T
	cluster *kubetest.Cluster
	core    *fake.Clientset
	hooks   *hookTable
	// subscriptions are those of Receivers of type event.
	subscriptions *subscriptionTable
	feed          *feed
	ledger        *ledger
	events        *eventLog
	cancel        context.CancelFunc
}

// settings are the inputs of play.
type settings struct {
	objects  []runtime.Object
	secrets  []*corev1.Secret
	change   func(*Options)
	prepare  func(*world)
	follower bool
}

// pass advances the time of a synctest bubble, then waits until all goroutines are blocked.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// over returns a closed channel, for a start that is over.
func over() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// play runs a Reconciler over objects and Secrets, in a synctest bubble, until test returns.
func play(t *testing.T, s settings, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		w.cancel = cancel
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		run := func(f func(context.Context) error) {
			wg.Go(func() {
				if err := f(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		run(w.Run)
		if !s.follower {
			run(w.Lead)
		}
		w.settle()
		test(w)
	})
}

func newWorld(t *testing.T, s settings) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, v1beta3.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	cluster, err := kubetest.NewCluster(scheme, s.objects...)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, cluster: cluster, core: fake.NewClientset(),
		hooks:         &hookTable{hooks: map[string][]*receiver.Hook{}, awaited: map[string][]string{}, taken: map[string]bool{}},
		subscriptions: &subscriptionTable{served: map[string]*subscribe.Subscription{}},
		ledger:        &ledger{standings: map[string]alerts.Standing{}},
		feed:          &feed{broken: make(chan error), values: map[string][]byte{}}, events: &eventLog{},
	}
	for _, secret := range s.secrets {
		if err := w.core.Tracker().Add(secret); err != nil {
			t.Fatal(err)
		}
	}
	issuers, err := oidc.New(oidc.Options{Client: func(string) *http.Client { return &http.Client{Timeout: time.Second} }})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Issuers: issuers,
		Clients: fakeClients(w), Hooks: w.hooks, Subscriptions: w.subscriptions,
		Alerts: alerts.NewTable(), Destinations: alerts.NewDestinations(),
		Ledger: w.ledger, Health: w.feed, Alive: func(context.Context, string) bool { return true }, Events: w.events, Requests: by(&askedFor{}), Objects: nothingWatched{}, Quiet: over(),
		DefaultServiceAccount: "default", StatusWorkers: 4, SecretQPS: 500, Log: discard(), Registerer: prometheus.NewRegistry(),
	}
	if s.change != nil {
		s.change(&o)
	}
	if w.Reconciler, err = New(o); err != nil {
		t.Fatal(err)
	}
	if s.prepare != nil {
		s.prepare(w)
	}
	return w
}

func fakeClients(w *world) Clients {
	return Clients{
		Secrets: fakeSecrets{w.core},
		Receivers: kubetest.Resource(w.cluster, resources[v1.ReceiverKind], v1.ReceiverKind,
			func() *v1.Receiver { return &v1.Receiver{} }),
		Alerts: kubetest.Resource(w.cluster, resources[v1.AlertKind], v1.AlertKind,
			func() *v1.Alert { return &v1.Alert{} }),
		Providers: kubetest.Resource(w.cluster, resources[v1.ProviderKind], v1.ProviderKind,
			func() *v1.Provider { return &v1.Provider{} }),
	}
}

// settle waits until all that happens by itself within a few seconds has happened.
func (w *world) settle() { pass(3 * time.Second) }

var resources = map[string]schema.GroupVersionResource{
	v1.ReceiverKind: v1.Resource("receivers"), v1.AlertKind: v1beta3.Resource("alerts"),
	v1.ProviderKind: v1beta3.Resource("providers"),
}

// apply creates or replaces an object like a user: the generation increases and the status stays.
func (w *world) apply(kind string, o kube.Object) {
	w.t.Helper()
	r := resources[kind]
	if before, err := w.cluster.Tracker.Get(r, o.GetNamespace(), o.GetName()); err == nil {
		is := before.(kube.Object)
		o.SetGeneration(is.GetGeneration() + 1)
		switch o := o.(type) {
		case *v1.Receiver:
			o.Status = is.(*v1.Receiver).Status
		case *v1.Alert:
			o.Status = is.(*v1.Alert).Status
		case *v1.Provider:
			o.Status = is.(*v1.Provider).Status
		}
		if err := w.cluster.Tracker.Update(r, o, o.GetNamespace()); err != nil {
			w.t.Fatal(err)
		}
	} else if err := w.cluster.Tracker.Create(r, o, o.GetNamespace()); err != nil {
		w.t.Fatal(err)
	}
	w.settle()
}

func (w *world) remove(kind, name string) {
	w.t.Helper()
	if err := w.cluster.Tracker.Delete(resources[kind], "team-a", name); err != nil {
		w.t.Fatal(err)
	}
	w.settle()
}

func (w *world) applySecret(s *corev1.Secret) {
	w.t.Helper()
	r := corev1.SchemeGroupVersion.WithResource("secrets")
	err := w.core.Tracker().Update(r, s, s.Namespace)
	if err != nil {
		err = w.core.Tracker().Create(r, s, s.Namespace)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.settle()
}

func (w *world) removeSecret(name string) {
	w.t.Helper()
	if err := w.core.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("secrets"), "team-a", name); err != nil {
		w.t.Fatal(err)
	}
	w.settle()
}

// live returns an object of the cluster.
func (w *world) live(kind, name string) kube.Object {
	w.t.Helper()
	o, err := w.cluster.Tracker.Get(resources[kind], "team-a", name)
	if err != nil {
		w.t.Fatal(err)
	}
	return o.(kube.Object)
}

// condition returns a condition of a live object as "status reason", and its message.
func (w *world) condition(kind, name, conditionType string) (short, message string) {
	w.t.Helper()
	c := meta.FindStatusCondition(*w.live(kind, name).Conditions(), conditionType)
	if c == nil {
		return "", ""
	}
	return string(c.Status) + " " + c.Reason, c.Message
}

// ready checks the condition of an object's verdict, Ready of a Receiver and Serving of the others, and returns its message. For kinds
// that Flux always regards as ready it also checks that the other conditions agree with that.
func (w *world) ready(kind, name, want string) string {
	w.t.Helper()
	outcome := v1.ReadyCondition
	if kind != v1.ReceiverKind {
		outcome = v1.ServingCondition
		ready, _ := w.condition(kind, name, v1.ReadyCondition)
		reconciling, _ := w.condition(kind, name, v1.ReconcilingCondition)
		stalled, _ := w.condition(kind, name, v1.StalledCondition)
		if !strings.HasPrefix(ready, "True ") || reconciling != "" || stalled != "" {
			w.t.Errorf("%s %s is less than accepted: Ready %q, Reconciling %q, Stalled %q", kind, name, ready, reconciling, stalled)
		}
	}
	got, message := w.condition(kind, name, outcome)
	if got != want {
		w.t.Errorf("%s of %s %s: got %q, want %q (%s)", outcome, kind, name, got, want, message)
	}
	return message
}

func objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "team-a", Name: name, UID: types.UID("uid-" + name), Generation: 1}
}

func newSecret(name string, data ...string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name}, Data: map[string][]byte{}}
	for i := 0; i < len(data); i += 2 {
		s.Data[data[i]] = []byte(data[i+1])
	}
	return s
}

// newReceiver returns a Receiver of type github for a GitRepository, with a Secret of the name "hook".
func newReceiver(name string, change ...func(*v1.Receiver)) *v1.Receiver {
	r := &v1.Receiver{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: v1.ReceiverKind},
		ObjectMeta: objectMeta(name),
		Spec: v1.ReceiverSpec{
			Type: v1.GitHubReceiver, Events: []string{"Push"}, SecretRef: &v1.LocalObjectReference{Name: "hook"},
			Resources: []v1.ReceiverResource{{CrossNamespaceObjectReference: v1.CrossNamespaceObjectReference{
				Kind: "GitRepository", Name: "app",
			}}},
		},
	}
	for _, c := range change {
		c(r)
	}
	return r
}

func newProvider(name string, change ...func(*v1.Provider)) *v1.Provider {
	p := &v1.Provider{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: v1.ProviderKind},
		ObjectMeta: objectMeta(name),
		Spec:       v1.ProviderSpec{Type: v1.GenericProvider, Address: "https://example.com/in"},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func newAlert(name string, change ...func(*v1.Alert)) *v1.Alert {
	a := &v1.Alert{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: v1.AlertKind},
		ObjectMeta: objectMeta(name),
		Spec: v1.AlertSpec{
			ProviderRef:  v1.LocalObjectReference{Name: "chat"},
			EventSources: []v1.CrossNamespaceObjectReference{{Kind: "Kustomization", Name: "*"}},
		},
	}
	for _, c := range change {
		c(a)
	}
	return a
}
