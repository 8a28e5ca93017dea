package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"notifier/test/env"
)

// resources are those of the recorded kinds.
var resources = map[string]string{
	"GitRepository": "gitrepositories", "HelmChart": "helmcharts", "HelmRepository": "helmrepositories", "Kustomization": "kustomizations",
	"ImageRepository": "imagerepositories", "ImagePolicy": "imagepolicies", "ImageUpdateAutomation": "imageupdateautomations",
}

// together is the time between two steps within which they are one action of their controller, such as a status that is written in two
// requests. A stop of the clock does not divide them: the state between the two would last as long as a restart.
const together = 100 * time.Millisecond

// tries are the times after the first attempt at which a controller POSTs a refused event again.
var tries = []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second}

// player plays one recording in namespaces of its own.
type player struct {
	*recording
	system *env.System
	// namespaces maps the recording's namespaces to those here.
	namespaces map[string]string
	// endpoint returns the notifier for the nth POST; nil if controllers do not POST.
	endpoint func(n int) *env.Notifier
	posts    int

	clock *clock
	// begun is the start of the play, or of the player before that.
	begun time.Time
	// held is the longest time that steps which are one action took here, from the beginning of one to the end of the next.
	held time.Duration
	// live are the objects here, recorded those of the recording at the same time, and uids maps recorded UIDs to those
	// here.
	live, recorded map[string]*unstructured.Unstructured
	uids           map[string]string
}

func key(o *unstructured.Unstructured) string {
	return o.GetKind() + "/" + o.GetNamespace() + "/" + o.GetName()
}

