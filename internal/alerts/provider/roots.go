package provider

import (
	"crypto/sha256"
	"crypto/x509"
	"runtime"
	"sync"
	"weak"
)

// pools are the pools of authorities that are in use, by what they were made of. A system's whole bundle takes some hundreds of
// kilobytes, and all Providers of a namespace may name the same one, so they share its pool for as long as one of them has it.
var pools = struct {
	sync.Mutex
	m map[[sha256.Size]byte]weak.Pointer[x509.CertPool]
}{m: map[[sha256.Size]byte]weak.Pointer[x509.CertPool]{}}

// poolOf returns the pool of PEM blocks, nil if they hold no certificate. It must not be changed.
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

// forgetPool drops a pool that nobody uses any more, unless it was made again meanwhile.
func forgetPool(p pooled) {
	pools.Lock()
	defer pools.Unlock()
	if pools.m[p.key] == p.pool {
		delete(pools.m, p.key)
	}
}
