package kube

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "notifier/api/v1"
)

const (
	oversized = 500 << 10 // bytes of JSON; etcd takes three times that
	mayKeep   = 256 << 10 // bytes of one object in the cache
)

// repeated returns a JSON array of equal items.
func repeated(item string) string {
	return "[" + item + strings.Repeat(","+item, oversized/(len(item)+1)) + "]"
}

// numbered returns a JSON object with as many different keys as fit into some bytes of JSON.
func numbered(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `,"%x":""`, i)
	}
	return "{" + b.String()[1:] + "}"
}

// T6: fails when any part of an object that its author may make long is kept as it is: some hundred such objects, which the cache has even
// if they are not served, took all memory after each start.
func TestT6AnOversizedObjectIsKeptSmall(t *testing.T) {
	text, many, empty := `"`+strings.Repeat("a", oversized)+`"`, numbered(oversized), repeated(`""`)
	source := func(more string) string { return `{"kind":"Bucket","name":"a"` + more + `}` }
	resource := func(more string) string { return `{"resources":[` + source(more) + `]}` }
	provider := func(more string) string { return `{"oidcProviders":[{` + more + `}]}` }
	metadata := map[string]string{
		"annotations":     numbered(256 << 10), // the API server takes no more
		"labels":          many,
		"finalizers":      repeated(`"a/b"`),
		"owners":          repeated(`{"apiVersion":"v1","kind":"A","name":"a","uid":"u"}`),
		"read annotation": `{"reconcile.fluxcd.io/requestedAt":"` + strings.Repeat("a", 250<<10) + `"}`,
	}
	condition := func(message string) string {
		return `{"type":"A","status":"True","reason":"A","message":"` + message + `"}`
	}
	statuses := map[string]string{ // tenants may write it
		"conditions": `{"conditions":` + repeated(condition("")) + `}`,
		"messages":   `{"conditions":` + repeated(condition(strings.Repeat("a", 32<<10))) + `}`,
		"problem":    `{"problem":` + text + `}`, "path": `{"webhookPath":` + text + `}`,
		"webhook": `{"deliveries":{"last":{"reason":` + text + `}}}`, "delivery": `{"lastDelivery":{"object":` + text + `}}`,
		"request": `{"lastHandledReplay":` + text + `,"lastHandledReconcileAt":` + text + `}`,
	}
	fields := map[string]string{"owners": "ownerReferences", "read annotation": "annotations"}
	for kind, tc := range map[string]struct {
		empty func() Object
		specs map[string]string
	}{
		"Alert": {func() Object { return &v1.Alert{} }, map[string]string{
			"inclusions": `{"inclusionList":` + empty + `}`, "exclusions": `{"exclusionList":` + empty + `}`,
			"a long pattern": `{"inclusionList":[` + text + `]}`,
			"long patterns":  `{"exclusionList":` + repeated(`"`+strings.Repeat("a", 8000)+`"`) + `}`,
			"metadata":       `{"eventMetadata":` + many + `}`, "long metadata": `{"eventMetadata":{"a":` + text + `}}`,
			"sources": `{"eventSources":` + repeated(`{}`) + `}`, "provider": `{"providerRef":{"name":` + text + `}}`,
			"summary": `{"summary":` + text + `}`, "version": `{"eventSources":[` + source(`,"apiVersion":`+text) + `]}`,
			"labels of a source":     `{"eventSources":[` + source(`,"matchLabels":`+many) + `]}`,
			"label of a source":      `{"eventSources":[` + source(`,"matchLabels":{"a":`+text+`}`) + `]}`,
			"many labels of sources": `{"eventSources":` + repeated(source(`,"matchLabels":`+numbered(1200))) + `}`,
		}},
		"Provider": {func() Object { return &v1.Provider{} }, map[string]string{
			"secret": `{"secretRef":{"name":` + text + `}}`, "proxy": `{"proxySecretRef":{"name":` + text + `}}`,
			"certificate": `{"certSecretRef":{"name":` + text + `}}`, "account": `{"serviceAccountName":` + text + `}`,
			"status name": `{"commitStatusExpr":` + text + `}`,
		}},
		"Receiver": {func() Object { return &v1.Receiver{} }, map[string]string{
			"events": `{"events":` + empty + `}`, "a long event": `{"events":[` + text + `]}`,
			"resources": `{"resources":` + repeated(`{}`) + `}`, "filter": `{"resourceFilter":` + text + `}`,
			"foreign resources": `{"resources":` + repeated(source(`,"namespace":"b"`)) + `}`,
			"filters":           `{"resources":` + repeated(source(`,"filter":"`+strings.Repeat("a", 4096)+`"`)) + `}`,
			"labels":            resource(`,"matchLabels":` + many), "label": resource(`,"matchLabels":{"a":` + text + `}`),
			"expressions": resource(`,"matchExpressions":` + repeated(`{}`)), "values": resource(`,"matchExpressions":[{"values":` + empty + `}]`),
			"key": resource(`,"matchExpressions":[{"key":` + text + `}]`), "operator": resource(`,"matchExpressions":[{"operator":` + text + `}]`),
			"version": resource(`,"apiVersion":` + text), "secret": `{"secretRef":{"name":` + text + `}}`,
			"sources": `{"eventSources":` + repeated(`{}`) + `}`, "labels of a source": `{"eventSources":[{"matchLabels":` + many + `}]}`,
			"label of a source": `{"eventSources":[{"matchLabels":{"a":` + text + `}}]}`, "account": `{"serviceAccountName":` + text + `}`,
			"providers": `{"oidcProviders":` + repeated(`{}`) + `}`, "variables": provider(`"variables":` + repeated(`{}`)),
			"validations": provider(`"validations":` + repeated(`{}`)), "audience": provider(`"audience":` + text),
			"messages": provider(`"validations":` + repeated(`{"message":"`+strings.Repeat("a", 1024)+`"}`)),
			"programs": provider(`"variables":` + repeated(`{"expression":"`+strings.Repeat("a", 4096)+`"}`)),
		}},
	} {
		for name, spec := range tc.specs {
			keepsLittle(t, kind+": "+name, tc.empty, `{"metadata":{"name":"a","namespace":"a"},"spec":`+spec+`}`)
		}
		for name, status := range statuses {
			keepsLittle(t, kind+": "+name+" of the status", tc.empty, `{"metadata":{"name":"a","namespace":"a"},"status":`+status+`}`)
		}
		for name, value := range metadata {
			field := fields[name]
			if field == "" {
				field = name
			}
			keepsLittle(t, kind+": "+name+" of the metadata", tc.empty, `{"metadata":{"`+field+`":`+value+`}}`)
		}
	}
}

