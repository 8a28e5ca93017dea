package event_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/alloctest"
	"notifier/internal/event"
)

func sample() event.Event {
	return event.Event{
		InvolvedObject: event.ObjectReference{
			Kind: "Kustomization", Namespace: "team-a", Name: "app", UID: "u-1",
			APIVersion: "kustomize.toolkit.fluxcd.io/v1",
		},
		Severity: event.SeverityError, Reason: "BuildFailed", Message: "no such file",
		Timestamp:           time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC),
		Metadata:            map[string]string{"kustomize.toolkit.fluxcd.io/revision": "main@sha1:abc"},
		ReportingController: "kustomize-controller",
	}
}

func TestDecode(t *testing.T) {
	for name, tc := range map[string]struct {
		body, wantErr string
	}{
		"an event of a Flux controller is read":           {body: `{"involvedObject":{"kind":"A","namespace":"n","name":"x"},"timestamp":"2026-03-01T10:00:00Z"}`},
		"an event of version v1 is read":                  {body: `{"involvedObject":{"kind":"A","namespace":"n","name":"x"},"action":"Apply","relatedObject":{"kind":"B"}}`},
		"fields of later versions are ignored":            {body: `{"involvedObject":{"kind":"A","namespace":"n","name":"x"},"later":{"kind":"B"}}`},
		"a null timestamp is read as none":                {body: `{"involvedObject":{"kind":"A","namespace":"n","name":"x"},"timestamp":null}`},
		"malformed JSON is refused":                       {body: `{"involvedObject":`, wantErr: "not an event in JSON"},
		"a list is refused":                               {body: `[]`, wantErr: "not an event in JSON"},
		"an event without a kind is refused":              {body: `{"involvedObject":{"namespace":"n","name":"x"}}`, wantErr: "kind is empty"},
		"an event without a namespace is refused":         {body: `{"involvedObject":{"kind":"A","name":"x"}}`, wantErr: "namespace is empty"},
		"a name longer than Kubernetes allows is refused": {body: `{"involvedObject":{"kind":"A","namespace":"n","name":"` + strings.Repeat("x", 254) + `"}}`, wantErr: "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := event.Decode([]byte(tc.body))
			if tc.wantErr == "" && err != nil {
				t.Fatalf("got error %v, want none", err)
			}
			if tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Fatalf("got error %v, want one that says %q", err, tc.wantErr)
			}
		})
	}
}

func TestEventKeepsTheJSONFormOfFlux(t *testing.T) {
	got, err := json.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"involvedObject":{"kind":"Kustomization","namespace":"team-a","name":"app","uid":"u-1",` +
		`"apiVersion":"kustomize.toolkit.fluxcd.io/v1"},"severity":"error","timestamp":"2026-03-01T10:00:00Z",` +
		`"message":"no such file","reason":"BuildFailed","metadata":{"kustomize.toolkit.fluxcd.io/revision":"main@sha1:abc"},` +
		`"reportingController":"kustomize-controller"}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("JSON differs (-want +got):\n%s", diff)
	}
}

// Fails when an event of Flux 2.10 loses its action or its related object, when one of them is made up for an event of version v1beta1, or when
// a related object may have any size.
func TestAnEventOfVersionV1KeepsItsActionAndItsRelatedObject(t *testing.T) {
	const head = `{"involvedObject":{"kind":"A","namespace":"n","name":"x"},"relatedObject":{"kind":"B","name":"`
	for name, related := range map[string]*event.ObjectReference{"y": {Kind: "B", Name: "y"}, strings.Repeat("y", 254): nil} {
		e, err := event.Decode([]byte(head + name + `"},"action":"Reconciled"}`))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(related, e.RelatedObject); diff != "" || e.Action != "Reconciled" {
			t.Errorf("action %q, related object (-want +got):\n%s", e.Action, diff)
		}
		body, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(body), `"action":"Reconciled"`) || strings.Contains(string(body), `"relatedObject":{"kind":"B","name":"y"}`) != (related != nil) {
			t.Errorf("sent on as %s", body)
		}
	}
}

// E9: fails when PostID leaves out the UID, since a forged POST would then make the genuine event a duplicate.
func TestPostIDTellsEventsApart(t *testing.T) {
	base := event.PostID(sample())
	if again := event.PostID(sample()); again != base {
		t.Errorf("the same event has IDs %s and %s", base, again)
	}
	for name, change := range map[string]func(*event.Event){
		"another UID":       func(e *event.Event) { e.InvolvedObject.UID = "forged" },
		"another namespace": func(e *event.Event) { e.InvolvedObject.Namespace = "team-b" },
		"another message":   func(e *event.Event) { e.Message = "other" },
		"another severity":  func(e *event.Event) { e.Severity = event.SeverityInfo },
		"another revision":  func(e *event.Event) { e.Metadata["kustomize.toolkit.fluxcd.io/revision"] = "main@sha1:def" },
		"a token":           func(e *event.Event) { e.Metadata["kustomize.toolkit.fluxcd.io/token"] = "t" },
		"fields that join to the same text": func(e *event.Event) {
			e.InvolvedObject.Name, e.InvolvedObject.UID = "appu", "-1"
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := sample()
			change(&e)
			if event.PostID(e) == base {
				t.Error("got the same ID")
			}
		})
	}
	e := sample()
	e.Timestamp = e.Timestamp.Add(time.Hour)
	if event.PostID(e) != base {
		t.Error("the time of an event is part of its ID, so a repeat would not be a duplicate")
	}
}

