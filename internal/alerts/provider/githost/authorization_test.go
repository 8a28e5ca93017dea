package githost

import (
	"strings"
	"testing"
)

// Fails when what no header may hold is let through, or a colon moves from the user's name into the password.
func TestCredentialsThatCannotBeSentAreRefusedWithoutQuotingThem(t *testing.T) {
	for _, token := range []string{"", "s3cret\n", "s3 cret", "s3cr\x00et", "s3crét"} {
		if got, err := Authorization("Bearer", token); err == nil || strings.Contains(err.Error(), "s3c") {
			t.Errorf("%q: got %q, %v", token, got, err)
		}
	}
	for _, pair := range [][2]string{{"", ""}, {"", "s3cret"}, {"s3cret", ""}, {"s3c:ret", "s3cret"}, {"user", "s3cret\n"}} {
		if got, err := Basic(pair[0], pair[1]); err == nil || strings.Contains(err.Error(), "s3c") {
			t.Errorf("%q: got %q, %v", pair, got, err)
		}
	}
	if got, err := Authorization("token", "abc"); err != nil || got != "token abc" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := Basic("user@example.com", "pass: wörd"); err != nil || got != "Basic dXNlckBleGFtcGxlLmNvbTpwYXNzOiB3w7ZyZA==" {
		t.Errorf("got %q, %v", got, err)
	}
}
