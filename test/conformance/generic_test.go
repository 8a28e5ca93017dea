package conformance

import (
	"strings"
	"time"

	"notifier/test/sender"
)

// Signing secrets of Standard Webhooks.
const (
	signingToken      = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	otherSigningToken = "whsec_plJ3nmyCDGBKInavdOK15jsl3nmyCDGB"
)

// zeros returns n digits that are no valid signature.
func zeros(n int) string { return strings.Repeat("0", n) }

// capitals returns a webhook with a header in capitals.
func capitals(w sender.Webhook, name string) sender.Webhook {
	return w.With(name, strings.ToUpper(w.Header.Get(name)))
}

func generic(*fixture) kind {
	return unsigned(kind{
		accepted: map[string]sender.Webhook{
			"JSON": sender.Generic("{}"), "nothing": sender.Generic("").With("Content-Type", ""), "text": sender.Generic("now").With("Content-Type", "text/plain"),
		},
		sized: sender.Generic,
	})
}

func genericHMAC(*fixture) kind {
	signed := sender.GenericHMAC(token, "sha256", "{}")
	return kind{
		secret: map[string]string{"token": token},
		accepted: map[string]sender.Webhook{
			"SHA-256": signed, "SHA-1": sender.GenericHMAC(token, "sha1", "{}"), "SHA-512": sender.GenericHMAC(token, "sha512", "text"),
		},
		refused: map[string]refusal{
			"signed with another token": {sender.GenericHMAC("other", "sha256", "{}"), badSignature},
			"signed with no token":      {sender.GenericHMAC("", "sha256", "{}"), badSignature},
			"signed for another body":   {signed.WithBody("[]"), badSignature},
			"not signed":                {signed.With("X-Signature", ""), noSignature},
			"of another algorithm":      {signed.With("X-Signature", "md5="+zeros(32)), "signature algorithm not supported"},
			"cut short":                 {signed.With("X-Signature", "sha256="+zeros(40)), malformed},
		},
		sized: func(body string) sender.Webhook { return sender.GenericHMAC(token, "sha256", body) },
	}
}

func standardWebhooks(*fixture) kind {
	const paid = `{"type":"release.published","timestamp":"2026-11-21T12:00:00Z","data":{"name":"app"}}`
	signed := sender.StandardWebhooks(signingToken, paid)
	return kind{
		secret: map[string]string{"token": signingToken}, events: []string{"release.published"},
		accepted: map[string]sender.Webhook{
			"signed":               signed,
			"signed with two keys": twoSignatures(sender.StandardWebhooks(signingToken, paid)),
		},
		repeats: true,
		refused: map[string]refusal{
			"signed with another secret":  {sender.StandardWebhooks(otherSigningToken, paid), badSignature},
			"signed for another body":     {signed.WithBody("{}"), badSignature},
			"not signed":                  {signed.With("webhook-signature", ""), noSignature},
			"without an ID":               {signed.With("webhook-id", ""), "webhook-id or webhook-timestamp missing"},
			"with another ID":             {signed.With("webhook-id", "msg_other"), badSignature},
			"signed ten minutes ago":      {sender.StandardWebhooksAt(signingToken, paid, time.Now().Add(-10*time.Minute)), "webhook-timestamp is more than 5 minutes away"},
			"signed for in ten minutes":   {sender.StandardWebhooksAt(signingToken, paid, time.Now().Add(10*time.Minute)), "webhook-timestamp is more than 5 minutes away"},
			"an event that is not listed": {sender.StandardWebhooks(signingToken, `{"type":"release.deleted"}`), notListed},
			"no event":                    {sender.StandardWebhooks(signingToken, "text"), notListed},
		},
		sized: func(body string) sender.Webhook { return sender.StandardWebhooks(signingToken, body) },
	}
}

// twoSignatures puts a signature of another key before the webhook's own, as a sender does while it rotates its keys.
func twoSignatures(w sender.Webhook) sender.Webhook {
	const name = "webhook-signature"
	other := sender.StandardWebhooks(otherSigningToken, w.Body).Header.Get(name)
	return w.With(name, other+" "+w.Header.Get(name))
}
