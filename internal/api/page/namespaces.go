package page

import (
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"notifier/internal/event/view"
)

// namespaces returns the first page: the namespaces of the user.
func namespaces(v *visit) (*screen, error) {
	found, err := v.Namespaces(v.ctx(), v.user)
	if err != nil {
		return nil, err
	}
	return &screen{title: "Namespaces", main: namespacesMain(&found)}, nil
}

func namespacesMain(found *view.Namespaces) g.Node {
	if len(found.Items) == 0 {
		return g.Group{head("Namespaces"), empty(
			"No namespace to show",
			g.Text("You may list deliveries in no namespace that has Providers, Alerts or Receivers. A RoleBinding to the ClusterRole "),
			h.Code(g.Text("view")), g.Text(" in your namespace lets you see; "), h.Code(g.Text("edit")), g.Text(" lets you replay as well."),
		)}
	}
	return g.Group{
		head("Namespaces"),
		h.Ul(h.Class("cards"), g.Map(found.Items, func(name string) g.Node {
			return h.Li(h.A(href(in(name, "deliveries")), g.Text(name)))
		})),
		g.If(found.Incomplete, h.P(
			h.Class("muted"), g.Text("Not all namespaces of the cluster were looked at. Of any other the address is "),
			h.Code(g.Text("/ns/<namespace>/deliveries")), g.Text("."),
		)),
	}
}
