package receiver

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	hookPrefix = "/hook/"
	hookLength = len(hookPrefix) + 2*sha256.Size
)

// Path returns the path that a Receiver serves: "/hook/" and the SHA-256 of token, name and namespace, joined without separator. The
// formula is Flux's own, and its command line computes it too. With the path and the name a token can be guessed offline, so the path is a
// secret of the Receiver's namespace.
func Path(token, name, namespace string) string {
	sum := sha256.Sum256([]byte(token + name + namespace))
	return hookPrefix + hex.EncodeToString(sum[:])
}

// isHookPath reports whether path has the form of Path's results.
func isHookPath(path string) bool {
	if len(path) != hookLength || !strings.HasPrefix(path, hookPrefix) {
		return false
	}
	for _, c := range []byte(path[len(hookPrefix):]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
