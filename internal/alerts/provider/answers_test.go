package provider

import (
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWaitsAreBounded(t *testing.T) {
	for in, want := range map[float64]time.Duration{
		0: 0, -1: 0, 0.5: 500 * time.Millisecond, 3601: time.Hour, 1e300: time.Hour, math.Inf(1): time.Hour, math.Inf(-1): 0,
	} {
		if got := Seconds(in); got != want {
			t.Errorf("%v: got %v, want %v", in, got, want)
		}
	}
	if got := Seconds(math.NaN()); got != 0 {
		t.Errorf("no number: got %v", got)
	}
}

// Fails when a token that cannot be sent is found out by the first send instead.
func TestATokenThatNoHeaderCarriesIsRefused(t *testing.T) {
	for _, token := range []string{"a\n", "a b", "a\r\nX: 1", "ä", "\x00"} {
		if h, err := TokenHeader("Bearer", token); err == nil || h != nil {
			t.Errorf("%q is taken", token)
		}
	}
	for scheme, want := range map[string]http.Header{"Bearer": {"Authorization": {"Bearer a"}}, "": {"Authorization": {"a"}}} {
		got, err := TokenHeader(scheme, "a")
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("scheme %q: %v %s", scheme, err, diff)
		}
	}
	if h, err := TokenHeader("Bearer", ""); h != nil || err != nil {
		t.Errorf("without a token: %v, %v", h, err)
	}
}

func TestJSONIsEncodedAsItIsRead(t *testing.T) {
	got, err := EncodeJSON(map[string]string{"a": "<b> & c"})
	if err != nil || string(got) != `{"a":"<b> & c"}` {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := EncodeJSON(func() {}); Classify(err).Label != LabelPayload {
		t.Errorf("got %v", err)
	}
}
