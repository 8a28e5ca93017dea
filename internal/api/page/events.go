package page

import (
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"notifier/internal/event/view"
)

func events(v *visit) (*screen, error) {
	l, err := listed(v, view.Events, v.Events)
	if err != nil {
		return nil, err
	}
	return l.screen(
		head("Events", live()),
		l.form(objectField(l.filter.Get("object"))),
		l.table(
			[]g.Node{column("", g.Text("Severity")), column("", g.Text("Event")), column("num", g.Text("Time"))}, l.place.eventRow,
			empty("No event matches", g.Text("Widen the filter. An object is written as Kind/name, such as Kustomization/app.")),
			empty(
				"No events yet",
				g.Text("An event comes when a Flux object in this namespace becomes ready or fails, or when its controller posts one."),
			),
		),
	), nil
}

func (p place) eventRow(e view.Event) g.Node {
	return row(
		h.Data("item", e.ID),
		cell("state", chip(e.Severity)),
		cell(
			"main",
			h.A(h.ID("e-"+e.ID), h.Class("row"), href(p.in("events", e.ID)), g.Text(e.Object.String())), g.Text(" "), reason(e.Reason),
			h.Span(h.Class("why"), h.Dir("auto"), g.Text(clip(e.Message))),
		),
		cell("num when", p.ago(e.Time)),
	)
}
