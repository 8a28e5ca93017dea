package provider

import (
	"crypto/rsa"
	"strings"
	"testing"
)

// Fails when an authority's key, with which each handshake verifies, may take seconds of processor time.
func TestT6AnAuthorityThatTakesLongToVerifyWithIsRefused(t *testing.T) {
	const long, exponent = "CA holds an RSA key longer than 8,192 bits", "CA holds an RSA key with an exponent above 2^24"
	good := newCertificate(t, &newRSAKey(t, 2048).PublicKey)
	for what, c := range map[string]struct {
		bits, e int
		want    string
	}{
		"a usual key":           {4096, 65537, ""},
		"the longest key":       {8192, 1<<24 - 1, ""},
		"a longer key":          {8193, 3, long},
		"a key as long as fits": {1_400_000, 65537, long},
		"a large exponent":      {2048, 1<<24 + 1, exponent},
		"the largest exponent":  {2048, 1<<62 + 1, exponent},
		"both":                  {9000, 1<<31 - 1, long},
	} {
		cert := newCertificate(t, &rsa.PublicKey{N: odd(c.bits), E: c.e})
		for _, ca := range []string{cert, good + cert, cert + good} {
			atOnce(t, what, func() {
				cfg, err := TLS{CA: []byte(ca)}.Config()
				switch {
				case c.want == "" && (err != nil || cfg.RootCAs == nil):
					t.Errorf("%s: %v", what, err)
				case c.want != "" && (err == nil || err.Error() != c.want || cfg.RootCAs != nil):
					t.Errorf("%s: %v, with a pool: %v, want %q", what, err, cfg.RootCAs != nil, c.want)
				}
			})
		}
	}
}

// Fails when a bundle is refused for a block that the system's bundles have too, and that is skipped.
func TestBlocksThatAreNoCertificatesAreSkipped(t *testing.T) {
	good := newCertificate(t, &newRSAKey(t, 2048).PublicKey)
	huge := newCertificate(t, &rsa.PublicKey{N: odd(9000), E: 3})
	skipped := "# a comment\n" + inPEM("CERTIFICATE", []byte("no certificate")) +
		strings.ReplaceAll(huge, "CERTIFICATE", "TRUSTED CERTIFICATE") +
		strings.Replace(huge, "-----\n", "-----\nName: value\n\n", 1)
	cfg, err := TLS{CA: []byte(skipped + good + skipped)}.Config()
	if err != nil || len(cfg.RootCAs.Subjects()) != 1 { //nolint:staticcheck // the pool is not the system's
		t.Errorf("a bundle with blocks to skip: %v", err)
	}
	if _, err := (TLS{CA: []byte(skipped)}).Config(); err == nil || !strings.HasPrefix(err.Error(), "ca.crt (or caFile) holds no valid certificate; write ") {
		t.Errorf("a bundle with nothing but blocks to skip: %v", err)
	}
}

// Fails when Providers that name one bundle have it parsed and kept once for each.
func TestOneBundleIsOnePool(t *testing.T) {
	bundle := []byte(newCertificate(t, &newRSAKey(t, 2048).PublicKey))
	first, err := TLS{CA: bundle}.Config()
	if err != nil {
		t.Fatal(err)
	}
	made := testing.AllocsPerRun(10, func() {
		if second, err := (TLS{CA: bundle}).Config(); err != nil || second.RootCAs != first.RootCAs {
			t.Errorf("another pool of the same bundle, %v", err)
		}
	})
	if made > 10 {
		t.Errorf("%v allocations are made for a pool that there is", made)
	}
}
