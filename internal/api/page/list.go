package page

import (
	"context"
	"fmt"
	"maps"
	"net/url"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"notifier/internal/api"
	"notifier/internal/event/view"
)

// list is one page of a list of a namespace.
type list[T any] struct {
	place
	name  view.List
	items []T
	// filter is that of the page's address.
	filter url.Values
	// here is the page's address without a query. older and first are those of the next and the first page, empty if this page is that
	// one.
	here, older, first address
}

// listed reads the items that the query of an address selects.
func listed[T any](
	v *visit, name view.List, read func(context.Context, *api.User, string, view.Query) (view.Page[T], error),
) (*list[T], error) {
	f, q, err := parseFilter(name, v.values)
	if err != nil {
		return nil, err
	}
	page, err := read(v.ctx(), v.user, v.namespace, q)
	if err != nil {
		return nil, err
	}
	l := &list[T]{place: v.place, name: name, items: page.Items, filter: f, here: v.in(string(name))}
	if q.Cursor != "" {
		l.first = l.here.with(l.filter)
	}
	if page.Next != "" {
		older := maps.Clone(l.filter)
		older.Set("cursor", page.Next)
		l.older = l.here.with(older)
	}
	return l, nil
}

// screen returns the page of a list, which ends with the links to other pages.
func (l *list[T]) screen(main ...g.Node) *screen {
	name := string(l.name)
	s := &screen{title: label(name), section: name, main: g.Group(append(main, l.pager()))}
	if l.first == "" { // an older page has nothing new
		s.watch = watchOf(l.namespace, l.name, l.filter)
	}
	return s
}

// form returns the form that filters the list by fields and by time. What the address has beside them stays in effect.
func (l *list[T]) form(fields ...g.Node) g.Node {
	return h.Form(
		h.Class("filter"), h.Method("get"), action(l.here), h.Role("search"), h.Aria("label", "Filter "+string(l.name)),
		g.Group(fields),
		choice("Since", "since", agesWith(l.filter.Get("since")), l.filter.Get("since")),
		g.Map([]string{"event", "until"}, func(name string) g.Node {
			return g.If(l.filter.Has(name), h.Input(h.Type("hidden"), h.Name(name), h.Value(l.filter.Get(name))))
		}),
		h.Span(
			h.Class("doing"),
			h.Button(h.Class("button"), h.Type("submit"), g.Text("Filter")),
			g.If(len(l.filter) > 0, h.A(h.Class("plain"), href(l.here), g.Text("Clear"))),
		),
	)
}

// field returns a field of a form for a text.
func field(text, name, value string, attributes ...g.Node) g.Node {
	return h.Label(g.Text(text+" "), h.Input(
		h.Name(name), h.Value(value), g.Group(attributes), h.AutoComplete("off"), g.Attr("spellcheck", "false"),
	))
}

// objectField returns the field for an object.
func objectField(value string) g.Node {
	return field("Object", "object", value, h.Placeholder("Kind/name"))
}

// choice returns a field of a form for one of some values.
func choice(text, name string, options []option, selected string) g.Node {
	return h.Label(g.Text(text+" "), h.Select(h.Name(name), g.Map(options, func(o option) g.Node {
		return h.Option(h.Value(o.value), g.If(o.value == selected, h.Selected()), g.Text(o.label))
	})))
}

// table returns the items as a table. Without items it names the older pages if there are any. Otherwise it returns unmatched if a
// filter is active, and none if no filter is.
func (l *list[T]) table(columns []g.Node, row func(T) g.Node, unmatched, none g.Node) g.Node {
	switch {
	case len(l.items) > 0:
		return lazy(func() g.Node { return sheet(columns, g.Map(l.items, row)) })
	case l.older != "":
		return empty("None among those read", g.Text("Nothing on this page matches the filter. Older "+string(l.name)+" may."))
	case len(l.filter) > 0:
		return unmatched
	default:
		return none
	}
}

// mostRows bounds the items of a list that has no pages.
const mostRows = 1000

// firstRows returns the items of such a list that are shown, and a line about the others.
func firstRows[T any](all []T) (shown []T, others g.Node) {
	if len(all) <= mostRows {
		return all, nil
	}
	return all[:mostRows], h.P(h.Class("muted"), g.Text(fmt.Sprintf("And %d more, which the API lists.", len(all)-mostRows)))
}

// empty returns the text for a list without items, with advice.
func empty(headline string, text ...g.Node) g.Node {
	return h.Section(h.Class("empty"), h.H2(g.Text(headline)), h.P(text...))
}

// pager returns the links to the first and the next page.
func (l *list[T]) pager() g.Node {
	if l.first == "" && l.older == "" {
		return nil
	}
	return h.Nav(
		h.Class("pager"), h.Aria("label", "Pages"),
		g.If(l.first != "", h.A(h.Class("button"), href(l.first), g.Text("← Newest"))),
		g.If(l.older != "", h.A(h.Class("button"), href(l.older), h.Rel("next"), g.Text("Older →"))),
	)
}
