package bus

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sync/errgroup"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

// rightsAtNATS matches the sentence of the documentation about the permissions of notifier's user.
var rightsAtNATS = regexp.MustCompile("its user needs to publish to ((?:`[^`]+`(?:, | and )?)+) and to subscribe to ((?:`[^`]+`(?:, | and )?)+)")

// documented returns the subjects that the documentation has notifier's user publish and subscribe to.
func documented(t *testing.T) *server.Permissions {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	must(t, err)
	found := rightsAtNATS.FindStringSubmatch(strings.Join(strings.Fields(string(page)), " "))
	if found == nil {
		t.Fatal("docs/operations.md does not name the permissions of notifier's user")
	}
	subjects := func(list string) *server.SubjectPermission {
		var allow []string
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(list, -1) {
			allow = append(allow, m[1])
		}
		return &server.SubjectPermission{Allow: allow}
	}
	return &server.Permissions{Publish: subjects(found[1]), Subscribe: subjects(found[2])}
}

// Fails when the bus uses a subject that the documentation does not have an administrator allow.
func TestThePermissionsOfTheDocumentationAreEnough(t *testing.T) {
	t.Parallel()
	rights := documented(t)
	s := startServerWith(t, t.TempDir(), server.RANDOM_PORT, func(o *server.Options) {
		o.NoAuthUser, o.Users = "notifier", []*server.User{{Username: "notifier", Password: "p", Permissions: rights}}
	})
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	ctx, log := testContext(t), &bytes.Buffer{}
	b := open(t, "", func(o *Options) {
		o.URL, o.Log = s.ClientURL(), slog.New(slog.NewTextHandler(log, nil))
	})
	stop := start(t, b.Run)

	const many = 2000 // a watch of so many is slowed down by the server, which asks for answers
	var puts errgroup.Group
	puts.SetLimit(64)
	for i := range many {
		puts.Go(func() error {
			return b.State().Put(ctx, fmt.Sprint("Kustomization/team/", i), bytes.Repeat([]byte("x"), 1<<10), 0)
		})
	}
	must(t, puts.Wait())
	kept := 0
	must(t, b.State().All(ctx, func(string, []byte) { kept++ }))
	if kept != many {
		t.Errorf("got %d of %d states", kept, many)
	}
	_, err := b.PublishEvent(ctx, testRecord("e", "team", "app"))
	must(t, err)
	must(t, b.PublishTriggers(ctx, testTrigger("team", "k", 1)))
	to := make(chan event.Message[event.Delivery])
	stopWork := start(t, deliverTo(b, to))
	d := testDelivery("d", "team", "p")
	must(t, b.Reschedule(ctx, &d, time.Now()))
	m := receive(t, to)
	must(t, b.Sent(ctx, &m.Value))
	must(t, m.Ack(ctx))
	page, err := b.ListDeliveries(ctx, "team", view.Query{Limit: 10})
	must(t, err)
	if len(page.Items) != 1 {
		t.Errorf("got %d deliveries", len(page.Items))
	}
	if !b.Alive(ctx, b.Replica()) {
		t.Error("the replica does not answer itself")
	}
	stopWork()
	stop()
	closeBus(t, b)
	if strings.Contains(log.String(), "ermissions") {
		t.Errorf("the server refused something:\n%s", log)
	}
}
