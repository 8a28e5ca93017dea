package page

import (
	"fmt"
	"net/url"
	"slices"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"notifier/internal/event/view"
)

func explain(v *visit) (*screen, error) {
	e, err := v.Explain(v.ctx(), v.user, v.namespace, v.request.PathValue("id"))
	if err != nil {
		return nil, err
	}
	object := e.Event.Object.String()
	return &screen{
		section: "events", title: object, watch: watchOf(v.namespace, view.Deliveries, url.Values{"object": {object}}),
		main: eventMain(v.place, &e),
	}, nil
}

func eventMain(p place, x *view.Explanation) g.Node {
	e := &x.Event
	return g.Group{
		back(p.in("events"), "Events"),
		head(e.Object.String(), chip(e.Severity), live()),
		h.Dl(
			h.Class("facts"),
			fact("Reason", g.Text(e.Reason)),
			fact("Happened", p.exact(e.Time)),
			fact("Came in", g.Text(label(e.Source))),
			idFact("Event ID", e.ID),
		),
		h.Div(
			h.Class("two"),
			decisions(p, x.Decisions),
			section("message", "The event", message(e, "Text of the event", nil)),
		),
	}
}

// decisions returns the decisions of the Alerts, those that match first.
func decisions(p place, all []view.Decision) g.Node {
	if len(all) == 0 {
		return section("alerts", "No Alert to take it", h.P(
			g.Text("This namespace has no Alert. Apply one that names the object under "),
			h.Code(g.Text("spec.eventSources")), g.Text(" and a Provider."),
		))
	}
	taken := slices.DeleteFunc(slices.Clone(all), func(d view.Decision) bool { return !d.Matched })
	others := slices.DeleteFunc(slices.Clone(all), func(d view.Decision) bool { return d.Matched })
	shown, more := firstRows(slices.Concat(taken, others))
	return section(
		"alerts", fmt.Sprintf("Taken by %d of %s", len(taken), count(len(all), "Alert", "Alerts")),
		h.Ul(h.Class("decisions"), g.Map(shown, p.decisionItem)), more,
	)
}

func (p place) decisionItem(d view.Decision) g.Node {
	item, tone, says := "", "calm", "Not matched"
	if d.Matched {
		item, tone, says = "taken", "good", "Matched"
	}
	return h.Li(
		h.Class(item),
		h.P(
			h.Class("step"),
			h.B(g.Text(d.Alert)), g.Text(" "), muted("to "+d.Provider), g.Text(" "), h.Span(h.Class("chip "+tone), g.Text(says)),
		),
		h.P(h.Class("text"), g.If(d.Field != "", g.Group{h.Code(g.Text(d.Field)), g.Text(" ")}), g.Text(d.Why)),
		p.outcome(&d),
	)
}

// outcome returns the state of a decision's delivery.
func (p place) outcome(d *view.Decision) g.Node {
	switch {
	case d.Delivery != nil:
		return h.P(
			h.Class("text"),
			chip(d.Delivery.State), g.Text(" "), p.ago(d.Delivery.Time), g.Text(" "),
			h.A(href(p.in("deliveries", d.Delivery.ID)), g.Text("See the delivery")),
			failure(d.Delivery, false),
		)
	case d.Matched:
		return h.P(h.Class("muted"), g.Text(
			"Nothing is kept of a delivery: it was not tried yet, the Alert was made or changed after the event, or it is too long ago.",
		))
	default:
		return nil
	}
}
