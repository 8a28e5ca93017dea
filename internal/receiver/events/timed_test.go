package events

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/iotest"

	"github.com/prometheus/client_golang/prometheus"

	"notifier/internal/receiver/answer"
)

// timedPosts returns the non-zero counts of the histogram of Flux's name by "method code", and the number of its series.
func timedPosts(t *testing.T, reg *prometheus.Registry) (counts map[string]uint64, series int) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts = map[string]uint64{}
	for _, family := range families {
		if family.GetName() != "gotk_event_http_request_duration_seconds" {
			continue
		}
		series = len(family.GetMetric())
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["handler"] != "/" || len(labels) != 3 {
				t.Errorf("labels are %v", labels)
			}
			if n := m.GetHistogram().GetSampleCount(); n > 0 {
				counts[labels["method"]+" "+labels["code"]] = n
			}
		}
	}
	return counts, series
}

// Dashboards for Flux read these series, such as the rate of code="429". Fails when an answer is not counted under its status, and when a
// sender can create a new series.
func TestPostsAreTimedUnderTheNameThatDashboardsKnow(t *testing.T) {
	reg := prometheus.NewRegistry()
	h := newEvents(t, &eventLog{}, func(o *Options) { o.Registerer = reg })
	_, before := timedPosts(t, reg)
	slow := post("")
	slow.Body = io.NopCloser(iotest.ErrReader(os.ErrDeadlineExceeded))
	for _, r := range []*http.Request{
		post(posted(nil)), post(posted(nil)), post("{"), slow,
		httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRequest("INVENTED", "/", nil), httptest.NewRequest(http.MethodPost, "/where", nil),
	} {
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	got, after := timedPosts(t, reg)
	want := map[string]uint64{"POST 202": 1, "POST 429": 1, "POST 400": 1, "POST 408": 1, "other 405": 2, "POST 404": 1}
	for labels, n := range want {
		if got[labels] != n {
			t.Errorf("%s: got %d, want %d", labels, got[labels], n)
		}
	}
	if len(got) != len(want) || before != after {
		t.Errorf("got %v in %d series, before %d", got, after, before)
	}
}

// Fails when an answer of the events endpoint has a status that is no label, and so would be counted as 500.
func TestEveryStatusOfTheEventsEndpointIsALabel(t *testing.T) {
	for _, a := range []*answer.Answer{
		postUnknown, postMethod, postLoop, postEncoded, postTooLarge, postUnreadable, postBusy, postStarting, postOverBudget, postUnavailable,
		postAccepted, postDuplicate,
	} {
		if !slices.Contains(postCodes, a.Status) {
			t.Errorf("%s: status %s is no label", a.Result, strconv.Itoa(a.Status))
		}
	}
}

// Fails when an unforeseen status is not counted, or when the connection's deadlines are no longer reachable.
func TestAnUnforeseenStatusIsTimedAs500(t *testing.T) {
	reg := prometheus.NewRegistry()
	times := newPostTimes(reg)
	inner := httptest.NewRecorder()
	times.timed(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if u, ok := w.(interface{ Unwrap() http.ResponseWriter }); !ok || u.Unwrap() != http.ResponseWriter(inner) {
			t.Error("http.ResponseController does not get through")
		}
		w.WriteHeader(http.StatusTeapot)
	})).ServeHTTP(inner, httptest.NewRequest(http.MethodPost, "/", nil))
	if got, _ := timedPosts(t, reg); got["POST 500"] != 1 {
		t.Errorf("a status that is none of the labels: got %v", got)
	}
}
