// Package sender builds webhooks as the senders of each Receiver type build them: headers, body and signature. It is
// written from the senders' own documentation and shares no code with the verifiers under test. Where the senders'
// community has a library, the library signs.
package sender

import (
	"crypto/hmac"
	"crypto/rand"
	"encoding/hex"
	"hash"
	"net/http"
)

// Webhook is one request without its address.
type Webhook struct {
	Header http.Header
	Body   string
}

// With returns a copy with a header replaced, or removed if the value is empty.
func (w Webhook) With(name, value string) Webhook {
	w.Header = w.Header.Clone()
	if value == "" {
		w.Header.Del(name)
	} else {
		w.Header.Set(name, value)
	}
	return w
}

// WithBody returns a copy with another body under the same headers.
func (w Webhook) WithBody(body string) Webhook {
	w.Body = body
	return w
}

// webhook makes a request from pairs of header names and values.
func webhook(body string, headers ...string) Webhook {
	h := http.Header{"Content-Type": {"application/json"}}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return Webhook{h, body}
}

// Generic sends a body to an address that is the secret.
func Generic(body string) Webhook { return webhook(body) }

// GenericHMAC signs the body with one of sha1, sha256 and sha512.
func GenericHMAC(token, algorithm, body string) Webhook {
	return webhook(body, "X-Signature", algorithm+"="+sign(hashes[algorithm], token, body))
}

// sign returns the hex digits of an HMAC.
func sign(algorithm func() hash.Hash, token, body string) string {
	mac := hmac.New(algorithm, []byte(token))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

// delivery returns a unique ID.
func delivery() string { return rand.Text() }
