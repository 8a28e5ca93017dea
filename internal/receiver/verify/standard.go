package verify

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"notifier/internal/receiver/answer"
)

// signingPrefix marks a symmetric signing secret of the Standard Webhooks specification.
const signingPrefix = "whsec_"

// signingWindow is the greatest difference between a signature's time and ours, either way. Within it a request can be
// replayed.
const signingWindow = 5 * time.Minute

// The refusals of Standard Webhooks' headers.
const (
	refusedNoStamp   answer.Refusal = "webhook-id or webhook-timestamp missing"
	refusedID        answer.Refusal = "webhook-id malformed"
	refusedTimestamp answer.Refusal = "webhook-timestamp malformed"
	refusedWindow    answer.Refusal = "webhook-timestamp is more than 5 minutes away"
)

var errSigningSecret = errors.New("token is no signing secret of Standard Webhooks, which is base64 with or without the prefix " + signingPrefix)

// newStandard returns the check of requests that are signed with HMAC-SHA256 as the Standard Webhooks specification
// defines. Asymmetric signatures beside it do not count. It decodes the signing secret itself: the library accepts an empty
// key, with which everybody can sign.
func newStandard(secret []byte) (begin, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(string(secret), signingPrefix))
	if err != nil || len(key) == 0 {
		return nil, errSigningSecret // and not err, which would quote the secret
	}
	webhook, err := standardwebhooks.NewWebhookRaw(key)
	return func(_ context.Context, h http.Header) (Check, error) {
		if err := checkStandardHeaders(h); err != nil {
			return nil, err
		}
		return standardCheck{webhook, h}, nil
	}, err
}

// checkStandardHeaders makes the checks that the library omits, or makes only with the body. The signature covers
// "id.timestamp.body". So a dot in the ID or the timestamp would let a sender's text move from one part to another, and a
// timestamp must have one spelling.
func checkStandardHeaders(h http.Header) error {
	id, timestamp := h.Get(standardwebhooks.HeaderWebhookID), h.Get(standardwebhooks.HeaderWebhookTimestamp)
	signatures := h.Get(standardwebhooks.HeaderWebhookSignature)
	switch {
	case signatures == "":
		return refusedNoSignature
	case id == "" || timestamp == "":
		return refusedNoStamp
	case strings.Contains(id, "."):
		return refusedID
	case !strings.Contains(" "+signatures, " v1,"):
		return refusedAlgorithm
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != timestamp {
		return refusedTimestamp
	}
	if now, at := time.Now(), time.Unix(seconds, 0); at.Before(now.Add(-signingWindow)) || at.After(now.Add(signingWindow)) {
		return refusedWindow
	}
	return nil
}

// standardCheck is the Check of a signed request, whose headers are already checked.
type standardCheck struct {
	webhook *standardwebhooks.Webhook
	headers http.Header
}

func (standardCheck) Write(p []byte) (int, error) { return len(p), nil }

func (c standardCheck) Finish(body []byte) (RawClaims, error) {
	if c.webhook.VerifyIgnoringTimestamp(body, c.headers) != nil {
		return nil, refusedMismatch
	}
	return nil, nil
}
