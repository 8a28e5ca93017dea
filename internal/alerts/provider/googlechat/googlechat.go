package googlechat

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/cloudauth"
)

// Sender sends to one space.
type Sender struct {
	*provider.Client
	thread string
}

// New returns a Sender.
func New(cfg provider.Config) (*Sender, error) {
	client, err := provider.NewClient(cfg, provider.ClientOptions{
		Word: cloudauth.GoogleStatus, Limit: provider.LimitOn(provider.Limit{Rate: 1, Burst: 1}, "chat.googleapis.com"), // the quota of a space
	})
	if err != nil {
		return nil, err
	}
	return &Sender{Client: client, thread: cfg.Channel}, nil
}

// Send posts the notification as one card.
func (s *Sender) Send(ctx context.Context, n provider.Notification) error {
	body, err := provider.ShrinkJSON(sizes, maxMessage, func(z provider.Size) message { return s.message(n, z.Message, z.Fact) })
	if err != nil {
		return err
	}
	return s.Post(ctx, provider.Request{URL: s.url(n.DeliveryID), Body: body, Header: http.Header{
		"Content-Type": {"application/json; charset=UTF-8"},
	}})
}

// url returns the webhook's address with the parameters of one message.
func (s *Sender) url(deliveryID string) *url.URL {
	u := s.URL()
	given, added := u.Query(), url.Values{"requestId": {deliveryID}}
	if s.thread != "" && !given.Has("messageReplyOption") {
		added.Set("messageReplyOption", "REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD")
	}
	u.RawQuery = strings.TrimPrefix(u.RawQuery+"&"+added.Encode(), "&")
	return u
}