func keepsLittle(t *testing.T, name string, empty func() Object, document string) {
	t.Helper()
	const copies = 2
	var before, after runtime.MemStats
	var kept [copies]any
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range kept {
		o := empty()
		if err := json.Unmarshal([]byte(document), o); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		trimObject(o)
		trimObject(o) // as after a list, whose objects are trimmed as they arrive
		kept[i] = o
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / copies; each > mayKeep {
		t.Errorf("%s: %d KiB of JSON keep %d KiB", name, len(document)>>10, each>>10)
	}
	runtime.KeepAlive(kept)
}

// Fails when an annotation that the program reads is dropped with the large ones: without that of the service account, for instance, a
// Receiver would write as the default one.
func TestTheAnnotationsThatAreReadAreKept(t *testing.T) {
	r := &v1.Receiver{}
	r.Annotations = map[string]string{"small": "1", "large": strings.Repeat("a", maxAnnotations)}
	for _, key := range readAnnotations {
		r.Annotations[key] = strings.Repeat("b", 4096)
	}
	trimObject(r)
	for _, key := range append([]string{"small"}, readAnnotations...) {
		if r.Annotations[key] == "" {
			t.Errorf("%s is not kept", key)
		}
	}
	if _, ok := r.Annotations["large"]; ok {
		t.Error("the large one is kept")
	}
}

// Fails when a status as Flux or this program writes it counts as too large: it would be dropped, and written again for ever.
func TestAStatusOfAnObjectIsKept(t *testing.T) {
	a := &v1.Alert{}
	long := strings.Repeat("a", 1024)
	a.Status.Conditions = append(slices.Repeat([]metav1.Condition{{Message: long}}, 8), metav1.Condition{Message: strings.Repeat("a", 32<<10)})
	a.Status.Recent = slices.Repeat([]v1.DeliveryOutcome{{Object: long, Reason: long}}, v1.MaxRecentDeliveries)
	want := a.Status.DeepCopy()
	trimObject(a)
	if !reflect.DeepEqual(a.Status, *want) {
		t.Errorf("%d conditions and %d outcomes are kept", len(a.Status.Conditions), len(a.Status.Recent))
	}
}
