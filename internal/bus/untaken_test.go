package bus

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"notifier/internal/event"
)

// A worker whose consumers hand out nothing, as without a permission, is not ready. Fails when only a consumer that was taken over counts, or
// each takeover counts as an answer: nothing is delivered, and /readyz is 200.
func TestAConsumerThatIsNeverServedIsNotReady(t *testing.T) {
	t.Parallel()
	for name, denied := range map[string]string{
		"not taken over": "$JS.API.CONSUMER.RESET.DELIVERIES.>",
		"not asked":      "$JS.API.CONSUMER.MSG.NEXT.DELIVERIES.>",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServerWith(t, t.TempDir(), server.RANDOM_PORT, func(o *server.Options) {
				o.NoAuthUser, o.Users = "notifier", []*server.User{{Username: "notifier", Password: "p", Permissions: &server.Permissions{
					Publish: &server.SubjectPermission{Allow: []string{">"}, Deny: []string{denied}},
				}}}
			})
			t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
			b := open(t, "", func(o *Options) { o.URL = s.ClientURL() })
			takeovers := make(chan *nats.Msg, 100)
			_, err := b.nc.ChanSubscribe("$JS.API.CONSUMER.UNPIN.DELIVERIES.deliver-0", takeovers)
			must(t, err)
			start(t, deliverTo(b, make(chan event.Message[event.Delivery])))
			receive(t, takeovers)
			began := time.Now()
			receive(t, takeovers)
			receive(t, takeovers)
			if err := b.progress.check(began.Add(wedgedAfter + time.Second)); err == nil || !strings.Contains(err.Error(), "deliver-0") {
				t.Errorf("after a minute: %v", err)
			}
		})
	}
}
