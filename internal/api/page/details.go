package page

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"notifier/internal/api"
	"notifier/internal/event"
	"notifier/internal/event/view"
)

// detail is the body of the page of a delivery.
type detail struct {
	view.DeliveryDetail
	// Steps are what happened to it, oldest first.
	Steps []step
	// Omitted counts attempts that are not kept.
	Omitted int
	// Replay is the address to replay it, empty where it is not offered.
	Replay string
	Meta   []pair
}

// step is one point of a delivery's time line.
type step struct {
	Time time.Time
	// Tone is one of "sent", "failed", "dead", "pending" and "start".
	Tone, Head, Text string
	Facts            []string
}

// pair is a key of an event's metadata.
type pair struct {
	Key, Value string
	// Authored says that the Alert's author wrote it.
	Authored bool
}

func delivery(v *visit) (*screen, error) { return deliveryOf(v, v.request.PathValue("id")) }

func toDelivery(v *visit) (*screen, error) {
	return &screen{redirect: in(v.namespace, "deliveries", v.request.PathValue("id"))}, nil
}

func deliveryOf(v *visit, id string) (*screen, error) {
	d, err := v.Delivery(v.ctx(), v.user, v.namespace, id)
	if errors.Is(err, view.ErrNotFound) {
		return notYet(v), nil
	}
	if err != nil {
		return nil, err
	}
	body := &detail{DeliveryDetail: d, Steps: steps(&d), Omitted: max(0, d.Attempts-len(d.Tries))}
	if d.State != view.StatePending && v.may(api.ReplayDeliveries) {
		body.Replay = in(v.namespace, "deliveries", id, "replay")
	}
	if d.Message != nil {
		body.Meta = metadata(d.Message.Metadata, d.Authored)
	}
	f := filter{Provider: d.Provider, Alert: d.Alert, Object: d.Object.String()}
	return &screen{
		template: "delivery", Section: "deliveries", Title: d.Object.String(), Watch: f.watch(v.namespace, view.Deliveries), Body: body,
	}, nil
}

// notYet is the screen for a delivery that is not found. One that was just made is not found before it was tried: the page shows it then.
func notYet(v *visit) *screen {
	return &screen{
		template: "problem", status: http.StatusNotFound, Section: "deliveries", Title: "Not found", Watch: filter{}.watch(v.namespace, view.Deliveries),
		Body: problem{Head: "Not found", Text: "There is no such delivery, or none any more. One that was just made shows here as soon as it was tried"},
	}
}

// steps is a delivery's time line.
func steps(d *view.DeliveryDetail) []step {
	all := []step{{Time: d.Routed, Tone: "start", Head: "Routed", Text: "The event was taken for " + taker(d) + "."}}
	for i, a := range d.Tries {
		s := step{Time: a.Time, Tone: "failed", Head: "Attempt " + strconv.Itoa(number(d, i)), Text: a.Failure, Facts: []string{a.Class}}
		if a.Class == event.ClassSent {
			s.Tone, s.Text = "sent", "The destination accepted it."
		}
		if a.Status != 0 {
			s.Facts = append(s.Facts, "HTTP "+strconv.Itoa(a.Status))
		}
		s.Facts = append(s.Facts, "took "+millis(a.Millis))
		if !a.Next.IsZero() {
			s.Facts = append(s.Facts, "next try after "+a.Next.Sub(a.Time).Round(time.Second).String())
		}
		all = append(all, s)
	}
	switch d.State {
	case view.StateDead:
		all = append(all, step{Time: d.Time, Tone: "dead", Head: "Given up", Text: d.Failure})
	case view.StateSent:
		if n := len(d.Tries); n == 0 || d.Tries[n-1].Class != event.ClassSent {
			all = append(all, step{Time: d.Time, Tone: "sent", Head: "Sent", Text: "The destination accepted it."})
		}
	case view.StatePending:
		all = append(all, step{Time: d.Next, Tone: "pending", Head: "Waits", Text: "It is tried when its turn comes."})
	}
	return all
}

func taker(d *view.DeliveryDetail) string {
	if d.Alert == "" {
		return "a test of Provider " + d.Provider
	}
	return "Alert " + d.Alert + " and Provider " + d.Provider
}

// number is which attempt the i-th kept one was. Where some of the middle are not kept, those of the second half are counted from the end.
func number(d *view.DeliveryDetail, i int) int {
	if omitted := d.Attempts - len(d.Tries); omitted > 0 && i >= event.MaxTries/2 {
		return i + 1 + omitted
	}
	return i + 1
}

