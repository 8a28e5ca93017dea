package provider

import (
	"math"
	"testing"
	"time"
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
	got, err := EncodeJSON(map[string]string{"a": "<b> & c"})
	if err != nil || string(got) != `{"a":"<b> & c"}` {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := EncodeJSON(func() {}); Classify(err).Label != LabelPayload {
		t.Errorf("got %v", err)
	}
}
