package page

import (
	"fmt"
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"notifier/internal/api"
	"notifier/internal/event/view"
)

func toDeliveries(v *visit) (*screen, error) {
	return &screen{redirect: v.in("deliveries").with(v.values)}, nil
}

func deliveries(v *visit) (*screen, error) {
	l, err := listed(v, view.Deliveries, v.Deliveries)
	if err != nil {
		return nil, err
	}
	// A request to replay names no object and no event, and the form no end of time.
	f := l.filter
	dead := view.State(f.Get("state")) == view.StateDead
	var replay *question
	if dead && f.Has("provider") && !f.Has("object") && !f.Has("event") && !f.Has("until") && len(l.items) > 0 && v.may(api.ReplayDeliveries) {
		replay = replayQuestion(l)
	}
	return l.screen(
		head("Deliveries", live(), g.Iff(replay != nil, func() g.Node { return replay.button("Replay all dead…") })),
		l.form(
			choice("State", "state", states, f.Get("state")),
			field("Provider", "provider", f.Get("provider")), field("Alert", "alert", f.Get("alert")), objectField(f.Get("object")),
		),
		g.Iff(replay != nil, func() g.Node { return replay.dialog() }),
		deliveryTable(l),
		g.If(dead && !f.Has("provider") && len(l.items) > 0, h.P(
			h.Class("muted"), g.Text("Filter by a Provider to replay all of its dead deliveries at once."),
		)),
	), nil
}

// replayQuestion returns the offer to replay the dead deliveries of a Provider that the filter selects.
func replayQuestion(l *list[view.Delivery]) *question {
	provider, alert, since := l.filter.Get("provider"), l.filter.Get("alert"), l.filter.Get("since")
	text := "They are sent again in order, with the IDs that they had"
	if alert != "" {
		text += ", only those of Alert " + alert
	}
	if since != "" {
		text += ", only those since " + since
	}
	return &question{
		id:   "replay-all",
		head: "Replay all dead deliveries of Provider " + provider + "?",
		text: fmt.Sprintf("%s. At most %d at a time.", text, view.MaxReplay),
		to:   l.in("deliveries", "replay").with(l.filter), yes: "Replay all",
	}
}

func deliveryTable(l *list[view.Delivery]) g.Node {
	columns := []g.Node{
		column("", g.Text("State")), column("", g.Text("Event")), column("to", g.Text("To")), column("num", g.Text("Attempts")),
		column("num", g.Text("Time")),
	}
	return l.table(
		columns, l.place.deliveryRow,
		empty(
			"No delivery matches", g.Text("Widen the filter, or look at "), h.A(href(l.in("events")), g.Text("events")),
			g.Text(": an event page says which Alerts took it, and why others did not."),
		),
		empty(
			"No deliveries yet", g.Text("An event that an Alert takes becomes a delivery to its Provider. See on "),
			h.A(href(l.in("health")), g.Text("Health")), g.Text(" whether there are Alerts and Providers, and send a test message there."),
		),
	)
}

func (p place) deliveryRow(d view.Delivery) g.Node {
	by, unit := "as a test", " attempts"
	if d.Alert != "" {
		by = "by Alert " + d.Alert
	}
	if d.Attempts == 1 {
		unit = " attempt"
	}
	return row(
		h.Data("item", d.ID+"/"+string(d.State)),
		cell("state", chip(d.State)),
		cell(
			"main",
			h.A(h.ID("d-"+d.ID), h.Class("row"), href(p.in("deliveries", d.ID)), g.Text(d.Object.String())), g.Text(" "), reason(d.Reason),
			failure(&d, d.State == view.StateDead),
		),
		cell("to", h.Span(g.Text(d.Provider)), g.Text(" "), muted(by)),
		cell(
			"num tries",
			g.Text(strconv.Itoa(d.Attempts)), h.Span(h.Class("unit"), g.Text(unit)),
			g.If(d.Replays != 0, g.Group{g.Text(" "), mutedLine(fmt.Sprintf("replayed %d×", d.Replays))}),
		),
		cell("num when", p.ago(d.Time), g.If(!d.Next.IsZero(), g.Group{
			g.Text(" "), h.Span(h.Class("muted nowrap"), g.Text("next "), p.ago(d.Next)),
		})),
	)
}

// reason returns the reason of an event, beside its object.
func reason(text string) g.Node { return h.Span(h.Class("reason"), g.Text(text)) }

// failure returns the failure of an unsent delivery, cut to the length for a list.
func failure(d *view.Delivery, bad bool) g.Node {
	return g.If(d.Failure != "" && d.State != view.StateSent, why(clip(d.Failure), bad))
}
