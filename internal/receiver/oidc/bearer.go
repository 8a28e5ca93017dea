package oidc

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	jose "github.com/go-jose/go-jose/v4"

	"notifier/internal/receiver/answer"
	"notifier/internal/receiver/limit"
)

// maxBearer bounds a token in bytes. Tokens of Git hosts and clouds have one or two thousand.
const maxBearer = 16 << 10

// maxTries bounds the keys that one token is tried with. An issuer with more possible keys names the key in its tokens.
const maxTries = 4

// The refusals of signed tokens.
const (
	RefusedNoToken   answer.Refusal = "token missing"
	RefusedAlgorithm answer.Refusal = "signature algorithm not supported"
	RefusedBearer    answer.Refusal = "token malformed"
	RefusedIssuer    answer.Refusal = "token of another issuer"
	RefusedKey       answer.Refusal = "token signed with a key that its issuer does not list"
	RefusedSigned    answer.Refusal = "token signature mismatch"
	RefusedExpired   answer.Refusal = "token expired"
	RefusedClaims    answer.Refusal = "token is not for this audience, or not valid yet"
)

// Token returns the token of the header Authorization. It has three parts of base64, like every JSON Web Token.
func Token(h http.Header) (string, error) {
	scheme, token, _ := strings.Cut(h.Get("Authorization"), " ")
	token = strings.TrimSpace(token) // RFC 9110 allows several spaces between the two
	switch {
	case !strings.EqualFold(scheme, "Bearer") || token == "":
		return "", RefusedNoToken
	case len(token) > maxBearer, strings.Count(token, ".") != 2:
		return "", RefusedBearer
	}
	return token, nil
}

// ClaimedIssuer returns the issuer that a token claims. Nothing of it is proven.
func ClaimedIssuer(token string) (string, error) {
	_, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	data, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return "", RefusedBearer
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(data, &claims) != nil {
		return "", RefusedBearer
	}
	return claims.Issuer, nil
}

// bringsKey reports whether the header of a token has a key, or is no header. A key there proves nothing, but the library parses it before any
// signature is checked, and computes for minutes with a private one.
func bringsKey(token string) bool {
	encoded, _, _ := strings.Cut(token, ".")
	data, err := base64.RawURLEncoding.DecodeString(encoded)
	var header map[string]json.RawMessage
	if err != nil || json.Unmarshal(data, &header) != nil {
		return true
	}
	_, found := header["jwk"]
	return found
}

// Demand is the condition on a token: it is of the issuer with this URL, for the audience. With AnyIssuer the caller checks the claim
// "iss". The issuer's keys are fetched on behalf of the namespace.
type Demand struct {
	Namespace, Issuer, Audience string
	AnyIssuer                   bool
	// Share has the namespace's turn, in which slow signatures are checked. Without one they are checked at once.
	Share *limit.Share
}

// Verify returns a token that meets the demand, is signed by the issuer, and is valid now. The error is a Refusal or
// limit.ErrNoTurn, or wraps ErrIssuerUnavailable.
func (s *Issuers) Verify(ctx context.Context, token string, d Demand) (*oidc.IDToken, error) {
	by := s.use(d.Namespace, d.Issuer)
	if by == nil {
		return nil, ErrIssuerUnavailable
	}
	// The signature is checked first and once: a forged token costs no more than that check.
	payload, err := verifySignature(ctx, token, by, d)
	if err != nil {
		return nil, err
	}
	if err := checkTimes(payload, time.Now()); err != nil {
		return nil, err
	}
	verifier := oidc.NewVerifier(d.Issuer, verified(payload), &oidc.Config{
		ClientID: d.Audience, SupportedSigningAlgs: asymmetric, SkipIssuerCheck: d.AnyIssuer,
	})
	proven, err := verifier.Verify(ctx, token)
	if err != nil {
		return nil, RefusedClaims // the verifier's error quotes the token
	}
	return proven, nil
}

// signedWith are the algorithms of asymmetric in jose's type.
var signedWith = func() (all []jose.SignatureAlgorithm) {
	for _, name := range asymmetric {
		all = append(all, jose.SignatureAlgorithm(name))
	}
	return all
}()

// verified is the payload of a token whose signature was verified.
type verified []byte

// VerifySignature implements oidc.KeySet.
func (v verified) VerifySignature(context.Context, string) ([]byte, error) { return v, nil }

// parse returns a token in the library's form, which takes up to a hundred times the memory of the token.
func parse(token string) (*jose.JSONWebSignature, error) {
	parsed, err := jose.ParseSignedCompact(token, signedWith)
	if _, other := errors.AsType[*jose.ErrUnexpectedSignatureAlgorithm](err); other {
		return nil, RefusedAlgorithm
	}
	if err != nil || len(parsed.Signatures) != 1 {
		return nil, RefusedBearer
	}
	return parsed, nil
}

// verifySignature returns the payload of a token that the issuer has signed. It parses the token twice, so that no parsed one waits for keys or
// for a turn.
func verifySignature(ctx context.Context, token string, by *use, d Demand) ([]byte, error) {
	if bringsKey(token) {
		return nil, RefusedBearer
	}
	before, err := parse(token)
	if err != nil {
		return nil, err
	}
	keyID, algorithm := before.Signatures[0].Header.KeyID, before.Signatures[0].Header.Algorithm
	return by.verify(ctx, func(keys []jose.JSONWebKey) ([]byte, error) {
		keys = possible(keys, keyID, algorithm)
		if len(keys) == 0 {
			return nil, RefusedKey
		}
		if slow(algorithm) {
			turn, ok := d.Share.Enter(ctx, d.Namespace, 0)
			if !ok {
				return nil, limit.ErrNoTurn
			}
			defer turn.Leave()
		}
		parsed, err := parse(token)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			if payload, err := parsed.Verify(key); err == nil {
				return payload, nil
			}
		}
		return nil, RefusedSigned
	})
}

// possible returns the first maxTries of the keys that a token with this key ID and algorithm may be signed with.
func possible(keys []jose.JSONWebKey, keyID, algorithm string) (fit []jose.JSONWebKey) {
	for _, key := range keys {
		if (keyID == "" || key.KeyID == keyID) && fits(key, algorithm) && len(fit) < maxTries {
			fit = append(fit, key)
		}
	}
	return fit
}
