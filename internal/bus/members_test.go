package bus

import (
	"errors"
	"testing"
	"time"
)

// The bucket of members is kept in the server's memory. Fails when nobody makes it again after the server was restarted: every
// replica then finds itself dead, gives its roles up, and nothing is routed or delivered until it is restarted.
func TestTheMembersComeBackAfterTheServerForgotThem(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	one, _, _ := f.join("one")
	two, _, _ := f.join("two")
	f.await("one", "two")
	ctx := testContext(t)
	gone := time.Now()
	must(t, one.js.DeleteKeyValue(ctx, bucketMembers))
	for _, b := range []*Bus{one, two} {
		for !heardOf(b, "one", gone) || !heardOf(b, "two", gone) {
			if err := wait(ctx, memberRetry); err != nil {
				t.Fatal(errors.Join(err, b.Ready()))
			}
		}
	}
	f.await("one", "two")
	must(t, one.Ready())
	must(t, two.Ready())
}

// heardOf reports whether a heartbeat of the member came since.
func heardOf(b *Bus, id string, since time.Time) bool {
	b.members.mu.Lock()
	defer b.members.mu.Unlock()
	return b.members.members[id].seen.After(since)
}
