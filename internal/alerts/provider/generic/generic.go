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
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

const (
	typePlain = "generic"
	typeHMAC  = "generic-hmac"
)

// Types are the Provider types that the package serves.
var Types = []string{typePlain, typeHMAC}

const (
	maxHeaders     = 32       // headers of one Secret
	maxHeaderBytes = 16 << 10 // their names and values together
	maxComponent   = 253      // characters of the reporting controller's name
)

const (
	headerKey       = "Idempotency-Key"
	headerSignature = "X-Signature"
	headerComponent = "Gotk-Component"
)

// reserved are the headers that a Secret does not set: those of it are left out, as an HTTP client would.
var reserved = []string{
	"Connection", "Content-Encoding", "Content-Length", "Expect", "Host", headerKey, "Keep-Alive", "Proxy-Authenticate",
	"Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Via",
}

// Sender sends to one address.
type Sender struct {
	client *provider.Client
	header http.Header
	key    []byte // nil: unsigned
	// ignored are the headers of the Secret that are left out.
	ignored []string
}

// Ignored returns the names of the Secret's headers that are not sent, of a closed set of names.
func (s *Sender) Ignored() []string { return s.ignored }

// New builds a Sender of type generic or generic-hmac; the latter needs a token.
func New(cfg provider.Config) (*Sender, error) {
	s := &Sender{}
	ours := reserved
	var keyErr error
	if cfg.Type == typeHMAC {
		ours = append(slices.Clip(ours), headerSignature)
		if s.key = []byte(cfg.Token); len(s.key) == 0 {
			keyErr = errors.New("generic-hmac needs a token to sign with")
		}
	}
	var headerErr, clientErr error
	s.header, s.ignored, headerErr = header(cfg.Headers, ours)
	s.client, clientErr = provider.NewClient(cfg, provider.ClientOptions{})
	if err := errors.Join(keyErr, headerErr, clientErr); err != nil {
		return nil, err
	}
	return s, nil
}

// header checks the headers of a Secret and leaves out those that are ours, which it returns by name. Its errors name none: a name may be
// part of a value that was badly quoted.
func header(values map[string]string, ours []string) (h http.Header, ignored []string, err error) {
	if len(values) > maxHeaders {
		return nil, nil, errors.New("headers has too many entries")
	}
	h = make(http.Header, len(values))
	size := 0
	for name, value := range values {
		value = strings.TrimSpace(value)
		size += len(name) + len(value)
		canonical := http.CanonicalHeaderKey(name)
		if i := slices.Index(ours, canonical); i >= 0 {
			ignored = append(ignored, ours[i])
			continue
		}
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return nil, nil, errors.New("headers has an entry whose name is not valid")
		case !httpguts.ValidHeaderFieldValue(value):
			return nil, nil, errors.New("headers has an entry whose value is not valid")
		case h[canonical] != nil:
			return nil, nil, errors.New("headers has two entries of one name")
		}
		h[canonical] = []string{value}
	}
	if size > maxHeaderBytes {
		return nil, nil, errors.New("headers is too long")
	}
	slices.Sort(ignored)
	return h, slices.Compact(ignored), nil
}

// Close drops idle connections.
func (s *Sender) Close() error { return s.client.Close() }

// Send posts the notification's event.
func (s *Sender) Send(ctx context.Context, n provider.Notification) error {
	body, err := json.Marshal(n.Event)
	if err != nil {
		return event.NewError(event.Permanent, provider.LabelPayload, "event could not be encoded", err)
	}
	h := http.Header{headerComponent: {component(n.Event.ReportingController)}}
	maps.Copy(h, s.header)
	h[headerKey] = []string{n.DeliveryID}
	if s.key != nil {
		mac := hmac.New(sha256.New, s.key)
		mac.Write(body)
		h[headerSignature] = []string{"sha256=" + hex.EncodeToString(mac.Sum(nil))}
	}
	return s.client.Post(ctx, h, body)
}

// component makes a controller's name, which is outside input, fit for a header.
func component(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, provider.Truncate(name, maxComponent))
}
