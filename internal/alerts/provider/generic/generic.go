package generic

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

const maxComponent = 253 // characters of the reporting controller's name

const (
	headerKey       = "Idempotency-Key"
	headerReplayed  = "Replayed"
	headerSignature = "X-Signature"
	headerComponent = "Gotk-Component"
)

// Sender sends to one address.
type Sender struct {
	*provider.Client
	provider.Headers
	key []byte // nil: unsigned
}

// New returns a Sender of type generic or generic-hmac; the latter needs a token.
func New(cfg provider.Config) (*Sender, error) {
	s := &Sender{}
	ours := []string{headerKey, headerReplayed}
	var keyErr error
	if cfg.Type == "generic-hmac" {
		ours = append(ours, headerSignature)
		if s.key = []byte(cfg.Token); len(s.key) == 0 {
			keyErr = provider.CheckKey("token", "")
		}
	}
	var headerErr, clientErr error
	s.Headers, headerErr = provider.NewHeaders(cfg.Headers, ours...)
	s.Client, clientErr = provider.NewClient(cfg, provider.ClientOptions{TakesPages: true})
	if err := errors.Join(keyErr, headerErr, clientErr); err != nil {
		return nil, err
	}
	return s, nil
}

// Send posts the notification's event.
func (s *Sender) Send(ctx context.Context, n provider.Notification) error {
	body, err := json.Marshal(n.Event)
	if err != nil {
		return event.NewError(event.Permanent, provider.LabelPayload, "event could not be encoded", err)
	}
	h := http.Header{headerComponent: {component(n.Event.ReportingController)}}
	maps.Copy(h, s.Sent)
	h[headerKey] = []string{n.DeliveryID}
	if n.Replayed {
		h[headerReplayed] = []string{"true"}
	}
	if s.key != nil {
		mac := hmac.New(sha256.New, s.key)
		mac.Write(body)
		h[headerSignature] = []string{"sha256=" + hex.EncodeToString(mac.Sum(nil))}
	}
	return s.Post(ctx, provider.Request{Header: h, Body: body})
}

// component returns a controller's name, which is outside input, in a form that is fit for a header.
func component(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, provider.Truncate(name, maxComponent))
}
