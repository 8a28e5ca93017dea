package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
)

// Size is the number of objects and the length of the measurement.
type Size struct {
	// Namespaces with five objects of notifier, ten of Flux and a Secret each.
	Namespaces int
	// Quiet is the idle time after a start during which writes are counted.
	Quiet time.Duration
	// Say is called with the progress of the measurement.
	Say func(string)
	// Dir, if not empty, keeps the control plane's data, so that a later measurement of the same size need not make the objects again.
	Dir string
	// Args are added to the process's command line, Env to its environment.
	Args, Env []string
}

// Figure is one measured value and its bound, which it must not exceed.
type Figure struct {
	Name         string
	Value, Bound float64
	Unit         string
	Note         string
}

// Held reports whether the value is within its bound.
func (f Figure) Held() bool { return f.Value <= f.Bound }

// Strain returns the share of its bound that the value takes; more than one is too much. With a bound of 0 each unit
// counts as one bound.
func (f Figure) Strain() float64 {
	if f.Bound == 0 {
		return f.Value
	}
	return f.Value / f.Bound
}

// Bounds: the program's promises at 5,000 namespaces.
const (
	readyBound    = 5.0
	eventsBound   = 20.0
	memoryBound   = 250.0
	tellBound     = 10.0
	writesBound   = 1.0
	watchesBound  = 1.2
	changedBound  = 0
	statusTimeout = 15 * time.Minute
	awayFor       = 3 * time.Second
)

// run is one measurement.
type run struct {
	Size
	system   *env.System
	notifier *env.Notifier
	sink     *env.Sink
	figures  []Figure
}

// Measure makes a control plane and all objects in it, and returns the figures.
func Measure(ctx context.Context, size Size) ([]Figure, error) {
	r := &run{Size: size}
	for _, step := range []struct {
		what string
		run  func(context.Context) error
	}{
		{"control plane and its objects", r.prepare},
		{"a first start", r.firstStart},
		{"a restart", r.restart},
		{"a restart of the API server", r.apiServer},
	} {
		began := time.Now()
		r.Say(step.what)
		if err := step.run(ctx); err != nil {
			return r.figures, fmt.Errorf("%s: %w", step.what, err)
		}
		r.Say(fmt.Sprintf("%s: %s", step.what, time.Since(began).Round(100*time.Millisecond)))
	}
	return r.figures, errors.Join(r.notifier.Stop(), r.system.Stop(), r.sink.Down())
}

func (r *run) add(name string, value, bound float64, unit, note string) {
	r.figures = append(r.figures, Figure{Name: name, Value: value, Bound: bound, Unit: unit, Note: note})
}

func (r *run) prepare(ctx context.Context) error {
	dir := r.Dir
	if dir == "" {
		var err error
		if dir, err = env.TempDir("scale"); err != nil {
			return err
		}
	}
	ports, err := env.FreePorts(1)
	if err != nil {
		return err
	}
	// The control plane has a directory and a port of its own, since it is stopped and continued. It runs only the one
	// controller of Kubernetes that the install needs. The others read the whole cluster when the API server is back,
	// and take both processors of a small machine for half a minute.
	cluster, err := env.StartControlPlane(ctx, env.ClusterOptions{Args: []string{
		"--data-dir", filepath.Join(dir, "cluster"), "--port", strconv.Itoa(ports[0]), "--controllers", "clusterrole-aggregation",
	}})
	if err != nil {
		return err
	}
	if cluster.Process == nil {
		return errors.New("a cluster that is not of this program's making cannot be restarted")
	}
	if r.system, err = env.InstallOn(ctx, cluster, false); err != nil {
		return err
	}
	if r.sink, err = env.NewSink(); err != nil {
		return err
	}
	return r.fill(ctx, filepath.Join(dir, fmt.Sprintf("filled-%d", r.Namespaces)))
}

