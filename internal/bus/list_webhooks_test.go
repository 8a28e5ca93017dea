package bus

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/event/view"
)

// Fails when results are not listed newest first over messages of several, when a page repeats one at its end or counts equal ones as one,
// or when a result is another namespace's or Receiver's.
func TestResultsOfWebhooksAreListed(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	ctx := testContext(t)
	followed := followTo(t, b, "my.team", view.Webhooks)
	var want []view.Webhook
	for i := range 4 {
		var together []view.Webhook
		for j := range 3 {
			together = append(together, view.Webhook{
				Namespace: "my.team", Receiver: fmt.Sprint("r.", i%2), Time: time.Now().UTC().Truncate(time.Second),
				Result: "accepted", Count: int64(j/2 + 1),
			})
		}
		must(t, b.RecordWebhooks(ctx, "my.team", fmt.Sprint("r.", i%2), together))
		must(t, b.RecordWebhooks(ctx, "other", "r.0", []view.Webhook{{Namespace: "other", Receiver: "r.0"}}))
		must(t, b.RecordWebhooks(ctx, "my.team", "r.1", []view.Webhook{{Namespace: "forged", Receiver: "r.1"}}))
		for _, w := range together {
			want = append([]view.Webhook{w}, want...)
			if diff := cmp.Diff(any(w), receive(t, followed)); diff != "" {
				t.Errorf("followed (-want +got):\n%s", diff)
			}
		}
	}
	for _, limit := range []int{1, 2, 5, 100} {
		var got []view.Webhook
		q := view.Query{Limit: limit}
		for {
			page, err := b.ListWebhooks(ctx, "my.team", q)
			must(t, err)
			got = append(got, page.Items...)
			if q.Cursor = page.Next; page.Next == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pages of %d (-want +got):\n%s", limit, diff)
		}
	}
	page, err := b.ListWebhooks(ctx, "my.team", view.Query{Receiver: "r.1"})
	must(t, err)
	if len(page.Items) != 6 || page.Items[0].Receiver != "r.1" {
		t.Errorf("of one Receiver: %+v", page.Items)
	}
}
