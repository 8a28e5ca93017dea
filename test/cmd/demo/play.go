package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"notifier/test/env"
)

const (
	token     = "a-token-that-only-the-git-host-knows"
	account   = "deployer"
	lastTitle = "A destination is down, an event happens, notifier is killed"
)

// demo is the shared state of the steps.
type demo struct {
	*narrator
	system   *env.System
	notifier *env.Notifier
	sink     *env.Sink
	a, b     *env.Tenant
	path     string // of team A's Receiver
}

// play runs the steps in order and stops at the first failure.
func (d *demo) play(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, step := range []func(context.Context) error{
		d.controlPlane, d.process, d.tenants, d.push, d.failure, d.recovery, d.refusal, d.flood, d.outage,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) controlPlane(ctx context.Context) error {
	d.title("A real control plane: etcd, kube-apiserver, RBAC")
	var cluster *env.Cluster
	err := d.while(ctx, "building and starting it (the first time compiles kube-apiserver, some minutes)", func(ctx context.Context) (err error) {
		cluster, err = env.StartControlPlane(ctx, env.ClusterOptions{})
		return err
	})
	if err != nil {
		return err
	}
	d.seen("the API server answers")
	err = d.while(ctx, "building notifier and installing config/default", func(ctx context.Context) (err error) {
		d.system, err = env.InstallOn(ctx, cluster, false)
		return err
	})
	if err != nil {
		return err
	}
	d.seen("custom resources, RBAC and policies of config/default are installed")
	return nil
}

func (d *demo) process(ctx context.Context) (err error) {
	d.title("notifier, a real process, as the service account that config/default gives it")
	if d.sink, err = env.NewSink(); err != nil {
		return err
	}
	begin := time.Now()
	err = d.while(ctx, "starting notifier", func(ctx context.Context) (err error) {
		d.notifier, err = d.system.Start(ctx, env.NotifierOptions{})
		return err
	})
	if err != nil {
		return err
	}
	d.seen("ready after %s (pid %d)", time.Since(begin).Round(time.Millisecond), d.notifier.Process().PID())
	return nil
}

func (d *demo) tenants(ctx context.Context) (err error) {
	d.title("Two tenants, each with a service account that may patch its own objects")
	for name, team := range map[string]**env.Tenant{"team-a": &d.a, "team-b": &d.b} {
		if *team, err = d.system.Tenant(ctx, name); err != nil {
			return err
		}
		if err = d.system.ServiceAccount(ctx, name, account); err != nil {
			return err
		}
		if err = d.system.Grant(ctx, name, account, []string{"patch"}, env.Patchable...); err != nil {
			return err
		}
	}
	for _, object := range [][2]string{{"GitRepository", "app"}, {"Kustomization", "app"}} {
		if err := d.a.Object(ctx, object[0], object[1], nil, ""); err != nil {
			return err
		}
	}
	d.path, err = d.a.GitHubReceiver(ctx, "app", "app", token, `,"events":["push"],"serviceAccountName":"`+account+`"`)
	if err != nil {
		return err
	}
	d.seen("team-a has a Receiver for GitHub, which writes as service account %s", account)
	for name, kind := range map[string]string{"slack": "slack", "teams": "msteams"} {
		if err := d.a.Alert(ctx, name, kind, d.sink.URL("/"+name), `{"kind":"Kustomization","name":"*"}`); err != nil {
			return err
		}
	}
	d.seen("team-a has Alerts on its Kustomizations, to Slack and to Teams (here: a local sink)")
	// The watchers publish the first state of a new object, which is not part of the story. An Alert gets no event from
	// before its creation.
	if err := d.a.SetReady(ctx, "Kustomization", "app", true, "ReconciliationSucceeded", "Applied revision: main@sha1:1111111", "main@sha1:1111111"); err != nil {
		return err
	}
	return d.while(ctx, "the watchers report the Kustomization's first state", func(ctx context.Context) error {
		if err := d.arrived(ctx, "/slack", "1111111"); err != nil {
			return err
		}
		return d.arrived(ctx, "/teams", "1111111")
	})
}

func (d *demo) push(ctx context.Context) error {
	d.title("A push to GitHub becomes a reconcile request, written as the tenant")
	audit, err := d.system.Audit()
	if err != nil {
		return err
	}
	sent := time.Now()
	resp, err := d.notifier.GitHub(ctx, d.path, token, "push", env.GitHubPush)
	if err != nil {
		return err
	}
	if resp.Status/100 != 2 {
		return fmt.Errorf("the webhook was answered %d: %s", resp.Status, resp.Body)
	}
	d.seen("POST %s… with GitHub's signature → %d in %s", d.path[:12], resp.Status, time.Since(sent).Round(time.Millisecond))
	at, err := d.a.WaitRequested(ctx, "GitRepository", "app", sent)
	if err != nil {
		return err
	}
	d.seen("GitRepository team-a/app is asked to reconcile: %s=%s", env.RequestedAt, at.Format(time.RFC3339Nano))
	who, err := d.who(ctx, audit)
	if err != nil {
		return err
	}
	d.seen("the API server's audit log: patched by %s", who)
	return nil
}

// who returns the user that patched the GitRepository, from the audit log.
func (d *demo) who(ctx context.Context, audit *env.Audit) (string, error) {
	entry, err := audit.Wait(ctx, func(e env.AuditEntry) bool {
		return e.Verb == "patch" && strings.Contains(e.RequestURI, "/namespaces/team-a/gitrepositories/app") && e.Impersonated() != ""
	})
	if err != nil {
		return "", err
	}
	if want := "system:serviceaccount:team-a:" + account; entry.Impersonated() != want {
		return "", fmt.Errorf("the patch was written as %s, not as %s", entry.Impersonated(), want)
	}
	return entry.Impersonated(), nil
}

func (d *demo) failure(ctx context.Context) error {
	d.title("A Kustomization fails: Slack and Teams hear of it")
	const message = "kustomize build failed: accumulating resources: ./app.yaml: no such file"
	return d.tell(ctx, false, "BuildFailed", message, "main@sha1:2222222", "no such file")
}

func (d *demo) recovery(ctx context.Context) error {
	d.title("It recovers: they hear of that, too")
	return d.tell(ctx, true, "ReconciliationSucceeded", "Applied revision: main@sha1:3333333", "main@sha1:3333333", "3333333")
}

// tell changes the Kustomization's state and shows the notifications that arrive.
func (d *demo) tell(ctx context.Context, ok bool, reason, message, revision, mark string) error {
	d.sink.Forget()
	if err := d.a.SetReady(ctx, "Kustomization", "app", ok, reason, message, revision); err != nil {
		return err
	}
	d.say("Kustomization team-a/app is now Ready=%t, reason %s", ok, reason)
	d.say("(without Flux's controllers here the watchers tell it, after they waited 5s for the controller's own event)")
	for _, path := range []string{"/slack", "/teams"} {
		err := d.while(ctx, "waiting for the message at "+path, func(ctx context.Context) error { return d.arrived(ctx, path, mark) })
		if err != nil {
			return err
		}
		d.show(path, mark)
	}
	return nil
}

func (d *demo) refusal(ctx context.Context) error {
	d.title("team-b points a Receiver at team-a's object: refused")
	if err := d.b.Secret(ctx, "grab-token", map[string]string{"token": token}); err != nil {
		return err
	}
	err := d.b.Object(ctx, "Receiver", "grab", nil, `{"type":"generic","secretRef":{"name":"grab-token"},
		"resources":[{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"GitRepository","name":"app","namespace":"team-a"}]}`)
	if err != nil {
		return err
	}
	obj, err := d.b.WaitCondition(ctx, "Receiver", "grab", "Ready", "False", "CrossNamespaceDenied")
	if err != nil {
		return err
	}
	conditions, err := env.Conditions(obj)
	if err != nil {
		return err
	}
	for _, c := range conditions {
		d.quote(fmt.Sprintf("Receiver team-b/grab: %s=%s, reason %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	d.seen("it has no webhook path, and team-a's object is out of its reach")
	return nil
}

// arrived waits until the sink has a request on path whose body contains mark.
func (d *demo) arrived(ctx context.Context, path, mark string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err := d.sink.Wait(ctx, func(all []env.Received) bool { return find(all, path, mark) != nil })
	return err
}

func (d *demo) show(path, mark string) {
	r := find(d.sink.Received(), path, mark)
	var pretty any
	if json.Unmarshal(r.Body, &pretty) == nil {
		if text, err := json.MarshalIndent(pretty, "", "  "); err == nil {
			d.seen("arrived at %s:", path)
			d.quote(string(text))
			return
		}
	}
	d.seen("arrived at %s: %s", path, r.Body)
}

func find(all []env.Received, path, mark string) *env.Received {
	for i := range all {
		if all[i].Path == path && strings.Contains(string(all[i].Body), mark) && (all[i].Status == 0 || all[i].Status/100 == 2) {
			return &all[i]
		}
	}
	return nil
}
