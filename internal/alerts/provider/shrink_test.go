package provider

import (
	"math"
	"strings"
	"testing"
)

func TestTheLargestSizeThatFitsIsChosen(t *testing.T) {
	sizes := []int{8, 4, 2}
	build := func(size int) string { return strings.Repeat("<", size) }
	for limit, want := range map[int]int{8: 8, 7: 4, 4: 4, 2: 2, 1: 2} { // 1: nothing fits, so the least is sent
		if got := len(Shrink(sizes, limit, Bytes, build)); got != want {
			t.Errorf("%d bytes: got %d, want %d", limit, got, want)
		}
		body, err := ShrinkJSON(sizes, limit+2, build) // with its quotes
		if err != nil || len(body) != want+2 {
			t.Errorf("%d bytes of JSON: got %s, %v", limit, body, err)
		}
	}
}

func TestAMessageThatIsNoJSONIsAnError(t *testing.T) {
	if _, err := ShrinkJSON([]int{2, 1}, 8, func(int) float64 { return math.NaN() }); err == nil {
		t.Error("no error")
	}
}
