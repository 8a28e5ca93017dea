package googlepubsub

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

const (
	// keyAudience is the API that a self-signed JWT is for (AIP-4111).
	keyAudience = "https://pubsub.googleapis.com/"
	keyLife     = time.Hour
	// keyReuse is how long a JWT is used before a new one is signed.
	keyReuse = keyLife / 2
	// keySkew is the time by which Google's clock may be behind.
	keySkew = time.Minute
)

// key is the key of a service account.
type key struct {
	email  string
	signer jose.Signer

	mu     sync.Mutex
	header string
	signed time.Time
}

var errKey = errors.New("the Secret's key token is not the key of a service account in JSON, " +
	"with client_email, private_key_id and private_key, of at most 4,096 bits")

// newKey parses a key file.
func newKey(file []byte) (*key, error) {
	var f struct {
		Type  string `json:"type"`
		Email string `json:"client_email"`
		ID    string `json:"private_key_id"`
		Key   string `json:"private_key"`
	}
	if json.Unmarshal(file, &f) != nil || f.Email == "" {
		return nil, errKey
	}
	if f.Type != "service_account" {
		return nil, errors.New("the Secret's key token is a credential of another type than service_account; " +
			"use spec.serviceAccountName for workload identity")
	}
	private, ok := provider.ParseRSAKey(f.Key)
	if !ok {
		return nil, errKey
	}
	options := (&jose.SignerOptions{}).WithType("JWT").WithHeader(jose.HeaderKey("kid"), f.ID)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: private}, options)
	if err != nil {
		return nil, errKey
	}
	return &key{email: f.Email, signer: signer}, nil
}

// authorization returns the header that sends a JWT. It signs a new one after keyReuse: a signature takes a millisecond of a processor,
// ten times as long as the rest of a send.
func (k *key) authorization(context.Context) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if k.header != "" && now.Sub(k.signed) < keyReuse {
		return k.header, nil
	}
	from := now.Add(-keySkew)
	token, err := jwt.Signed(k.signer).Claims(map[string]any{
		"iss": k.email, "sub": k.email, "aud": keyAudience, "iat": from.Unix(), "exp": from.Add(keyLife).Unix(),
	}).Serialize()
	if err != nil {
		return "", event.NewError(event.Permanent, provider.LabelPayload, "the login could not be signed", err)
	}
	k.header, k.signed = "Bearer "+token, now
	return k.header, nil
}
