package destinations

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/test/env"
)

func (s *shared) startCollector(ctx context.Context, program string) error {
	address, err := local()
	if err != nil {
		return err
	}
	if s.collector, err = env.Start(env.Command{Path: program, Args: []string{address}}); err != nil {
		return err
	}
	s.traces = "http://" + address
	_, err = s.collector.WaitLog(ctx, func(line string) bool { return line == "ready" })
	return err
}

// traces is a request in the collector's output, in OTLP's JSON.
type traces struct {
	ResourceSpans []struct {
		Resource struct {
			Attributes attributes `json:"attributes"`
		} `json:"resource"`
		ScopeSpans []struct {
			Spans []span `json:"spans"`
		} `json:"scopeSpans"`
	} `json:"resourceSpans"`
}

type span struct {
	TraceID    string     `json:"traceId"`
	SpanID     string     `json:"spanId"`
	Parent     string     `json:"parentSpanId"`
	Name       string     `json:"name"`
	Start      string     `json:"startTimeUnixNano"`
	End        string     `json:"endTimeUnixNano"`
	Attributes attributes `json:"attributes"`
	Status     struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"status"`
}

type attributes []struct {
	Key   string `json:"key"`
	Value struct {
		Text string `json:"stringValue"`
	} `json:"value"`
}

func (a attributes) get(key string) string {
	for _, one := range a {
		if one.Key == key {
			return one.Value.Text
		}
	}
	return ""
}

// arrives waits for the span of the tenant's object with an attribute "revision", and returns it with its service.
func (s *fixture) arrives(name, revision string) (one span, service string) {
	s.Helper()
	_, err := s.collector.WaitLog(s.Within(time.Minute), func(line string) bool {
		var all traces
		if json.Unmarshal([]byte(line), &all) != nil || len(all.ResourceSpans) != 1 || len(all.ResourceSpans[0].ScopeSpans) != 1 {
			return false
		}
		of := all.ResourceSpans[0]
		service = of.Resource.Attributes.get("service.name")
		i := slices.IndexFunc(of.ScopeSpans[0].Spans, func(sp span) bool {
			return strings.HasSuffix(sp.Name, s.Tenant.Namespace+"/"+name) && sp.Attributes.get("revision") == revision
		})
		if i >= 0 {
			one = of.ScopeSpans[0].Spans[i]
		}
		return i >= 0
	})
	s.Must(err)
	return one, service
}

// The codes of a span's status (OpenTelemetry protocol, trace.proto).
const (
	statusOK    = 1
	statusError = 2
)

// Fails when the collector refuses a span, or shows it differently than the page promises.
func TestASpanArrivesAtTheCollector(t *testing.T) {
	s := setUp(t)
	s.Must(s.Tenant.Alert(s.Ctx, "to-otel", "otel", s.traces, env.AnyKustomization))
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	object := s.Read(s.Tenant, "Kustomization", "app")
	const bad, good = "main@sha1:0000000000000000000000000000000000000001", "main@sha1:0000000000000000000000000000000000000002"
	s.PostEvent(s.Tenant, "Kustomization", "app", "error", "HealthCheckFailed", hostile, bad)
	failed, service := s.arrives("app", bad)
	if want := s.Tenant.Namespace + "/to-otel"; service != want || failed.Name != "Kustomization: "+s.Tenant.Namespace+"/app" {
		t.Errorf("service %q, span %q", service, failed.Name)
	}
	for key, want := range map[string]string{
		"object.kind": "Kustomization", "object.name": "app", "object.namespace": s.Tenant.Namespace, "object.uid": string(object.GetUID()),
	} {
		if got := failed.Attributes.get(key); got != want {
			t.Errorf("attribute %s is %q, want %q", key, got, want)
		}
	}
	if failed.Status.Code != statusError || failed.Status.Message != hostile {
		t.Errorf("status %d with the message\n%q, want\n%q", failed.Status.Code, failed.Status.Message, hostile)
	}
	s.PostEvent(s.Tenant, "Kustomization", "app", "info", "ReconciliationSucceeded", "done", good)
	succeeded, _ := s.arrives("app", good)
	if succeeded.Status.Code != statusOK || succeeded.Start == "" || succeeded.Start == "0" || succeeded.End < succeeded.Start {
		t.Errorf("got %+v", succeeded)
	}
	for _, one := range []span{failed, succeeded} {
		if len(one.TraceID) != 32 || len(one.SpanID) != 16 || one.Parent != "" {
			t.Errorf("span %q of trace %q with parent %q", one.SpanID, one.TraceID, one.Parent)
		}
	}
	if failed.TraceID == succeeded.TraceID || failed.SpanID == succeeded.SpanID {
		t.Error("two revisions are one trace, or two deliveries one span")
	}
}