// fill makes the objects. If a file says that they exist already, it writes only those that a measurement changes.
func (r *run) fill(ctx context.Context, done string) error {
	_, err := os.Stat(done)
	if errors.Is(err, os.ErrNotExist) {
		if err := build(ctx, r.system, r.Namespaces, r.sink.URL("/"), r.Say); err != nil {
			return err
		}
		return os.WriteFile(done, nil, 0o600)
	}
	if err != nil {
		return err
	}
	r.Say("the objects are there already")
	for _, resource := range env.Kinds { // an API server that has just started reads a kind from etcd at the first request for it
		if err := env.Eventually(ctx, func(ctx context.Context) error {
			_, err := r.system.Dynamic.Resource(resource).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
			return err
		}); err != nil {
			return fmt.Errorf("list %s: %w", resource.Resource, err)
		}
	}
	for _, i := range []int{0, r.Namespaces - 1} {
		tenant := &env.Tenant{System: r.system, Namespace: namespace(i)}
		before, err := r.system.Client.CoreV1().Secrets(tenant.Namespace).Get(ctx, "hook", metav1.GetOptions{})
		if err != nil {
			return err
		}
		secret := map[string]string{"token": string(before.Data["token"]), "address": r.sink.URL("/")}
		if err := tenant.Secret(ctx, "hook", secret); err != nil {
			return err
		}
		if err := tenant.SetReady(ctx, "Kustomization", "app-0", true, "ReconciliationSucceeded", "applied", "main@sha1:1"); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) firstStart(ctx context.Context) error {
	audit, err := r.system.Audit()
	if err != nil {
		return err
	}
	began := time.Now()
	if r.notifier, err = r.system.Launch(ctx, env.NotifierOptions{
		Args: append([]string{"--log-level", "error"}, r.Args...), Env: r.Env,
	}); err != nil {
		return err
	}
	if err := r.ready(ctx, "first start", began); err != nil {
		return err
	}
	if err := r.settled(ctx); err != nil {
		return err
	}
	resident, err := r.notifier.Memory(false)
	if err != nil {
		return err
	}
	r.add("memory after a first start", resident, memoryBound, "MiB", "")
	writes, events, err := counted(audit)
	own := float64(r.Namespaces * ownEach)
	r.add("statuses written at a first start, each object", float64(writes)/own, writesBound, "", fmt.Sprintf("%d writes", writes))
	r.add("Events about objects that did not change", float64(events), changedBound, "", "first start")
	return err
}

// ready waits for a start that began at a time.
func (r *run) ready(ctx context.Context, start string, began time.Time) error {
	if err := r.notifier.Serving(ctx); err != nil {
		return err
	}
	r.add(start+" to ready", time.Since(began).Seconds(), readyBound, "s", "webhooks are taken")
	if err := r.notifier.Ready(ctx); err != nil {
		return err
	}
	r.add(start+" to events of every kind", time.Since(began).Seconds(), eventsBound, "s", "POSTs are taken; controllers try for 26 s")
	return nil
}

func (r *run) restart(ctx context.Context) error {
	if err := r.notifier.Stop(); err != nil {
		return err
	}
	audit, err := r.system.Audit()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := r.notifier.Relaunch(); err != nil {
		return err
	}
	if err := r.ready(ctx, "restart", began); err != nil {
		return err
	}
	if err := r.settled(ctx); err != nil {
		return err
	}
	resident, err := r.notifier.Memory(false)
	if err != nil {
		return err
	}
	r.add("memory after a restart", resident, memoryBound, "MiB", "")
	writes, events, err := counted(audit)
	r.add("statuses written that did not change", float64(writes), changedBound, "", "restart")
	r.add("Events about objects that did not change", float64(events), changedBound, "", "restart")
	return err
}

// apiServer stops the API server, starts it again, and changes a Flux object and a Secret as soon as it is back.
func (r *run) apiServer(ctx context.Context) error {
	audit, err := r.system.Audit()
	if err != nil {
		return err
	}
	began, back, err := r.away(ctx)
	if err != nil {
		return err
	}
	r.sink.Forget()
	first, last := &env.Tenant{System: r.system, Namespace: namespace(0)}, &env.Tenant{System: r.system, Namespace: namespace(r.Namespaces - 1)}
	if err := first.SetReady(ctx, "Kustomization", "app-0", false, "BuildFailed", "no such file", "main@sha1:2"); err != nil {
		return err
	}
	token := fmt.Sprintf("rotated-%d", time.Now().UnixNano())
	if err := last.Secret(ctx, "hook", map[string]string{"token": token, "address": r.sink.URL("/")}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	var told, rotated time.Duration
	group, waiting := errgroup.WithContext(ctx)
	group.Go(func() error {
		_, err := r.sink.Wait(waiting, func(got []env.Received) bool { return len(got) >= alertsEach })
		if told = time.Since(back); err != nil {
			return fmt.Errorf("the transition was not told: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		path := env.HookPath(token, "app-0", last.Namespace)
		err := env.Eventually(waiting, func(ctx context.Context) error {
			resp, err := r.notifier.GitHub(ctx, path, token, "ping", "{}")
			if err == nil && resp.Status != 200 {
				err = fmt.Errorf("webhook: %d", resp.Status)
			}
			return err
		})
		if rotated = time.Since(back); err != nil {
			return fmt.Errorf("the rotated Secret is not served: %w", err)
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	r.add("transition told after the API server's return", told.Seconds(), tellBound, "s", "")
	r.add("rotated Secret served after the API server's return", rotated.Seconds(), tellBound, "s", "")
	if err := r.rest(ctx); err != nil {
		return err
	}
	watches, err := audit.Find(func(e env.AuditEntry) bool {
		return ours(e) && e.Verb == "watch" && e.ObjectRef.Resource == "secrets" && e.Stage == "ResponseStarted" && e.Received.After(began)
	})
	r.add("watches of Secrets begun after the API server's return, each Secret", float64(len(watches))/float64(r.Namespaces), watchesBound, "", "")
	return err
}

// away stops the API server, starts it again, and returns when the start began and when the server was back.
func (r *run) away(ctx context.Context) (began, back time.Time, err error) {
	if err := r.system.Stop(); err != nil {
		return began, back, err
	}
	away := time.NewTimer(awayFor) // long enough for every watch to fail and to be tried again
	select {
	case <-ctx.Done():
		return began, back, ctx.Err()
	case <-away.C:
	}
	began = time.Now()
	process, err := r.system.Process.Again()
	if err != nil {
		return began, back, err
	}
	r.system.Process = process
	if _, err := process.WaitLog(ctx, func(line string) bool { return strings.HasPrefix(line, "ready ") }); err != nil {
		return began, back, err
	}
	return began, time.Now(), nil
}

// settled waits until all work that a start causes is done, and then for the quiet time.
func (r *run) settled(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	quiet := 0
	if err := env.Eventually(bounded, func(ctx context.Context) error {
		waiting, err := r.notifier.Metric(ctx, "notifier_reconcile_queue_depth")
		if err != nil {
			return err
		}
		if quiet++; waiting > 0 {
			quiet = 0
		}
		if quiet < 20 {
			return fmt.Errorf("%.0f objects wait", waiting)
		}
		return nil
	}); err != nil {
		return err
	}
	return r.rest(ctx)
}

// rest waits for the quiet time.
func (r *run) rest(ctx context.Context) error {
	timer := time.NewTimer(r.Quiet)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func ours(e env.AuditEntry) bool {
	return e.User.Username == env.ServiceAccountUser(env.SystemNamespace, env.ServiceAccount)
}

// counted returns the numbers of statuses and Events that the process wrote.
func counted(audit *env.Audit) (statuses, events int, err error) {
	_, err = audit.Find(func(e env.AuditEntry) bool {
		switch {
		case !ours(e) || e.Verb != "update" && e.Verb != "patch" && e.Verb != "create":
		case e.ObjectRef.Resource == "events":
			events++
		case e.ObjectRef.Subresource == "status":
			statuses++
		}
		return false
	})
	return statuses, events, err
}
