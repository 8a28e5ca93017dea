package provider

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"
)

// newRSAKey returns a key of the given length that has the form of an RSA key. Its primes are only odd numbers, since true primes take
// minutes to find.
func newRSAKey(t *testing.T, bits int) *rsa.PrivateKey {
	t.Helper()
	one, e := big.NewInt(1), big.NewInt(65537)
	for {
		var primes [2]*big.Int
		for i := range primes {
			n, err := rand.Int(rand.Reader, new(big.Int).Lsh(one, uint(bits/2)))
			if err != nil {
				t.Fatal(err)
			}
			primes[i] = n.SetBit(n.SetBit(n.SetBit(n, bits/2-1, 1), bits/2-2, 1), 0, 1)
		}
		p, q := primes[0], primes[1]
		less := func(n *big.Int) *big.Int { return new(big.Int).Sub(n, one) }
		d := new(big.Int).ModInverse(e, new(big.Int).Mul(less(p), less(q)))
		inverse := new(big.Int).ModInverse(q, p)
		if d == nil || inverse == nil {
			continue
		}
		key := &rsa.PrivateKey{PublicKey: rsa.PublicKey{N: new(big.Int).Mul(p, q), E: int(e.Int64())}, D: d, Primes: primes[:]}
		key.Precomputed.Dp, key.Precomputed.Dq = new(big.Int).Mod(d, less(p)), new(big.Int).Mod(d, less(q))
		key.Precomputed.Qinv = inverse
		return key
	}
}

func inPEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// Fails when a tenant's key makes each send take seconds of processor time.
func TestT6AKeyThatTakesLongToSignWithIsRefused(t *testing.T) {
	for bits, want := range map[int]bool{2048: true, 4096: true, 4352: false, 32768: false} {
		if _, ok := ParseRSAKey(inPEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(newRSAKey(t, bits)))); ok != want {
			t.Errorf("a key of %d bits is taken: %v, want %v", bits, ok, want)
		}
	}
	if _, ok := ParseRSAKey("no key"); ok {
		t.Error("what is no key is taken")
	}
}

// Fails when the key of a client's certificate, which signs each handshake, has the same effect.
func TestT6AClientKeyThatTakesLongToSignWithIsRefused(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "c"}, NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour),
	}
	for bits, want := range map[int]bool{2048: true, 16384: false} {
		key := newRSAKey(t, bits)
		cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, small)
		if err != nil {
			t.Fatal(err)
		}
		_, err = TLS{
			Cert: []byte(inPEM("CERTIFICATE", cert)), Key: []byte(inPEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))),
		}.Config()
		if want != (err == nil) || err != nil && !strings.Contains(err.Error(), "longer than 4,096 bits") {
			t.Errorf("a key of %d bits: %v", bits, err)
		}
	}
}
