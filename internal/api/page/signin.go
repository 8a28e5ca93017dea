package page

import (
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// signinMain returns the form for a token. Its field has no name and its form is hidden: without the script no typed text is sent.
// command makes a token.
func signinMain(refused bool, command string) g.Node {
	return h.Section(
		h.Class("signin"),
		h.H1(h.TabIndex("-1"), g.Text("Sign in")),
		g.If(refused, h.P(h.Class("notice bad"), h.Role("alert"), g.Text(
			"The token was not accepted. It may have expired, be longer than 6 KiB, or be for another cluster.",
		))),
		h.P(g.Text("See what became of your events, deliveries and webhooks, with the rights that you have in Kubernetes.")),
		h.Form(
			g.Attr("data-signin"), hidden(),
			h.Label(h.For("token"), g.Text("Kubernetes token")),
			h.Input(
				h.ID("token"), h.Type("password"), h.AutoComplete("off"), g.Attr("autocapitalize", "off"), g.Attr("spellcheck", "false"),
				h.Required(), h.Aria("describedby", "token-help"),
			),
			h.Button(h.Class("button strong"), h.Type("submit"), g.Text("Sign in")),
			h.P(h.ID("token-help"), h.Class("muted"), g.Text(
				"It stays in the memory of this tab and is gone when you close or reload it. To make one:",
			)),
			h.Pre(h.Class("code"), g.Text(command)),
		),
		h.NoScript(h.P(h.Class("notice wait"), g.Text(
			"Signing in with a token needs JavaScript. Behind a proxy that sends your token, everything works without.",
		))),
	)
}
