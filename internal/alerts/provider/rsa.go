package provider

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
)

// The longest RSA key that signs. The time that a signature takes grows with the third power of the length: 4,096 bits take some
// milliseconds, the 40,000 that a Secret has room for half a minute, which no context ends.
const (
	maxRSABits = 4096
	maxRSAKey  = 4 << 10 // bytes of such a key as DER, and more
)

// ParseRSAKey reads an RSA private key in PEM, of PKCS #1 or PKCS #8. It is false for what is none, and for a key longer than 4,096 bits.
func ParseRSAKey(text string) (*rsa.PrivateKey, bool) {
	block, _ := pem.Decode([]byte(text))
	if block == nil || len(block.Bytes) > maxRSAKey {
		return nil, false
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, key.N.BitLen() <= maxRSABits
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, false
	}
	key, ok := parsed.(*rsa.PrivateKey)
	return key, ok && key.N.BitLen() <= maxRSABits
}
