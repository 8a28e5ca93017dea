package page

import (
	"io"
	"maps"
	"slices"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"notifier/internal/event"
	"notifier/internal/event/view"
)

// place is the namespace and the time of a page.
type place struct {
	namespace string
	now       time.Time
}

// in returns the address of a page of the namespace.
func (p place) in(parts ...string) address { return in(p.namespace, parts...) }

// ago returns a time relative to now.
func (p place) ago(t time.Time) g.Node {
	if t.IsZero() {
		return muted("–")
	}
	return h.Time(h.DateTime(t.UTC().Format(time.RFC3339)), h.Title(full(t)), g.Text(relative(p.now, t)))
}

// exact returns a time, relative to now and in full.
func (p place) exact(t time.Time) g.Node {
	if t.IsZero() {
		return p.ago(t)
	}
	return g.Group{p.ago(t), g.Text(" "), mutedLine(full(t))}
}

// chip returns a word of the API in its colour.
func chip[S ~string](word S) g.Node {
	return h.Span(h.Class("chip "+tone(word)), g.Text(label(word)))
}

// muted returns a less important text beside another. mutedLine returns one without line breaks.
func muted(text string) g.Node { return h.Span(h.Class("muted"), g.Text(text)) }

func mutedLine(text string) g.Node { return h.Span(h.Class("muted nowrap"), g.Text(text)) }

// why returns a reason, as a line of its own. bad marks it as a fault.
func why(text string, bad bool) g.Node {
	class := "why"
	if bad {
		class = "why bad"
	}
	return h.Span(h.Class(class), g.Text(text))
}

// hidden returns the attribute of elements that only the script shows.
func hidden() g.Node { return g.Attr("hidden") }

// head returns the headline of a page, with the elements beside it.
func head(title string, beside ...g.Node) g.Node {
	return h.Div(h.Class("head"), h.H1(h.TabIndex("-1"), g.Text(title)), g.Group(beside))
}

// live returns the place where the script shows whether the page renews itself.
func live() g.Node { return h.Span(h.Class("live"), g.Attr("data-live"), hidden(), g.Text("Live")) }

// back returns the link from an item to its list.
func back(to address, text string) g.Node {
	return h.P(h.Class("back"), h.A(href(to), g.Text("← "+text)))
}

// fact returns one property of an item.
func fact(name string, value ...g.Node) g.Node { return h.Div(h.Dt(g.Text(name)), h.Dd(value...)) }

// idFact returns the fact of an item's ID.
func idFact(name, id string) g.Node {
	return h.Div(h.Class("id"), h.Dt(g.Text(name)), h.Dd(h.Code(g.Text(id))))
}

// section returns a part of a page with a headline, whose ID is id.
func section(id, headline string, children ...g.Node) g.Node {
	return h.Section(h.Aria("labelledby", id), h.H2(h.ID(id), g.Text(headline)), g.Group(children))
}

// message returns the text of an event with its metadata, in the colour of its severity. It marks the keys whose values the Alert's author
// wrote. A screen reader announces the text as name.
func message(e *view.Event, name string, authored []string, above ...g.Node) g.Node {
	text := event.Truncate(e.Message, maxMessage, "…")
	return h.Article(
		h.Class("message "+tone(e.Severity)),
		g.Group(above),
		h.Div(h.Class("body"), h.TabIndex("0"), h.Role("group"), h.Aria("label", name), h.Dir("auto"), g.Text(text)),
		g.If(text != e.Message, h.P(h.Class("muted"), g.Text("This is the beginning of the text. The API has all of it."))),
		g.If(len(e.Metadata) > 0, h.Dl(h.Class("meta"), g.Map(slices.Sorted(maps.Keys(e.Metadata)), func(key string) g.Node {
			return h.Div(
				h.Dt(g.Text(key), g.If(slices.Contains(authored, key), g.Group{g.Text(" "), muted("from the Alert")})),
				h.Dd(g.Text(e.Metadata[key])),
			)
		}))),
	)
}

// question is a dialog that asks the user to confirm an action.
type question struct {
	// id is the ID of the dialog, which a button of [question.button] opens.
	id, head, text string
	// to is the address that the form is sent to when the user confirms.
	to  address
	yes string
}

// button returns the button that opens the dialog.
func (q *question) button(text string, attributes ...g.Node) g.Node {
	return h.Button(h.Class("button"), h.Type("button"), h.PopoverTarget(q.id), g.Group(attributes), g.Text(text))
}

// dialog returns the dialog.
func (q *question) dialog() g.Node {
	return h.Div(
		h.ID(q.id), h.Class("confirm"), h.Popover(), h.Role("dialog"), h.Aria("labelledby", q.id+"-head"),
		h.H2(h.ID(q.id+"-head"), g.Text(q.head)),
		h.P(g.Text(q.text)),
		h.Form(
			h.Method("post"), action(q.to),
			h.Span(
				h.Class("doing"),
				h.Button(h.Class("button strong"), h.Type("submit"), h.AutoFocus(), g.Text(q.yes)),
				h.Button(h.Class("plain"), h.Type("button"), h.PopoverTarget(q.id), h.PopoverTargetAction("hide"), g.Text("Cancel")),
			),
		),
	)
}

// lazy is a node of very many others, made when it is written, in the user's turn.
type lazy func() g.Node

// Render implements [g.Node].
func (l lazy) Render(w io.Writer) error { return l().Render(w) }

// sheet returns a table. The roles are those of the elements, and explicit. On a small screen the style sheet shows the elements as
// blocks, and an element without the display of a table loses its role.
func sheet(columns, rows []g.Node) g.Node {
	return h.Div(h.Class("sheet"), h.Table(
		h.Role("table"),
		h.THead(h.Role("rowgroup"), h.Tr(h.Role("row"), g.Group(columns))),
		h.TBody(h.Role("rowgroup"), g.Group(rows)),
	))
}

// column returns the head of a column, with a class unless it is empty.
func column(class string, children ...g.Node) g.Node {
	return h.Th(h.Role("columnheader"), g.Attr("scope", "col"), g.If(class != "", h.Class(class)), g.Group(children))
}

func row(children ...g.Node) g.Node { return h.Tr(h.Role("row"), g.Group(children)) }

func cell(class string, children ...g.Node) g.Node {
	return h.Td(h.Role("cell"), h.Class(class), g.Group(children))
}