func TestOutcomeOf(t *testing.T) {
	for name, tc := range map[string]struct {
		severity, reason string
		want             event.Outcome
	}{
		"an error is a failure":                   {"error", "BuildFailed", event.OutcomeFailed},
		"info is a success":                       {"info", "ReconciliationSucceeded", event.OutcomeSucceeded},
		"progress says nothing of the end":        {"info", "Progressing", event.OutcomeNone},
		"waiting for a dependency is no failure":  {"error", "DependencyNotReady", event.OutcomeNone},
		"a trace says nothing of the end":         {"trace", "ReconciliationSucceeded", event.OutcomeNone},
		"a cancelled health check is no failure":  {"error", "HealthCheckCanceled", event.OutcomeNone},
		"a failure that is retried is no outcome": {"error", "ProgressingWithRetry", event.OutcomeNone},
		"a release that was rolled back failed":   {"info", "RollbackSucceeded", event.OutcomeNone},
		"a failed source is a failure":            {"error", "SourceNotReady", event.OutcomeFailed},
	} {
		t.Run(name, func(t *testing.T) {
			if got := event.OutcomeOf(event.Event{Severity: tc.severity, Reason: tc.reason}); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTargetKeyTellsServiceAccountsAndSelectorsApart(t *testing.T) {
	all := event.Target{APIVersion: "kustomize.toolkit.fluxcd.io/v1", Kind: "Kustomization", Name: "*", MatchLabels: map[string]string{"a": "1", "b": "2"}}
	other := all
	other.MatchLabels = map[string]string{"a": "1"}
	demanding, left, core := all, all, all
	demanding.MatchExpressions = []event.Requirement{{Key: "c", Operator: "Exists"}}
	left.APIVersion, core.APIVersion = "", "v1"
	keys := map[string]string{}
	for name, key := range map[string]string{
		"strong account":           event.TargetKey(all, "strong"),
		"weak account":             event.TargetKey(all, "weak"),
		"another selector":         event.TargetKey(other, "strong"),
		"an expression more":       event.TargetKey(demanding, "strong"),
		"whichever group there is": event.TargetKey(left, "strong"),
		"the core group":           event.TargetKey(core, "strong"),
		"one object":               event.TargetKey(all.Named("x"), "strong"),
	} {
		if same, found := keys[key]; found {
			t.Errorf("%s and %s share a key", name, same)
		}
		keys[key] = name
	}
	version := all
	version.APIVersion = "kustomize.toolkit.fluxcd.io/v2"
	if event.TargetKey(all, "strong") != event.TargetKey(version, "strong") {
		t.Error("two versions of one kind have different keys, so one object would be asked twice")
	}
}

// Fails when an operator, a value or an order among them is left out of the canonical form.
func TestASelectorHasOneForm(t *testing.T) {
	in := func(values ...string) event.Requirement {
		return event.Requirement{Key: "tier", Operator: "In", Values: values}
	}
	notIn := event.Requirement{Key: "tier", Operator: "NotIn", Values: []string{"x"}}
	exists, absent := event.Requirement{Key: "a", Operator: "Exists"}, event.Requirement{Key: "b", Operator: "DoesNotExist"}
	for name, tc := range map[string]struct {
		target event.Target
		want   string
	}{
		"a name selects nothing": {event.Target{Name: "x", MatchLabels: map[string]string{"a": "1"}, MatchExpressions: []event.Requirement{in("1")}}, ""},
		"everything":             {event.Target{Name: "*"}, ""},
		"labels first":           {event.Target{Name: "*", MatchLabels: map[string]string{"z": "1", "y": "2"}, MatchExpressions: []event.Requirement{exists}}, "y=2,z=1,a"},
		"every operator": {
			event.Target{Name: "*", MatchExpressions: []event.Requirement{notIn, in("2", "1"), exists, absent}},
			"!b,a,tier in (1,2),tier notin (x)",
		},
		"repetitions": {event.Target{Name: "*", MatchExpressions: []event.Requirement{in("1", "2", "1"), in("2", "1")}}, "tier in (1,2)"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.target.Selector(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// E7: fails when Error prints its cause, which may contain a webhook address.
func TestErrorNeverPrintsItsCause(t *testing.T) {
	cause := errors.New("Post https://hooks.example/secret: refused")
	err := error(event.NewError(event.Retry, "connect", "connection refused", cause))
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("error text %q holds the cause", err)
	}
	if !errors.Is(err, cause) {
		t.Error("the cause cannot be matched")
	}
	if got := event.AsError(cause); strings.Contains(got.Error(), "secret") {
		t.Errorf("the text of an unclassified error %q holds the cause", got)
	}
}

// Fails without a bound on the metadata. One event is copied for each matching Alert, so the annotations of a tenant must be
// bounded.
// T6: a Pod POSTs events of 3 MiB with as many entries of metadata as fit. Fails when Decode makes a map of them, or when it makes one of each
// "metadata" in a body; or when metadata that controllers send is dropped.
func TestT6AnEventOfVeryManyEntriesCostsLittleMoreThanItsLength(t *testing.T) {
	entries := func(bytes int) string {
		var b strings.Builder
		b.WriteString(`"metadata":{"revision":"main@sha1:abc"`)
		for i := 0; b.Len() < bytes; i++ {
			fmt.Fprintf(&b, `,"%x":""`, i)
		}
		return b.String() + "}"
	}
	const object = `{"involvedObject":{"kind":"A","namespace":"n","name":"x"},`
	for name, tc := range map[string]struct {
		metadata string
		refused  bool
		kept     string
		most     float64
	}{
		"one annotation of all that Kubernetes allows": {`"metadata":{"revision":"main@sha1:abc","a":"` + strings.Repeat("x", 256<<10) + `"}`, false, "main@sha1:abc", 1000},
		"very many entries":                            {entries(3 << 20), false, "", 1000},
		"many entries very often":                      {strings.Repeat(entries(500<<10)+",", 5) + entries(0), true, "", 200_000},
	} {
		t.Run(name, func(t *testing.T) {
			body := []byte(object + tc.metadata + "}")
			var e event.Event
			var err error
			if n := testing.AllocsPerRun(1, func() { e, err = event.Decode(body) }); n > tc.most {
				t.Errorf("%.0f allocations for %d bytes, want %.0f at most", n, len(body), tc.most)
			}
			if (err != nil) != tc.refused || e.Metadata["revision"] != tc.kept {
				t.Errorf("got %d entries and %v, want revision %q and refused %v", len(e.Metadata), err, tc.kept, tc.refused)
			}
		})
	}
}

// T6: the bounds on events in memory count Size. Fails when very many short entries of metadata take many times what Size says, or when as
// many are kept as there are bytes.
func TestT6TheSizeOfAnEventIsThatOfItsEntries(t *testing.T) {
	before := alloctest.InUse()
	size := 0
	events := make([]event.Event, 200)
	for i := range events {
		metadata := map[string]string{}
		for j := range 6000 {
			metadata[strconv.FormatInt(int64(j), 36)] = ""
		}
		events[i].Metadata = metadata
		size += events[i].Size()
	}
	if took := alloctest.InUse() - before; took > int64(2*size) {
		t.Errorf("%d KiB are taken by events whose sizes are %d KiB", took>>10, size>>10)
	}
	events[0].TrimMetadata()
	if n := len(events[0].Metadata); n > 512 || n < 100 {
		t.Errorf("%d entries are kept", n)
	}
	runtime.KeepAlive(events)
}

func TestMetadataIsTrimmedFromItsLargestEntries(t *testing.T) {
	for range 20 { // the order of a map differs
		shared := map[string]string{"a/revision": "main@sha1:abc", "a/large": strings.Repeat("x", 40<<10), "a/half": strings.Repeat("y", 20<<10)}
		e := event.Event{Metadata: shared}
		e.TrimMetadata()
		if diff := cmp.Diff([]string{"a/half", "a/revision"}, slices.Sorted(maps.Keys(e.Metadata))); diff != "" {
			t.Fatalf("kept entries differ (-want +got):\n%s", diff)
		}
		if len(shared) != 3 {
			t.Fatal("the caller's map was changed")
		}
	}
}

// Fails when a delivery loses on the bus the keys that the Alert's author wrote, or those that the object has as well, or when a stored
// delivery without the fields has some.
func TestADeliveryKeepsWhatTheAlertsAuthorWrote(t *testing.T) {
	body, err := json.Marshal(event.Delivery{ID: "1", Event: sample(), Authored: []string{"commit", "summary"}, Annotated: []string{"commit"}})
	if err != nil {
		t.Fatal(err)
	}
	before := strings.Replace(string(body), `"annotated":["commit"],`, "", 1)
	old := strings.Replace(before, `"authored":["commit","summary"],`, "", 1)
	if before == string(body) || old == before {
		t.Fatal("it is not told")
	}
	type keys struct{ Authored, Annotated []string }
	for text, want := range map[string]keys{
		string(body): {[]string{"commit", "summary"}, []string{"commit"}}, before: {Authored: []string{"commit", "summary"}}, old: {},
	} {
		var got event.Delivery
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, keys{got.Authored, got.Annotated}); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", text, diff)
		}
	}
}
