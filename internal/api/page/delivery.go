package page

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"notifier/internal/api"
	"notifier/internal/event"
	"notifier/internal/event/view"
)

func delivery(v *visit) (*screen, error) { return deliveryOf(v, v.request.PathValue("id")) }

func toDelivery(v *visit) (*screen, error) {
	return &screen{redirect: v.in("deliveries", v.request.PathValue("id"))}, nil
}

func deliveryOf(v *visit, id string) (*screen, error) {
	d, err := v.Delivery(v.ctx(), v.user, v.namespace, id)
	if errors.Is(err, view.ErrNotFound) {
		return notYet(v), nil
	}
	if err != nil {
		return nil, err
	}
	f := url.Values{"provider": {d.Provider}, "alert": {d.Alert}, "object": {d.Object.String()}}
	return &screen{
		section: "deliveries", title: d.Object.String(), watch: watchOf(v.namespace, view.Deliveries, f),
		main: deliveryMain(v.place, &d, d.State != view.StatePending && v.may(api.ReplayDeliveries)),
	}, nil
}

// notYet returns the screen for a delivery that is not found. A new delivery is not found before its first attempt. The page shows
// it then.
func notYet(v *visit) *screen {
	s := problem(
		http.StatusNotFound, "Not found",
		"There is no such delivery, or none any more. One that was just made shows here as soon as it was tried",
	)
	s.section, s.watch = "deliveries", watchOf(v.namespace, view.Deliveries, nil)
	return s
}

func deliveryMain(p place, d *view.DeliveryDetail, replayable bool) g.Node {
	replay := &question{
		id: "replay", head: "Send it again?",
		text: "Provider " + d.Provider + " did not get it. It is sent again with the same ID.",
		to:   p.in("deliveries", d.ID, "replay"), yes: "Replay",
	}
	if d.State == view.StateSent {
		replay.text = "Provider " + d.Provider + " accepted it already: whoever reads there gets it twice."
	}
	return g.Group{
		back(p.in("deliveries"), "Deliveries"),
		head(d.Object.String(), chip(d.State), live(), g.If(replayable, replay.button("Replay…"))),
		g.If(replayable, replay.dialog()),
		deliveryFacts(p, d),
		h.Div(h.Class("two"), happened(p, d), section("message", "The message", sentMessage(d))),
	}
}

func deliveryFacts(p place, d *view.DeliveryDetail) g.Node {
	alert := muted("none: a test")
	if d.Alert != "" {
		alert = p.filtered("deliveries", "alert", d.Alert)
	}
	attempts := strconv.Itoa(d.Attempts)
	if d.Replays != 0 {
		attempts += fmt.Sprintf(", replayed %d×", d.Replays)
	}
	return h.Dl(
		h.Class("facts"),
		fact("Provider", p.filtered("deliveries", "provider", d.Provider)),
		fact("Alert", alert),
		fact(label(d.State)+" since", p.exact(d.Time)),
		fact("Attempts", g.Text(attempts)),
		g.If(!d.Next.IsZero(), fact("Next try", p.exact(d.Next))),
		idFact("Delivery ID", d.ID),
		g.Iff(d.Message != nil && d.Message.ID != "", func() g.Node {
			return fact("Event", h.A(href(p.in("events", d.Message.ID)), g.Text("Explain which Alerts took it")))
		}),
	)
}

// filtered returns a link to a list of the namespace that is filtered by the value of one parameter.
func (p place) filtered(list, parameter, value string) g.Node {
	return h.A(href(p.in(list).with(url.Values{parameter: {value}})), g.Text(value))
}

// happened returns the time line of a delivery.
func happened(p place, d *view.DeliveryDetail) g.Node {
	omitted := d.Attempts - len(d.Tries)
	return section(
		"attempts", "What happened",
		h.Ol(h.Class("line"), g.Map(steps(d), p.stepItem)),
		g.If(omitted > 0, h.P(h.Class("muted"), g.Text(count(omitted, "further attempt is", "further attempts are")+" not kept one by one."))),
	)
}

func (p place) stepItem(s step) g.Node {
	return h.Li(
		h.Class(s.tone),
		h.P(h.Class("step"), h.B(g.Text(s.head)), g.Text(" "), p.exact(s.time)),
		g.If(s.text != "", h.P(h.Class("text"), g.Text(s.text))),
		g.If(len(s.facts) > 0, h.P(h.Class("tags"), g.Map(s.facts, func(fact string) g.Node { return h.Span(g.Text(fact)) }))),
	)
}

func sentMessage(d *view.DeliveryDetail) g.Node {
	m := d.Message
	switch {
	case m != nil:
		return message(
			m, "Text of the message", d.Authored,
			h.P(h.Class("step"), h.B(g.Text(m.Object.String())), g.Text(" "), muted(m.Namespace), g.Text(" "), chip(m.Severity)),
			h.P(h.Class("reason"), g.Text(m.Reason)),
		)
	case d.Alert != "":
		return h.P(h.Class("muted"), g.Text("The event is not kept any more."))
	default:
		return h.P(h.Class("muted"), g.Text("A test message is not kept."))
	}
}

// step is one point of a delivery's time line.
type step struct {
	time time.Time
	// tone is one of "sent", "failed", "dead", "pending" and "start".
	tone, head, text string
	facts            []string
}

// steps returns a delivery's time line.
func steps(d *view.DeliveryDetail) []step {
	all := []step{{time: d.Routed, tone: "start", head: "Routed", text: "The event was taken for " + taker(d) + "."}}
	for i, a := range d.Tries {
		s := step{time: a.Time, tone: "failed", head: "Attempt " + strconv.Itoa(number(d, i)), text: a.Failure, facts: []string{a.Class}}
		if a.Class == event.ClassSent {
			s.tone, s.text = "sent", "The destination accepted it."
		}
		if a.Status != 0 {
			s.facts = append(s.facts, "HTTP "+strconv.Itoa(a.Status))
		}
		s.facts = append(s.facts, "took "+millis(a.Millis))
		if !a.Next.IsZero() {
			s.facts = append(s.facts, "next try after "+a.Next.Sub(a.Time).Round(time.Second).String())
		}
		all = append(all, s)
	}
	switch d.State {
	case view.StateDead:
		all = append(all, step{time: d.Time, tone: "dead", head: "Given up", text: d.Failure})
	case view.StateSent:
		if n := len(d.Tries); n == 0 || d.Tries[n-1].Class != event.ClassSent {
			all = append(all, step{time: d.Time, tone: "sent", head: "Sent", text: "The destination accepted it."})
		}
	case view.StatePending:
		all = append(all, step{time: d.Next, tone: "pending", head: "Waits", text: "It is tried when its turn comes."})
	}
	return all
}

func taker(d *view.DeliveryDetail) string {
	if d.Alert == "" {
		return "a test of Provider " + d.Provider
	}
	return "Alert " + d.Alert + " and Provider " + d.Provider
}

// number returns the number of the i-th kept attempt. If some of the middle are left out, it counts the second half from the end.
func number(d *view.DeliveryDetail, i int) int {
	if omitted := d.Attempts - len(d.Tries); omitted > 0 && i >= event.MaxTries/2 {
		return i + 1 + omitted
	}
	return i + 1
}
