package page

import (
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// layout returns the whole document of a screen. The namespace and the user are empty if there is none.
func layout(s *screen, namespace, user string) g.Node {
	title := s.title + " · notifier"
	if s.section != "" {
		title = s.title + " · " + namespace + " · notifier"
	}
	return h.Doctype(h.HTML(
		h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.Meta(h.Name("color-scheme"), h.Content("light dark")),
			h.TitleEl(g.Text(title)),
			h.Link(h.Rel("icon"), href(assetURLs["icon.svg"]), h.Type("image/svg+xml")),
			h.Link(h.Rel("stylesheet"), href(assetURLs["page.css"])),
			h.Script(src(assetURLs["page.js"]), h.Defer()),
		),
		h.Body(
			h.Data("watch", string(s.watch)),
			h.A(h.Class("skip"), href(top), g.Text("Skip to content")),
			h.Header(h.Class("bar"), bar(s, namespace, user), g.If(s.section != "", tabs(s, namespace))),
			h.Main(
				h.ID("main"), h.Class("wide"), h.TabIndex("-1"),
				h.Div(h.ID("region"), s.notice.part(), s.main),
			),
			h.P(h.ID("announce"), h.Class("sr"), h.Role("status")),
		),
	))
}

// bar returns the bar with the namespace and the user.
func bar(s *screen, namespace, user string) g.Node {
	return h.Div(
		h.Class("wide"),
		h.A(
			h.Class("brand"), href(home),
			h.Img(src(assetURLs["icon.svg"]), h.Alt(""), h.Width("22"), h.Height("22")), g.Text("notifier"),
		),
		g.If(s.section != "", g.Group{
			h.Span(h.Class("slash"), h.Aria("hidden", "true"), g.Text("/")),
			h.A(h.Class("place"), href(in(namespace, "deliveries")), h.Span(h.Class("sr"), g.Text("Namespace ")), g.Text(namespace)),
		}),
		g.If(user != "", h.Span(h.Class("user"), h.Title(user), h.Span(h.Class("sr"), g.Text("Signed in as ")), g.Text(user))),
		h.Button(h.Class("plain"), h.Type("button"), g.Attr("data-signout"), hidden(), g.Text("Sign out")),
	)
}

// tabs returns the links to the pages of a namespace.
func tabs(s *screen, namespace string) g.Node {
	return h.Nav(
		h.Class("wide tabs"), h.Aria("label", "Namespace"),
		g.Map([]string{"deliveries", "events", "webhooks", "health"}, func(section string) g.Node {
			return h.A(href(in(namespace, section)), g.If(section == s.section, h.Aria("current", "page")), g.Text(label(section)))
		}),
	)
}

// part returns a notice on its page, nothing for a nil notice.
func (n *notice) part() g.Node {
	if n == nil {
		return nil
	}
	class, role := "notice good", "status"
	if n.failed {
		class, role = "notice bad", "alert"
	}
	return h.Div(
		h.Class(class), h.Role(role),
		h.P(g.Text(n.text), g.If(n.link != "", g.Group{g.Text(" "), h.A(href(n.link), g.Text(n.label))})),
		g.If(len(n.lines) > 0, h.Ul(g.Map(n.lines, func(line string) g.Node { return h.Li(g.Text(line)) }))),
	)
}
