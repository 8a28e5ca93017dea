package receiver

import (
	"strings"
	"testing"
)

// Fails when the formula gets a separator, another order of its parts, or trims the token: the value was computed with
// sha256sum.
func TestPathIsFluxsFormula(t *testing.T) {
	const want = "/hook/6f4e18ba64e5c088f93e1bc606263b8ce977cf8fa31dd08e6e7721bf5926718c"
	if got := Path("s3cret", "webhook", "team-a"); got != want {
		t.Errorf("Path = %s, want %s", got, want)
	}
	if !isHookPath(want) || isHookPath(want+"0") || isHookPath(strings.ToUpper(want)) || isHookPath("/hook/") {
		t.Error("isHookPath does not tell hook paths from others")
	}
}
