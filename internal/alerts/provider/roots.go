package provider

import (
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"runtime"
	"sync"
	"weak"
)

// Bounds on the RSA keys of authorities, with which each handshake verifies. crypto/tls has such a bound for the certificates that a
// server sends and none for RootCAs. A key of 1,400,000 bits, which fits into a ca.crt, takes 22 seconds, which no context ends.
const (
	maxRootBits = 8192 // as crypto/tls (defaultMaxRSAKeySize, and the documentation of tls.Conn.Handshake)
	// The exponent's length multiplies the time. Authorities have 65537 or 3. The bound is that of golang.org/x/crypto/ssh (24 bits);
	// crypto/rsa allows 2^31-1.
	maxRootExponent = 1 << 24
)

// pools are the pools of authorities in use, by the digest of their PEM blocks. A system's whole bundle takes some hundreds of
// kilobytes. All Providers of a namespace may name the same bundle, so they share its pool for as long as one of them has it.
var pools = struct {
	sync.Mutex
	m map[[sha256.Size]byte]weak.Pointer[x509.CertPool]
}{m: map[[sha256.Size]byte]weak.Pointer[x509.CertPool]{}}

// poolOf returns the pool of PEM blocks. Blocks that hold no certificate are skipped. It returns an error if there is no certificate, or if
// an authority takes long to verify with. Its errors quote nothing. Callers must not change the pool.
func poolOf(blocks []byte) (*x509.CertPool, error) {
	key := sha256.Sum256(blocks)
	pools.Lock()
	defer pools.Unlock()
	if pool := pools.m[key].Value(); pool != nil {
		return pool, nil
	}
	if err := checkRoots(blocks); err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(blocks) {
		return nil, errors.New("ca.crt (or caFile) holds no valid certificate; write blocks of PEM that begin with BEGIN CERTIFICATE")
	}
	made := weak.Make(pool)
	pools.m[key] = made
	runtime.AddCleanup(pool, forgetPool, pooled{key, made})
	return pool, nil
}

// checkRoots refuses PEM blocks with an authority that takes long to verify with. It looks at the blocks that AppendCertsFromPEM adds,
// which parses them once more. AddCert would not, but it keeps parsed certificates, and AppendCertsFromPEM only their DER.
func checkRoots(blocks []byte) error {
	for {
		block, rest := pem.Decode(blocks)
		if block == nil {
			return nil
		}
		blocks = rest
		if block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		key, ok := cert.PublicKey.(*rsa.PublicKey)
		switch {
		case ok && key.N.BitLen() > maxRootBits:
			return errors.New("CA holds an RSA key longer than 8,192 bits")
		case ok && key.E > maxRootExponent:
			return errors.New("CA holds an RSA key with an exponent above 2^24")
		}
	}
}

// pooled names an entry of pools.
type pooled struct {
	key  [sha256.Size]byte
	pool weak.Pointer[x509.CertPool]
}

// forgetPool removes the entry of a pool that is out of use, unless the pool was made again meanwhile.
func forgetPool(p pooled) {
	pools.Lock()
	defer pools.Unlock()
	if pools.m[p.key] == p.pool {
		delete(pools.m, p.key)
	}
}
