package provider

import (
	"crypto/sha256"
	"crypto/x509"
	"runtime"
	"sync"
	"weak"
)

// pools are the pools of authorities in use, by the digest of their PEM blocks. A system's whole bundle takes some hundreds of
// kilobytes. All Providers of a namespace may name the same bundle, so they share its pool for as long as one of them has it.
var pools = struct {
	sync.Mutex
	m map[[sha256.Size]byte]weak.Pointer[x509.CertPool]
}{m: map[[sha256.Size]byte]weak.Pointer[x509.CertPool]{}}

// poolOf returns the pool of PEM blocks, nil if they contain no certificate. Callers must not change it.
func poolOf(pem []byte) *x509.CertPool {
	key := sha256.Sum256(pem)
	pools.Lock()
	defer pools.Unlock()
	if pool := pools.m[key].Value(); pool != nil {
		return pool
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil
	}
	made := weak.Make(pool)
	pools.m[key] = made
	runtime.AddCleanup(pool, forgetPool, pooled{key, made})
	return pool
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
