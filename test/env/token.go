package env

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"os"
	"path/filepath"

	jose "github.com/go-jose/go-jose/v4"
)

// newSigner makes a key whose tokens the API server accepts as its own, and returns the flag that makes it do so.
func (c *Cluster) newSigner(dir string) (flag string, err error) {
	if c.signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return "", err
	}
	der, err := x509.MarshalPKIXPublicKey(c.signer.Public())
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "signer.pub")
	return "--service-account-key-file=" + file, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600)
}

// Resign returns a token of a service account with some of its claims changed, signed by a key that the API server
// accepts as its own. TokenRequest issues no such tokens, for example an expired one. It is for control planes that were
// started here.
func (c *Cluster) Resign(token string, changes map[string]any) (string, error) {
	if c.signer == nil {
		return "", errors.New("the cluster is not ours, and no key of ours signs for it")
	}
	signed, err := jose.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return "", err
	}
	claims := map[string]any{}
	if err := json.Unmarshal(signed.UnsafePayloadWithoutVerification(), &claims); err != nil {
		return "", err
	}
	maps.Copy(claims, changes)
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: c.signer}, nil)
	if err != nil {
		return "", err
	}
	if signed, err = signer.Sign(payload); err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}
