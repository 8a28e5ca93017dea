package provider

import (
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"math/big"
)

// The longest RSA key that signs. The time of a signature grows with the third power of the key's length. 4,096 bits take some
// milliseconds; the 40,000 bits that fit into a Secret take half a minute, which no context ends.
const (
	maxRSABits = 4096
	maxRSAKey  = 4 << 10 // the bytes of such a key as DER are fewer
)

var (
	errLongKey = errors.New("is longer than 4,096 bits")
	errPrimes  = errors.New("is not an RSA key of two primes")
)

// ParseRSAKey parses an RSA private key in PEM, of PKCS #1 or PKCS #8. It returns false for any other text, and for a key with a number
// longer than 4,096 bits.
func ParseRSAKey(text string) (*rsa.PrivateKey, bool) {
	block, _ := pem.Decode([]byte(text))
	if block == nil || len(block.Bytes) > maxRSAKey || checkRSA(block.Bytes) != nil {
		return nil, false
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, true
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, false
	}
	key, ok := parsed.(*rsa.PrivateKey)
	return key, ok
}

// rsaNumbers is an RSA private key of PKCS #1. It has the fields and the options that crypto/x509 decodes with, so that no key of x509
// escapes it. Only E may be longer here.
type rsaNumbers struct {
	Version          int
	N, E, D, P, Q    *big.Int
	Dp, Dq, Qinv     *big.Int   `asn1:"optional"`
	AdditionalPrimes []rsaPrime `asn1:"optional,omitempty"`
}

// rsaPrime is a prime of a key after the second.
type rsaPrime struct{ Prime, Exp, Coeff *big.Int }

// checkRSA refuses a private key in DER, of PKCS #1 or PKCS #8, if it is an RSA key that takes long to parse. It has to be called before
// crypto/x509 sees the key, which computes q^(p-2) mod p where the key has no CRT values, before it compares p with N. So a "prime" of
// 24,000 bytes, whatever N is, takes hours. Keys with more primes have version 1 (RFC 8017, A.1.2); no vendor makes them, and each prime
// adds to the time. DER that is no RSA key passes.
func checkRSA(der []byte) error {
	var key rsaNumbers
	if _, err := asn1.Unmarshal(der, &key); err != nil {
		var wrapped struct {
			Version   int
			Algorithm pkix.AlgorithmIdentifier
			Key       []byte
		}
		if _, err := asn1.Unmarshal(der, &wrapped); err != nil {
			return nil // it is no RSA key
		}
		// The algorithm need not be looked at: no other algorithm's key has the form of an RSA key.
		if _, err := asn1.Unmarshal(wrapped.Key, &key); err != nil {
			return nil
		}
	}
	for _, n := range []*big.Int{key.N, key.E, key.D, key.P, key.Q, key.Dp, key.Dq, key.Qinv} {
		if n != nil && n.BitLen() > maxRSABits {
			return errLongKey
		}
	}
	if key.Version != 0 || len(key.AdditionalPrimes) > 0 {
		return errPrimes
	}
	return nil
}

// checkKeys is checkRSA for every PEM block, so that it need not know which of them crypto/tls takes for the key, and as what: tls goes
// by the end of a block's type, and tries all forms whatever the type says.
func checkKeys(blocks []byte) error {
	for {
		block, rest := pem.Decode(blocks)
		if block == nil {
			return nil
		}
		if err := checkRSA(block.Bytes); err != nil {
			return err
		}
		blocks = rest
	}
}
