package watch

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/event"
	"notifier/internal/reconcile/bounds"
)

func TestEveryKindHasItsControllerAndRevision(t *testing.T) {
	const artifact = `{"artifact":{"revision":"main@sha1:abc"}}`
	for _, c := range []struct {
		kind, crd, controller, status string
		succeeded, failed             string
	}{
		{"GitRepository", "gitrepositories.source.toolkit.fluxcd.io", "source-controller", artifact, "main@sha1:abc", ""},
		{"OCIRepository", "ocirepositories.source.toolkit.fluxcd.io", "source-controller", artifact, "main@sha1:abc", ""},
		{"Bucket", "buckets.source.toolkit.fluxcd.io", "source-controller", artifact, "main@sha1:abc", ""},
		{"HelmRepository", "helmrepositories.source.toolkit.fluxcd.io", "source-controller", artifact, "main@sha1:abc", ""},
		{"HelmChart", "helmcharts.source.toolkit.fluxcd.io", "source-controller", artifact, "main@sha1:abc", ""},
		{"ExternalArtifact", "externalartifacts.source.toolkit.fluxcd.io", "source-watcher", artifact, "main@sha1:abc", ""},
		{
			"ArtifactGenerator", "artifactgenerators.source.extensions.fluxcd.io", "source-watcher",
			`{"observedSourcesDigest":"sha256:1"}`, "sha256:1", "",
		},
		{
			"Kustomization", "kustomizations.kustomize.toolkit.fluxcd.io", "kustomize-controller",
			`{"lastAppliedRevision":"r1","lastAttemptedRevision":"r2"}`, "r1", "r2",
		},
		{
			"HelmRelease", "helmreleases.helm.toolkit.fluxcd.io", "helm-controller",
			`{"history":[{"chartVersion":"1.0.0"},{"chartVersion":"0.9.0"}],"lastAttemptedRevision":"1.1.0"}`, "1.0.0", "1.1.0",
		},
		{"HelmRelease", "helmreleases.helm.toolkit.fluxcd.io", "helm-controller", `{"history":[{"chartVersion":"1.0.0"}]}`, "1.0.0", "1.0.0"},
		{"HelmRelease", "helmreleases.helm.toolkit.fluxcd.io", "helm-controller", `{"lastAttemptedRevision":"1.1.0"}`, "1.1.0", "1.1.0"},
		{
			"ImageRepository", "imagerepositories.image.toolkit.fluxcd.io", "image-reflector-controller",
			`{"lastScanResult":{"revision":"sha256:1"}}`, "", "",
		},
		{
			"ImagePolicy", "imagepolicies.image.toolkit.fluxcd.io", "image-reflector-controller",
			`{"latestRef":{"name":"ghcr.io/a/b","tag":"v1","digest":"sha256:1"}}`, "v1@sha256:1", "",
		},
		{"ImagePolicy", "imagepolicies.image.toolkit.fluxcd.io", "image-reflector-controller", `{"latestRef":{"tag":"v1"}}`, "v1", ""},
		{"ImagePolicy", "imagepolicies.image.toolkit.fluxcd.io", "image-reflector-controller", `{"latestImage":"a/b:v0"}`, "a/b:v0", ""},
		{
			"ImageUpdateAutomation", "imageupdateautomations.image.toolkit.fluxcd.io", "image-automation-controller",
			`{"lastPushCommit":"abc"}`, "", "",
		},
		{"Kustomization", "kustomizations.kustomize.toolkit.fluxcd.io", "kustomize-controller", `{"lastAppliedRevision":7}`, "", ""},
		{"HelmRelease", "helmreleases.helm.toolkit.fluxcd.io", "helm-controller", `{"history":["x"]}`, "", ""},
	} {
		k := kindNamed(c.kind)
		var s status
		if err := tolerate(json.Unmarshal([]byte(c.status), &s)); err != nil {
			t.Fatal(err)
		}
		got := []string{k.crd(), k.Controller, k.revisionOf(&s, false), k.revisionOf(&s, true)}
		if diff := cmp.Diff([]string{c.crd, c.controller, c.succeeded, c.failed}, got); diff != "" {
			t.Errorf("%s with %s (-want +got):\n%s", c.kind, c.status, diff)
		}
	}
	names := map[string]bool{}
	for _, k := range Kinds() {
		names[k.Kind] = true
	}
	if len(names) != 12 {
		t.Errorf("%d kinds, want 12 with names of their own", len(names))
	}
}

