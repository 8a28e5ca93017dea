package mastodon

import (
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"notifier/internal/alerts/provider"
)

// New returns a Sender to one account, which posts a notification as one status. A token is required.
func New(cfg provider.Config) (*provider.Client, error) {
	return provider.NewClient(cfg, provider.ClientOptions{
		Login: provider.TokenIn("Authorization", "Bearer "), Word: word, Wait: wait,
		Message: func(c *provider.Client, n provider.Notification) (provider.Request, error) {
			return provider.Request{
				URL: endpoint(c.URL()), Header: http.Header{"Idempotency-Key": {n.DeliveryID}}, JSON: map[string]string{"status": text(n)},
			}, nil
		},
	})
}

const method = "/api/v1/statuses"

// endpoint returns the address of the method that posts. The given address may be that already.
func endpoint(u *url.URL) *url.URL {
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	if strings.HasSuffix(u.Path, method) {
		return u
	}
	return u.JoinPath(method)
}

const (
	maxStatus = 500 // characters as Mastodon counts them
	maxObject = 120
	// more is by how much a URL may count more than its characters: Mastodon counts it as 23, and the shortest has ten.
	more = 13
	// least is the length of a text that is not too long however many URLs it has: with a space behind each there are 18.
	least = 200
)

// sizes are in characters. With the first nothing is cut that fits, with the others the message makes space for metadata.
var sizes = []provider.Size{{maxStatus, maxStatus}, {440, 250}, {360, 150}, {280, 100}, {200, 50}}

// text returns the notification with as much of the event as fits.
func text(n provider.Notification) string {
	s := provider.Truncate(provider.Shrink(sizes, maxStatus, count, func(s provider.Size) string { return compose(n, s) }), maxStatus)
	return provider.Truncate(s, max(maxStatus-more*urls(s), least))
}

// count returns the most that Mastodon may count of a text.
func count(s string) int { return utf8.RuneCountInString(s) + more*urls(s) }

// urls returns the number of URLs in a text, or a greater one.
func urls(s string) int { return strings.Count(s, "://") }

func compose(n provider.Notification, size provider.Size) string {
	e := n.Event
	var b strings.Builder
	b.WriteString(provider.BySeverity(e, "💫 ", "🚨 ") + provider.FitRunes(e.InvolvedObject.String(), maxObject, escape))
	if m := strings.TrimSpace(e.Message); m != "" {
		b.WriteString("\n" + provider.FitRunes(m, size.Message, escape))
	}
	separator := "\n\n"
	for _, f := range provider.Facts(n, size.Fact) {
		markup := f.Markup(escape, provider.ReplaceControls)
		b.WriteString(separator + provider.FitRunes(f.Name, size.Fact, markup) + ": " + provider.FitRunes(f.Value, size.Fact, markup))
		separator = "\n"
	}
	return strings.TrimSpace(b.String())
}

// escape returns s as text that notifies nobody.
func escape(s string) string { return provider.BreakMentions(provider.ReplaceControls(s)) }

// word returns the part of a refusal's answer that is shown: an error that Mastodon may answer to a post.
var word = provider.WordAt("error",
	"Record not found", "The access token expired", "The access token is invalid", "The access token was revoked",
	"This action is not allowed", "This action is outside the authorized scopes", "This method requires an authenticated user",
	"Too many requests",
	"Validation failed: Text can't be blank", "Validation failed: Text character limit of 500 exceeded",
	"Your login is currently disabled", "Your login is currently pending approval", "Your login is missing a confirmed e-mail address",
)

// wait returns the time until Mastodon takes posts again, if the answer is 429.
func wait(status int, header http.Header, _ []byte) (time.Duration, bool) {
	limited := status == http.StatusTooManyRequests
	reset, err := time.Parse(time.RFC3339, header.Get("X-RateLimit-Reset"))
	if err != nil {
		return 0, limited
	}
	return time.Until(reset), limited
}