func metadata(m map[string]string, authored []string) []pair {
	pairs := make([]pair, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, pair{Key: k, Value: m[k], Authored: slices.Contains(authored, k)})
	}
	return pairs
}

// replayOne replays a delivery, and shows it again with what became of it.
func replayOne(v *visit) (*screen, error) {
	id := v.request.PathValue("id")
	result, err := v.Replay(v.ctx(), v.user, v.namespace, view.ReplayRequest{IDs: []string{id}})
	n := &notice{Text: "Put on its way again. Its outcome shows here in a moment."}
	if why, refused := result.Refused[id]; refused {
		n = &notice{Failed: true, Text: "Not replayed: " + why}
	}
	return after(err, n, func() (*screen, error) { return deliveryOf(v, id) })
}

// after shows the page on which something was asked for again, with what became of it: a notice, or the error.
func after(err error, n *notice, show func() (*screen, error)) (*screen, error) {
	s, broken := show()
	if broken != nil {
		return nil, cmp.Or(err, broken)
	}
	s.Notice = n
	if err != nil {
		e := api.AsError(err)
		s.status, s.Notice = e.Status, &notice{Failed: true, Text: label(e.Text) + "."}
	}
	return s, nil
}

// explained is the body of the page of an event.
type explained struct {
	view.Explanation
	Meta    []pair
	Matched int
}

func explain(v *visit) (*screen, error) {
	e, err := v.Explain(v.ctx(), v.user, v.namespace, v.request.PathValue("id"))
	if err != nil {
		return nil, err
	}
	body := &explained{Explanation: e, Meta: metadata(e.Event.Metadata, nil)}
	for _, d := range e.Decisions {
		if d.Matched {
			body.Matched++
		}
	}
	// Those that took it first, in the order of the explanation.
	slices.SortStableFunc(body.Decisions, func(a, b view.Decision) int {
		switch {
		case a.Matched == b.Matched:
			return 0
		case a.Matched:
			return -1
		default:
			return 1
		}
	})
	f := filter{Object: e.Event.Object.String()}
	return &screen{
		template: "event", Section: "events", Title: e.Event.Object.String(), Watch: f.watch(v.namespace, view.Deliveries), Body: body,
	}, nil
}

// group is the objects of one kind on the page of the health.
type group struct {
	Kind string
	// Lack says what there is to do about it that there are none.
	Lack    string
	Objects []view.Health
	// Test says that each may be tested.
	Test bool
}

func health(v *visit) (*screen, error) {
	found, err := v.Health(v.ctx(), v.user, v.namespace)
	if err != nil {
		return nil, err
	}
	groups := []group{
		{Kind: "Provider", Lack: "A Provider says where messages go. Apply one, and an Alert that names it."},
		{Kind: "Alert", Lack: "An Alert says which events are sent to a Provider. Without one nothing is sent."},
		{Kind: "Receiver", Lack: "A Receiver takes webhooks and has objects reconciled at once."},
	}
	for i := range groups {
		g := &groups[i]
		for _, h := range found {
			if h.Kind == g.Kind {
				g.Objects = append(g.Objects, h)
			}
		}
	}
	groups[0].Test = len(groups[0].Objects) > 0 && v.may(api.TestRight(""))
	if len(groups[2].Objects) == 0 && !v.may(api.ListRight(view.Webhooks)) {
		groups = groups[:2] // that there are none is not known
	}
	return &screen{template: "health", Section: "health", Title: "Health", Body: groups}, nil
}

// state is how an object fares, in words.
func state(h view.Health) string {
	switch {
	case !h.Ready:
		return "not ready"
	case h.Problem != "":
		return "degraded"
	default:
		return "ready"
	}
}

func toHealth(v *visit) (*screen, error) { return &screen{redirect: in(v.namespace, "health")}, nil }

// test sends a test message through a Provider, and shows the health again with a link to the outcome.
func test(v *visit) (*screen, error) {
	name := v.request.PathValue("provider")
	result, err := v.Test(v.ctx(), v.user, v.namespace, view.TestRequest{Provider: name})
	return after(err, &notice{
		Text: fmt.Sprintf("A test message is on its way through Provider %s.", name),
		Link: in(v.namespace, "deliveries", result.DeliveryID), Label: "See what becomes of it",
	}, func() (*screen, error) { return health(v) })
}
