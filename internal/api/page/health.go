package page

import (
	"fmt"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"notifier/internal/api"
	"notifier/internal/event/view"
)

// group is the objects of one kind on the health page.
type group struct {
	kind string
	// lack is the advice to show when there are none.
	lack    string
	objects []view.Health
	// test says that the user may test each of them.
	test bool
}

func health(v *visit) (*screen, error) {
	found, err := v.Health(v.ctx(), v.user, v.namespace)
	if err != nil {
		return nil, err
	}
	groups := []group{
		{kind: "Provider", lack: "A Provider says where messages go. Apply one, and an Alert that names it."},
		{kind: "Alert", lack: "An Alert says which events are sent to a Provider. Without one nothing is sent."},
		{kind: "Receiver", lack: "A Receiver takes webhooks and has objects reconciled at once."},
	}
	for i := range groups {
		for _, o := range found {
			if o.Kind == groups[i].kind {
				groups[i].objects = append(groups[i].objects, o)
			}
		}
	}
	groups[0].test = len(groups[0].objects) > 0 && v.may(api.TestRight(""))
	if len(groups[2].objects) == 0 && !v.may(api.ListRight(view.Webhooks)) {
		groups = groups[:2] // the user may not know that there are none
	}
	return &screen{section: "health", title: "Health", main: lazy(func() g.Node { return healthMain(v.place, groups) })}, nil
}

func healthMain(p place, groups []group) g.Node {
	return g.Group{head("Health"), g.Map(groups, p.groupSection)}
}

func (p place) groupSection(of group) g.Node {
	id := "kind-" + of.kind
	columns := []g.Node{column("", g.Text("State")), column("", g.Text("Name"))}
	if of.test {
		columns = append(columns, column("num", h.Span(h.Class("sr"), g.Text("Test"))))
	}
	shown, others := firstRows(of.objects)
	rows := make([]g.Node, len(shown))
	for i, o := range shown {
		rows[i] = row(cell("state", chip(state(o))), p.objectCell(o), g.If(of.test, p.testCell(i, o.Name)))
	}
	content := sheet(columns, rows)
	if len(rows) == 0 {
		content = h.P(h.Class("muted lack"), g.Text("None. "+of.lack))
	}
	return h.Section(
		h.Aria("labelledby", id),
		h.H2(h.ID(id), g.Text(of.kind+"s "), muted(strconv.Itoa(len(of.objects)))),
		content, others,
	)
}

// objectCell returns the name of an object, with a link to its deliveries or webhooks and with its problem.
func (p place) objectCell(o view.Health) g.Node {
	list := "deliveries"
	if o.Kind == "Receiver" {
		list = "webhooks"
	}
	return cell("main", p.filtered(list, strings.ToLower(o.Kind), o.Name), g.If(o.Problem != "", why(o.Problem, !o.Ready)))
}

// testCell returns the offer to test the Provider in the i-th row.
func (p place) testCell(i int, name string) g.Node {
	test := &question{
		id:   "test-" + strconv.Itoa(i),
		head: "Send a test message through " + name + "?", text: "Whoever reads at its destination sees it.",
		to: p.in("providers", name, "test"), yes: "Send test message",
	}
	return cell("num act", test.button("Test…", h.Aria("label", "Test Provider "+name)), test.dialog())
}

// state returns the state of an object in words.
func state(o view.Health) string {
	switch {
	case !o.Ready:
		return "not ready"
	case o.Problem != "":
		return "degraded"
	default:
		return "ready"
	}
}

func toHealth(v *visit) (*screen, error) { return &screen{redirect: v.in("health")}, nil }

// test sends a test message through a Provider, and shows the health page again with a link to the outcome.
func test(v *visit) (*screen, error) {
	name := v.request.PathValue("provider")
	result, err := v.Test(v.ctx(), v.user, v.namespace, view.TestRequest{Provider: name})
	return after(err, &notice{
		text: fmt.Sprintf("A test message is on its way through Provider %s.", name),
		link: v.in("deliveries", result.DeliveryID), label: "See what becomes of it",
	}, func() (*screen, error) { return health(v) })
}
