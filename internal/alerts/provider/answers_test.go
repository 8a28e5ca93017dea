package provider

import (
	"math"
	"testing"
	"time"

	"notifier/internal/event"
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

func TestJSONIsEncodedAsItIsRead(t *testing.T) {
	got, err := encodeJSON(map[string]string{"a": "<b> & c"})
	if err != nil || string(got) != `{"a":"<b> & c"}` {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := encodeJSON(func() {}); Classify(err).Label != LabelPayload {
		t.Errorf("got %v", err)
	}
}

// Fails when an unknown text is shown, or a known text at another path.
func TestAWordIsReadAtItsPlace(t *testing.T) {
	word := WordAt("error.status", "known")
	for answer, want := range map[string]string{
		`{"error":{"status":"known","x":1}}`: "known", `{"error":{"status":"s3cret"}}`: "", `{"status":"known"}`: "", `{"error":"known"}`: "",
		`{"error":{"status":["known"]}}`: "", `{"error":null}`: "", `known`: "", ``: "",
	} {
		if got := word([]byte(answer)); got != want {
			t.Errorf("%s: got %q", answer, got)
		}
	}
}

func TestAnAnswerOfAnotherIsWorthAnotherTry(t *testing.T) {
	var out struct{ A int }
	if err := DecodeJSON([]byte(`{"a":1}`), &out, "the API"); err != nil || out.A != 1 {
		t.Errorf("got %v, %+v", err, out)
	}
	if err := DecodeJSON([]byte("<html>s3cret"), nil, "the API"); err != nil {
		t.Errorf("what nobody reads: %v", err)
	}
	e := event.AsError(DecodeJSON([]byte("<html>s3cret"), &out, "the API"))
	if e.Class != event.Retry || e.Label != LabelReply || e.Error() != "answer is not one of the API" {
		t.Errorf("got %v", e)
	}
}