func fromJSON(t *testing.T, kind, doc string) *object {
	t.Helper()
	var d document
	if err := tolerate(json.Unmarshal([]byte(doc), &d)); err != nil {
		t.Fatal(err)
	}
	return newObject(kindNamed(kind), &d)
}

func TestWhichStatesAreTerminal(t *testing.T) {
	for name, c := range map[string]struct {
		metadata, status string
		want             event.Outcome
	}{
		"ready": {
			`"generation":2`, `"conditions":[{"type":"Ready","status":"True","observedGeneration":2}]`, event.OutcomeSucceeded,
		},
		"failed": {
			`"generation":2`, `"conditions":[{"type":"Ready","status":"False","observedGeneration":2}]`, event.OutcomeFailed,
		},
		"no status":          {`"generation":2`, ``, ""},
		"no Ready condition": {`"generation":2`, `"conditions":[{"type":"Healthy","status":"True"}]`, ""},
		"Ready unknown":      {`"generation":2`, `"conditions":[{"type":"Ready","status":"Unknown"}]`, ""},
		"still progressing": {
			`"generation":2`, `"conditions":[{"type":"Ready","status":"False","reason":"Progressing"}]`, "",
		},
		"progressing with retry": {
			`"generation":2`, `"conditions":[{"type":"Ready","status":"False","reason":"ProgressingWithRetry"}]`, "",
		},
		"a dependency is not ready": {
			`"generation":2`, `"conditions":[{"type":"Ready","status":"False","reason":"DependencyNotReady"}]`, "",
		},
		"the health check was cancelled": {
			`"generation":2`, `"conditions":[{"type":"Ready","status":"False","reason":"HealthCheckCanceled"}]`, "",
		},
		"the condition is about older spec": {
			`"generation":2`, `"conditions":[{"type":"Ready","status":"True","observedGeneration":1}]`, "",
		},
		"the status is about older spec": {
			`"generation":2`, `"observedGeneration":1,"conditions":[{"type":"Ready","status":"True"}]`, "",
		},
		"never observed": {
			`"generation":2`, `"observedGeneration":-1,"conditions":[{"type":"Ready","status":"True"}]`, "",
		},
		"the condition is newer than the status": {
			`"generation":2`,
			`"observedGeneration":1,"conditions":[{"type":"Ready","status":"False","observedGeneration":2}]`,
			event.OutcomeFailed,
		},
		"says no generation": {
			`"generation":2`, `"conditions":[{"type":"Ready","status":"True"}]`, event.OutcomeSucceeded,
		},
		"being deleted": {
			`"deletionTimestamp":"2026-01-02T03:04:05Z"`, `"conditions":[{"type":"Ready","status":"True"}]`, "",
		},
		"malformed conditions": {`"generation":2`, `"conditions":{"Ready":true}`, ""},
		"a malformed condition": {
			`"generation":2`,
			`"conditions":["Ready",{"type":"Ready","status":"True","lastTransitionTime":3,"observedGeneration":"x"}]`,
			event.OutcomeSucceeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := fromJSON(t, "GitRepository", `{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"GitRepository","metadata":{`+
				c.metadata+`,"uid":"u"},"status":{`+c.status+`}}`)
			got, terminal := o.terminal()
			if got.Outcome != c.want || terminal != (c.want != "") {
				t.Errorf("got %q, %v, want %q", got.Outcome, terminal, c.want)
			}
		})
	}
}

