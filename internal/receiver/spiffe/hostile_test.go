package spiffe

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"notifier/internal/receiver/spiffe/spiffetest"
)

// T6. Fails when any client has the process check a hundred signatures, as many as crypto/x509 tries, with each connection: by authorities of
// one name, and by few of which some have one key, so that each has signed the others.
func TestT6TheChainOfAClientCostsFewChecksOfSignatures(t *testing.T) {
	w, key := newWorld(t, true), slowKey(t)
	digest := make([]byte, 32)
	signature, err := ecdsa.SignASN1(rand.Reader, key, digest)
	if err != nil {
		t.Fatal(err)
	}
	check := cost(func() { ecdsa.VerifyASN1(&key.PublicKey, digest, signature) })
	for name, tc := range map[string]struct{ authorities, ofOneKey int }{
		"many of one name":        {139, 0},
		"few, in every order":     {9, 3},
		"as many as are verified": {maxChain - 1, maxChain - 1},
	} {
		svid := w.home.SVID(t, "/controller", time.Hour)
		authority := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, NotAfter: svid.Leaf.NotAfter, IsCA: true, BasicConstraintsValid: true,
		}
		leaf := &x509.Certificate{SerialNumber: big.NewInt(1), URIs: svid.Leaf.URIs, NotAfter: svid.Leaf.NotAfter}
		svid.Certificate = [][]byte{issue(t, leaf, authority, svid.Leaf.PublicKey.(*ecdsa.PublicKey), key)}
		for i := range tc.authorities {
			own := key
			if i >= tc.ofOneKey {
				own = slowKey(t)
			}
			authority.DNSNames = []string{fmt.Sprintf("%d.test", i)} // otherwise it is the same authority
			svid.Certificate = append(svid.Certificate, issue(t, authority, authority, &own.PublicKey, own))
		}
		if handshake := cost(func() { w.refused(t, name, svid) }); handshake > 40*check {
			t.Errorf("%s: %s, as long as %d checks of a signature", name, handshake, handshake/check)
		}
	}
}

// Fails when a chain that a runtime gives is refused, as that of a server below two others.
func TestAnSVIDOfAServerBelowOthersIsAccepted(t *testing.T) {
	w := newWorld(t, true)
	if _, err := w.connect(t, w.home.Below(t).Below(t).Below(t).SVID(t, "/controller", time.Hour)); err != nil {
		t.Error(err)
	}
}

// Fails when nobody can tell from the log which client is refused.
func TestTheLogNamesARefusedClient(t *testing.T) {
	for name, svid := range map[string]func(*world) tls.Certificate{
		"expired": func(w *world) tls.Certificate { return w.home.SVID(t, "/controller", -time.Minute) },
		"of another authority": func(*world) tls.Certificate {
			return spiffetest.NewAuthority(t, "home").SVID(t, "/controller", time.Hour)
		},
		"of another workload": func(w *world) tls.Certificate { return w.home.SVID(t, "/tenant", time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, true)
			client := svid(w)
			w.refused(t, name, client)
			if id := client.Leaf.URIs[0].String(); !strings.Contains(w.log.String(), id) {
				t.Errorf("%s is not in %q", id, w.log)
			}
		})
	}
}

// slowKey returns a key of the kind whose signatures take the longest to check.
func slowKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func issue(t *testing.T, template, parent *x509.Certificate, public *ecdsa.PublicKey, signer *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// cost returns the least time of three runs.
func cost(run func()) time.Duration {
	least := time.Hour
	for range 3 {
		began := time.Now()
		run()
		least = min(least, time.Since(began))
	}
	return least
}
