package provider

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
)

// The longest RSA key that signs. The time of a signature grows with the third power of the key's length. 4,096 bits take some
// milliseconds; the 40,000 bits that fit into a Secret take half a minute, which no context ends.
const (
	maxRSABits = 4096
	maxRSAKey  = 4 << 10 // the bytes of such a key as DER are fewer
)

// ParseRSAKey parses an RSA private key in PEM, of PKCS #1 or PKCS #8. It returns false for any other text, and for a key longer than
// 4,096 bits.
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