// An object that waits for its source has Ready=False as a failed one does. Fails when awaitsSource confuses them: as recorded of
// source- and kustomize-controller, and for HelmRelease as in helm-controller's code.
func TestWaitingForASourceIsNoFailure(t *testing.T) {
	const missing = `GitRepository.source.toolkit.fluxcd.io \"app\" not found`
	for name, c := range map[string]struct {
		kind, reason, message string
		reconciling           bool
		want                  event.Outcome
	}{
		"a Kustomization without an artifact":         {"Kustomization", "ArtifactFailed", "Source artifact not found, retrying in 30s", false, ""},
		"a Kustomization whose source is not ready":   {"Kustomization", "SourceNotReady", "x", false, ""},
		"a Kustomization whose source does not exist": {"Kustomization", "ArtifactFailed", missing, false, event.OutcomeFailed},
		"a Kustomization whose path does not exist":   {"Kustomization", "ArtifactFailed", "kustomization path not found: stat x", true, event.OutcomeFailed},
		"a Kustomization that failed":                 {"Kustomization", "BuildFailed", "x", true, event.OutcomeFailed},
		"a HelmRelease whose chart is not ready":      {"HelmRelease", "SourceNotReady", "HelmChart 'app' is not ready", true, ""},
		"a HelmRelease whose chart is not there yet":  {"HelmRelease", "ArtifactFailed", "Source not ready: artifact not found. Retrying in 30s", true, ""},
		"a HelmRelease whose chart cannot be loaded":  {"HelmRelease", "ArtifactFailed", "Could not load chart: x", true, event.OutcomeFailed},
		"a HelmRelease whose source does not exist":   {"HelmRelease", "ArtifactFailed", "could not get Source object: " + missing, true, event.OutcomeFailed},
		"a HelmRelease that failed":                   {"HelmRelease", "InstallFailed", "x", false, event.OutcomeFailed},
		"a HelmChart whose source has no artifact":    {"HelmChart", "NoSourceArtifact", "no artifact available for GitRepository source 'app'", true, ""},
		"an ImagePolicy without tags":                 {"ImagePolicy", "DependencyNotReady", "no tags in database", true, event.OutcomeFailed},
		"an ImagePolicy at work":                      {"ImagePolicy", "ProgressingWithRetry", "x", true, ""},
		"a Kustomization that waits for another":      {"Kustomization", "DependencyNotReady", "x", false, ""},
		"a source that cannot be stored":              {"GitRepository", "ArtifactFailed", "x", false, event.OutcomeFailed},
	} {
		t.Run(name, func(t *testing.T) {
			o := fromJSON(t, c.kind, fmt.Sprintf(`{"metadata":{"uid":"u"},"status":{"conditions":[
				{"type":"Ready","status":"False","reason":%q,"message":"%s"},{"type":"Reconciling","status":%q}]}}`,
				c.reason, c.message, map[bool]string{true: "True", false: "False"}[c.reconciling]))
			got, terminal := o.terminal()
			if got.Outcome != c.want || terminal != (c.want != "") {
				t.Errorf("got %q, %v, want %q", got.Outcome, terminal, c.want)
			}
		})
	}
}

// helm-controller POSTs only the cause, which its condition has after words of its own. Fails when the POST does not tell the failure, which
// would then be told twice.
func TestThePOSTOfAChartThatCannotBeLoadedTellsItsFailure(t *testing.T) {
	o := fromJSON(t, "HelmRelease", `{"status":{"conditions":[
		{"type":"Ready","status":"False","reason":"ArtifactFailed","message":"Could not load chart: integrity failure"}]}}`)
	for message, want := range map[string]bool{"integrity failure": true, "Could not load chart: integrity failure": true, "another": false, "": false} {
		if o.says(message) != want {
			t.Errorf("%q: %v", message, !want)
		}
	}
}

// Fails when the cache keeps more than the fields that are read of an object and its annotations.
func TestObjectsAreTrimmed(t *testing.T) {
	o := fromJSON(t, "Kustomization", `{"apiVersion":"kustomize.toolkit.fluxcd.io/v1","kind":"Kustomization",
		"metadata":{"name":"app","namespace":"team-a","uid":"u","resourceVersion":"7","generation":3,"labels":{"a":"b"},
			"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}","event.toolkit.fluxcd.io/env":"prod"},
			"managedFields":[{"manager":"x"}],"finalizers":["f"],"ownerReferences":[]},
		"spec":{"path":"./"},"status":{"inventory":{"entries":[{"id":"x"}]},"lastAppliedRevision":"r1",
			"conditions":[{"type":"Ready","status":"True","message":"`+strings.Repeat("é", maxMessage)+`"}]}}`)
	want := objectMeta{
		Name: "app", Namespace: "team-a", UID: "u", ResourceVersion: "7", Generation: 3,
		Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"event.toolkit.fluxcd.io/env": "prod"},
	}
	if diff := cmp.Diff(want, o.objectMeta); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if n := len(o.ready.message); n != maxMessage || strings.Trim(o.ready.message, "é") != "" {
		t.Errorf("message of %d bytes, or cut within a character", n)
	}
}

// A cluster has tens of thousands of Flux objects, each in the cache.
func TestACachedObjectIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(object{}); size > 256 {
		t.Errorf("%d bytes, want at most 256, a size class of the allocator", size)
	}
	o := fromJSON(t, "Kustomization", `{"metadata":{"name":"app","namespace":"team-a","uid":"u","resourceVersion":"7"}}`)
	if unsafe.Pointer(unsafe.StringData(o.Name)) != unsafe.Add(unsafe.Pointer(unsafe.StringData(o.Namespace)), len(o.Namespace)) {
		t.Error("its name and its namespace are two strings in memory")
	}
}