// found makes the objects that a watcher finds at its start.
func (p *player) found(ctx context.Context) error {
	p.begun = time.Now()
	for _, s := range p.steps {
		if s.Watch != nil && s.T == 0 {
			if err := p.write(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// play plays the other steps, each at its time. A controller whose POST is refused tries again, and makes no other
// request meanwhile. All steps after a late one are as late, so a state lasts at least as long as it did.
func (p *player) play(ctx context.Context) error {
	p.begun = time.Now()
	late, before, began := time.Duration(0), time.Duration(0), time.Now()
	for _, s := range p.steps {
		if s.Watch != nil && s.T == 0 {
			continue
		}
		var err error
		previous := began
		if gap := s.at() - before; gap < together {
			err = pause(ctx, gap)
		} else {
			err = p.clock.wait(ctx, late+s.at())
			previous = time.Now()
		}
		if err != nil {
			return err
		}
		before, began = s.at(), time.Now()
		switch {
		case s.Watch != nil:
			err = p.write(ctx, s)
		case s.Answer == "" && p.endpoint != nil:
			err = p.post(ctx, s)
		}
		if err != nil {
			return fmt.Errorf("%s at %s: %w", p.name, s.at(), err)
		}
		if s.Watch != nil {
			p.held = max(p.held, time.Since(previous))
		} else {
			began = time.Now() // a POST waits for as long as its endpoint is down, and tells the state that lasts meanwhile
		}
		late = max(late, p.clock.now()-s.at())
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// post sends an event as its controller does.
func (p *player) post(ctx context.Context, s step) error {
	event := (&unstructured.Unstructured{Object: s.Post}).DeepCopy().Object
	object := event["involvedObject"].(map[string]any)
	object["namespace"] = p.namespaces[object["namespace"].(string)]
	object["uid"] = p.uids[object["uid"].(string)]
	event["timestamp"] = p.shifted(event["timestamp"].(string))
	p.posts++
	began := p.clock.now()
	var last error
	for _, after := range tries {
		if err := p.clock.wait(ctx, began+after); err != nil {
			return err
		}
		resp, err := p.endpoint(p.posts).Post(ctx, event)
		if err == nil && (resp.Status == http.StatusAccepted || resp.Status == http.StatusTooManyRequests) {
			return nil
		}
		last = fmt.Errorf("answered %d: %w", resp.Status, err)
	}
	return last
}

// shifted moves a time of the recording to that of the play, by whole seconds: all tries of a POST have one time.
func (p *player) shifted(at string) string {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return at
	}
	return t.Add(p.begun.Sub(p.base).Truncate(time.Second)).UTC().Format(time.RFC3339)
}

// write brings an object to the state in a recorded watch event, by the requests that lead there.
func (p *player) write(ctx context.Context, s step) error {
	want := s.Watch.Object.DeepCopy()
	gv, err := schema.ParseGroupVersion(want.GetAPIVersion())
	if err != nil {
		return err
	}
	k := key(want)
	client := p.system.Dynamic.Resource(gv.WithResource(resources[want.GetKind()])).Namespace(p.namespaces[want.GetNamespace()])
	was := p.recorded[k]
	if s.Watch.Type == "ADDED" {
		was = nil
	}
	p.recorded[k] = want
	switch {
	case s.Watch.Type == "DELETED":
		return p.remove(ctx, client, want)
	case was == nil:
		return p.create(ctx, client, want)
	case want.GetDeletionTimestamp() != nil && was.GetDeletionTimestamp() == nil:
		if err := client.Delete(ctx, want.GetName(), metav1.DeleteOptions{}); err != nil {
			return err
		}
		if p.live[k], err = client.Get(ctx, want.GetName(), metav1.GetOptions{}); err != nil {
			return err
		}
	case !sameBut(was, want, "status"):
		if err := p.update(ctx, client, want); err != nil {
			return err
		}
	}
	if apiequality.Semantic.DeepEqual(was.Object["status"], want.Object["status"]) {
		return nil
	}
	return p.updateStatus(ctx, client, want)
}

// sameBut reports whether two states of an object are alike in the parts that its authors write, without one field.
func sameBut(a, b *unstructured.Unstructured, field string) bool {
	strip := func(o *unstructured.Unstructured) map[string]any {
		m := maps.Clone(o.Object)
		delete(m, field)
		m["metadata"] = []any{o.GetLabels(), o.GetAnnotations(), o.GetFinalizers()}
		return m
	}
	return apiequality.Semantic.DeepEqual(strip(a), strip(b))
}

func (p *player) create(ctx context.Context, client dynamic.ResourceInterface, want *unstructured.Unstructured) error {
	o := want.DeepCopy()
	o.SetNamespace(p.namespaces[want.GetNamespace()])
	o.SetUID("")
	o.SetResourceVersion("")
	live, err := client.Create(ctx, o, metav1.CreateOptions{FieldManager: "flux"})
	if err != nil {
		return err
	}
	p.live[key(want)] = live
	p.uids[string(want.GetUID())] = string(live.GetUID())
	if want.Object["status"] == nil {
		return nil
	}
	return p.updateStatus(ctx, client, want)
}

func (p *player) update(ctx context.Context, client dynamic.ResourceInterface, want *unstructured.Unstructured) error {
	o := p.live[key(want)].DeepCopy()
	o.SetLabels(want.GetLabels())
	o.SetAnnotations(want.GetAnnotations())
	o.SetFinalizers(want.GetFinalizers())
	o.Object["spec"] = want.Object["spec"]
	live, err := client.Update(ctx, o, metav1.UpdateOptions{FieldManager: "flux"})
	if err != nil {
		return err
	}
	p.live[key(want)] = live
	return nil
}

func (p *player) updateStatus(ctx context.Context, client dynamic.ResourceInterface, want *unstructured.Unstructured) error {
	o := p.live[key(want)].DeepCopy()
	status, err := p.shiftedStatus(want)
	if err != nil {
		return err
	}
	o.Object["status"] = status
	live, err := client.UpdateStatus(ctx, o, metav1.UpdateOptions{FieldManager: "flux"})
	if err != nil {
		return err
	}
	p.live[key(want)] = live
	return nil
}

// shiftedStatus returns the recorded status with the times of its conditions shifted.
func (p *player) shiftedStatus(want *unstructured.Unstructured) (any, error) {
	status := want.DeepCopy().Object["status"]
	raw, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	var s map[string]any
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	conditions, _, err := unstructured.NestedSlice(want.Object, "status", "conditions")
	if err != nil || conditions == nil {
		return status, err
	}
	for _, c := range conditions {
		condition, ok := c.(map[string]any)
		if at, isText := condition["lastTransitionTime"].(string); ok && isText {
			condition["lastTransitionTime"] = p.shifted(at)
		}
	}
	s["conditions"] = conditions
	return s, nil
}

// remove deletes an object and its finalizers, and waits until it is gone.
func (p *player) remove(ctx context.Context, client dynamic.ResourceInterface, want *unstructured.Unstructured) error {
	k := key(want)
	if p.live[k].GetDeletionTimestamp() == nil {
		if err := client.Delete(ctx, want.GetName(), metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	_, err := client.Patch(ctx, want.GetName(), "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil && !isGone(err) {
		return err
	}
	delete(p.live, k)
	delete(p.recorded, k)
	return env.Eventually(ctx, func(ctx context.Context) error {
		_, err := client.Get(ctx, want.GetName(), metav1.GetOptions{})
		if isGone(err) {
			return nil
		}
		return fmt.Errorf("%s is still there: %w", k, err)
	})
}
