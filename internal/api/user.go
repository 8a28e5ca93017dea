package api

import (
	"crypto/sha256"
	"log/slog"
	"net/netip"
	"strings"
)

// User is the owner of a token, as the Kubernetes API describes the user.
type User struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
	// Key is the digest of all of the above. Results about the user are kept under it, so none outlasts a change of the user.
	Key [sha256.Size]byte
	// token is the bearer token, reviewed again while a watch lasts.
	token secret
	// from is the address from which the token was sent.
	from netip.Addr
}

// Namespace returns the namespace of a service account, empty for other users.
func (u *User) Namespace() string {
	rest, ok := strings.CutPrefix(u.Name, "system:serviceaccount:")
	namespace, _, both := strings.Cut(rest, ":")
	if !ok || !both {
		return ""
	}
	return namespace
}

// Tenant returns the key of a user's limits: the name, or for a service account its namespace.
func (u *User) Tenant() string {
	if namespace := u.Namespace(); namespace != "" {
		return "system:serviceaccounts:" + namespace
	}
	return u.Name
}

// String returns the user's name.
func (u *User) String() string { return u.Name }

// GoString returns the user's name.
func (u *User) GoString() string { return u.Name }

// LogValue returns the user's name.
func (u *User) LogValue() slog.Value { return slog.StringValue(u.Name) }

// secret is a token. It prints as an empty text.
type secret string

func (secret) String() string       { return "" }
func (secret) GoString() string     { return "" }
func (secret) LogValue() slog.Value { return slog.Value{} }
