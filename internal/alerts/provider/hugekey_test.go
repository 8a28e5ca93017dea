package provider

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"strings"
	"testing"
	"time"
)

// numbers returns the PKCS #1 encoding of the numbers: version, N, E, D, P, Q and perhaps Dp, Dq and Qinv.
func numbers(t *testing.T, n ...*big.Int) []byte {
	t.Helper()
	der, err := asn1.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// odd returns the odd number of the given length that has the most bits set.
func odd(bits int) *big.Int {
	one := big.NewInt(1)
	return new(big.Int).Sub(new(big.Int).Lsh(one, uint(bits)), one)
}

// inPKCS8 wraps an RSA key.
func inPKCS8(t *testing.T, der []byte) []byte {
	t.Helper()
	der, err := asn1.Marshal(struct {
		Version int
		Algo    pkix.AlgorithmIdentifier
		Key     []byte
	}{0, pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}, Parameters: asn1.NullRawValue}, der})
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// newCertificate returns a certificate for a public key in PEM. It is signed with another key, so that a key may be of any form.
func newCertificate(t *testing.T, public any) string {
	t.Helper()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "c"}, NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, signer)
	if err != nil {
		t.Fatal(err)
	}
	return inPEM("CERTIFICATE", der)
}

// atOnce ends the test if f takes longer than a second. A refusal takes microseconds.
func atOnce(t *testing.T, what string, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if took := time.Since(start); took > time.Second {
		t.Fatalf("%s takes %v", what, took)
	}
}

// Fails when numbers of a key are computed with before their length is looked at. Here the length of one is such that this takes seconds;
// with the length that a Secret has room for it takes hours.
func TestT6AKeyWithHugeNumbersIsRefusedAtOnce(t *testing.T) {
	cert := newCertificate(t, &newRSAKey(t, 2048).PublicKey)
	n := big.NewInt
	huge := odd(16384)
	for what, der := range map[string][]byte{
		"a first prime":              numbers(t, n(0), n(3), n(3), n(1), huge, n(5)),
		"a first prime of PKCS #8":   inPKCS8(t, numbers(t, n(0), n(3), n(3), n(1), huge, n(5))),
		"a second prime":             numbers(t, n(0), n(3), n(3), n(1), n(5), huge),
		"a modulus":                  numbers(t, n(0), huge, n(3), n(1), n(7), n(5)),
		"an exponent":                numbers(t, n(0), n(3), huge, n(1), n(7), n(5)),
		"a private exponent":         numbers(t, n(0), n(3), n(3), huge, n(7), n(5)),
		"a remainder":                numbers(t, n(0), n(3), n(3), n(1), n(7), n(5), n(1), huge, n(1)),
		"an inverse":                 numbers(t, n(0), n(3), n(3), n(1), n(7), n(5), n(1), n(1), huge),
		"a prime of 4,097 bits":      numbers(t, n(0), n(3), n(3), n(1), odd(4097), n(5)),
		"a prime and trailing bytes": append(numbers(t, n(0), n(3), n(3), n(1), huge, n(5)), 0),
	} {
		for _, text := range []string{
			inPEM("RSA PRIVATE KEY", der), inPEM("PRIVATE KEY", der), inPEM("EC PRIVATE KEY", der), inPEM("ANY PRIVATE KEY", der),
			cert + inPEM("PRIVATE KEY", der),
		} {
			kind := what + " in " + strings.TrimSpace(text[:27])
			atOnce(t, kind, func() {
				if _, ok := ParseRSAKey(text); ok {
					t.Errorf("%s is taken", kind)
				}
			})
			atOnce(t, "a client key with "+kind, func() {
				_, err := TLS{Cert: []byte(cert), Key: []byte(text)}.Config()
				if err == nil || err.Error() != "client key is longer than 4,096 bits" {
					t.Errorf("a client key with %s: %v", kind, err)
				}
			})
		}
	}
}

// Fails when a key with more than two primes, which takes longer to parse the more it has, is parsed.
func TestT6AKeyOfManyPrimesIsRefused(t *testing.T) {
	cert := newCertificate(t, &newRSAKey(t, 2048).PublicKey)
	type prime struct{ Prime, Exp, Coeff *big.Int }
	n := big.NewInt
	more := struct {
		Version       int
		N, E, D, P, Q *big.Int
		Primes        []prime
	}{1, n(105), n(5), n(5), n(3), n(5), []prime{{n(7), n(5), n(1)}}}
	for version := range 2 {
		more.Version = version
		der, err := asn1.Marshal(more)
		if err != nil {
			t.Fatal(err)
		}
		for _, der := range [][]byte{der, inPKCS8(t, der), numbers(t, n(1), n(15), n(3), n(3), n(3), n(5))} {
			text := inPEM("PRIVATE KEY", der)
			if _, ok := ParseRSAKey(text); ok {
				t.Error("a key of three primes is taken")
			}
			_, err := TLS{Cert: []byte(cert), Key: []byte(text)}.Config()
			if err == nil || err.Error() != "client key is not an RSA key of two primes" {
				t.Errorf("a client key of three primes: %v", err)
			}
		}
	}
}

// Fails when the look at a key's numbers refuses keys of other forms, or takes one form for another.
func TestKeysOfAllFormsAreTaken(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8 := func(key any) []byte {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	sec1, err := x509.MarshalECPrivateKey(curve)
	if err != nil {
		t.Fatal(err)
	}
	d := small.Precomputed
	rsaKeys := map[string][]byte{
		"RSA PRIVATE KEY": x509.MarshalPKCS1PrivateKey(small),
		"PRIVATE KEY":     pkcs8(small),
		"A PRIVATE KEY": numbers(t, big.NewInt(0), small.N, big.NewInt(int64(small.E)), small.D, small.Primes[0], small.Primes[1],
			d.Dp, d.Dq, d.Qinv),
		"B PRIVATE KEY": numbers(t, big.NewInt(0), small.N, big.NewInt(int64(small.E)), small.D, small.Primes[0], small.Primes[1]),
	}
	for kind, der := range rsaKeys {
		if key, ok := ParseRSAKey(inPEM(kind, der)); !ok || !key.Equal(small) {
			t.Errorf("%s is not taken", kind)
		}
	}
	takes := func(public any, keys map[string][]byte) {
		t.Helper()
		cert := newCertificate(t, public)
		for kind, der := range keys {
			if _, err := (TLS{Cert: []byte(cert), Key: []byte(inPEM(kind, der))}).Config(); err != nil {
				t.Errorf("%s for %T: %v", kind, public, err)
			}
		}
	}
	takes(&small.PublicKey, rsaKeys)
	takes(&curve.PublicKey, map[string][]byte{"EC PRIVATE KEY": sec1, "PRIVATE KEY": pkcs8(curve)})
	takes(public, map[string][]byte{"PRIVATE KEY": pkcs8(edwards)})
}

// Fails when a client certificate with a huge key, which its own key has to match, takes long to compare.
func TestT6AClientCertificateWithAHugeKeyIsRefusedAtOnce(t *testing.T) {
	key := inPEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(newRSAKey(t, 2048)))
	cert := newCertificate(t, &rsa.PublicKey{N: odd(1_400_000), E: 65537})
	atOnce(t, "a client certificate", func() {
		if _, err := (TLS{Cert: []byte(cert), Key: []byte(key)}).Config(); err == nil {
			t.Error("it is taken")
		}
	})
}
