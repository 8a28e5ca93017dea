package provider

import (
	"testing"

	"golang.org/x/time/rate"
)

// Fails when a vendor's host is recognized by a part of a label, or is missed because of its case or its final dot.
func TestAVendorsHostsAreItsDomainsAndThoseBelow(t *testing.T) {
	want := Limit{Rate: rate.Limit(1), Burst: 2}
	for host, on := range map[string]bool{
		"slack.com": true, "hooks.SLACK.com": true, "hooks.slack.com.": true, "a.slack-gov.com:8443": true,
		"notslack.com": false, "slack.com.example.com": false, "slack": false,
	} {
		c, err := NewClient(Config{Address: "https://" + host + "/x"}, ClientOptions{Limit: LimitOn(want, "slack.com", "slack-gov.com")})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Limit(); c.On("slack.com", "slack-gov.com") != on || (got == want) != on {
			t.Errorf("%s: %v, %+v", host, !on, got)
		}
	}
}
