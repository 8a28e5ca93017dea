package googlechat

import (
	"net/http"
	"net/url"
	"strings"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/cloudauth"
)

// New returns a Sender to one space, which posts a notification as one card.
func New(cfg provider.Config) (*provider.Client, error) {
	thread := cfg.Channel
	return provider.NewClient(cfg, provider.ClientOptions{
		Word: cloudauth.GoogleStatus, Limit: provider.LimitOn(provider.Limit{Rate: 1, Burst: 1}, "chat.googleapis.com"), // the quota of a space
		Message: func(c *provider.Client, n provider.Notification) (provider.Request, error) {
			body, err := provider.ShrinkJSON(sizes, maxMessage, func(z provider.Size) message { return newMessage(n, thread, z) })
			return provider.Request{URL: addressOf(c, n, thread), Body: body, Header: http.Header{
				"Content-Type": {"application/json; charset=UTF-8"},
			}}, err
		},
	})
}

// addressOf returns the webhook's address with the parameters of one message.
func addressOf(c *provider.Client, n provider.Notification, thread string) *url.URL {
	u := c.URL()
	given, added := u.Query(), url.Values{"requestId": {n.DeliveryID}}
	if thread != "" && !given.Has("messageReplyOption") {
		added.Set("messageReplyOption", "REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD")
	}
	u.RawQuery = strings.TrimPrefix(u.RawQuery+"&"+added.Encode(), "&")
	return u
}