// T6: fails when a tenant's Flux object with a megabyte of labels, of which its JSON is a small part of what they take, is kept whole.
func TestT6AnObjectWithVeryManyLabelsIsKeptSmall(t *testing.T) {
	var labels strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&labels, `"l%d":"",`, i)
	}
	o := fromJSON(t, "Kustomization", `{"metadata":{"name":"app","namespace":"team-a","labels":{`+labels.String()+`"team":"a"}}}`)
	if n := len(o.Labels); n == 0 || n > 128 {
		t.Errorf("%d labels are kept", n)
	}
}

// T6: fails when a tenant's Flux object with a quarter of a megabyte of short annotations, of either sort, is kept whole: a megabyte in memory.
func TestT6AnObjectWithVeryManyAnnotationsIsKeptSmall(t *testing.T) {
	for _, prefix := range []string{"", event.MetadataPrefix} {
		var annotations strings.Builder
		for i := range 9_000 {
			fmt.Fprintf(&annotations, `"%s%d":"",`, prefix, i)
		}
		o := fromJSON(t, "Kustomization", `{"metadata":{"name":"app","namespace":"team-a","annotations":{`+annotations.String()+`"team":"a"}}}`)
		if n := bounds.Size(o.Annotations); n < maxAnnotations/2 || n > event.MaxMetadata+maxAnnotations {
			t.Errorf("%d annotations %q take %d bytes", len(o.Annotations), prefix, n)
		}
	}
}

// What helm-controller POSTs of a release that it repaired is the failure. Fails when the event of a watcher says instead, as Ready does,
// that the repair succeeded.
func TestARepairedReleaseSaysWhyItFailed(t *testing.T) {
	const failed = `{"type":"Released","status":"False","reason":"UpgradeFailed","message":"Helm upgrade failed: x"}`
	o := fromJSON(t, "HelmRelease", `{"status":{"lastAttemptedRevision":"1.1.0","conditions":[
		{"type":"Remediated","status":"True","reason":"RollbackSucceeded","message":"Helm rollback succeeded"},
		{"type":"Ready","status":"False","reason":"RollbackSucceeded","message":"Helm rollback succeeded"},`+failed+`]}}`)
	got := newRecord(&transition{state: state{Outcome: event.OutcomeFailed}, object: o}, lastPublished{}, lastPublished{}).Event
	if got.Reason != "UpgradeFailed" || got.Message != "Helm upgrade failed: x" {
		t.Errorf("says %s, %q", got.Reason, got.Message)
	}
	if !o.says("Helm upgrade failed: x\n\nLast Helm logs:\n") {
		t.Error("the POST of the failure does not tell it")
	}
	cancelled := fromJSON(t, "HelmRelease", `{"status":{"conditions":[
		{"type":"Remediated","status":"True","reason":"RollbackSucceeded","message":"Helm rollback succeeded"},
		{"type":"Ready","status":"False","reason":"RollbackSucceeded","message":"Helm rollback succeeded"},
		{"type":"Released","status":"False","reason":"HealthCheckCanceled","message":"x"}]}}`)
	if _, terminal := cancelled.terminal(); !terminal {
		t.Error("a release that was rolled back after it was cancelled is taken for one at work")
	}
	for name, o := range map[string]*object{
		"the repair failed": fromJSON(t, "HelmRelease", `{"status":{"conditions":[
			{"type":"Remediated","status":"False","reason":"RollbackFailed","message":"Helm rollback failed"},
			{"type":"Ready","status":"False","reason":"RollbackFailed","message":"Helm rollback failed"},`+failed+`]}}`),
		"another failure came": fromJSON(t, "HelmRelease", `{"status":{"conditions":[
			{"type":"Remediated","status":"True","reason":"RollbackSucceeded","message":"Helm rollback succeeded"},
			{"type":"Ready","status":"False","reason":"RollbackFailed","message":"Helm rollback failed"},`+failed+`]}}`),
		"no other condition": fromJSON(t, "HelmRelease", `{"status":{"conditions":[
			{"type":"Remediated","status":"True"},{"type":"Ready","status":"False","reason":"RollbackFailed","message":"Helm rollback failed"}]}}`),
	} {
		if o.ready.message != "Helm rollback failed" || o.ready.reason != "RollbackFailed" {
			t.Errorf("%s: says %s, %q", name, o.ready.reason, o.ready.message)
		}
	}
}
