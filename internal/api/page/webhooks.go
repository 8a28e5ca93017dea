package page

import (
	"fmt"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"notifier/internal/event/view"
)

func webhooks(v *visit) (*screen, error) {
	l, err := listed(v, view.Webhooks, v.Webhooks)
	if err != nil {
		return nil, err
	}
	return l.screen(
		head("Webhooks", live()),
		l.form(field("Receiver", "receiver", l.filter.Get("receiver"))),
		l.table(
			[]g.Node{
				column("", g.Text("Result")), column("", g.Text("Receiver")), column("to", g.Text("Asked to reconcile")), column("num", g.Text("Time")),
			},
			l.place.webhookRow,
			empty(
				"No webhook matches", g.Text("Widen the filter, or see on "), h.A(href(l.in("health")), g.Text("Health")),
				g.Text(" whether there is a Receiver of that name."),
			),
			empty(
				"No webhooks yet", g.Text("Give the path in the status of a Receiver to your Git host: "),
				h.Code(g.Text("kubectl get receivers -n "+l.namespace)), g.Text(" shows it. What comes in, and what is refused, is listed here."),
			),
		),
	), nil
}

func (p place) webhookRow(w view.Webhook) g.Node {
	return row(
		cell("state", chip(w.Result), g.If(w.Count > 1, g.Group{g.Text(" "), mutedLine(fmt.Sprintf("%d×", w.Count))})),
		cell(
			"main",
			h.B(g.Text(w.Receiver)),
			g.If(w.ID != "", g.Group{g.Text(" "), reason(clip(w.ID))}),
			g.If(w.Reason != "", why(clip(w.Reason), false)),
		),
		cell(
			"to",
			g.Map(w.Targets, func(target string) g.Node { return g.Group{h.Span(h.Class("target"), g.Text(target)), g.Text(" ")} }),
			g.If(len(w.Targets) == 0, muted("nothing")),
		),
		cell("num when", p.ago(w.Time)),
	)
}
