package api

import (
	"crypto/sha256"
	"log/slog"
	"net/netip"
	"strings"
)

// User is the owner of a token, as the Kubernetes API knows them.
type User struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
	// Key is the digest of the token, under which what is known of the user is kept.
	Key [sha256.Size]byte
	// token is the bearer token, reviewed again while a watch lasts.
	token secret
	// from is the address that the token came from.
	from netip.Addr
}

// Namespace is that of a service account, empty for other users.
func (u *User) Namespace() string {
	rest, ok := strings.CutPrefix(u.Name, "system:serviceaccount:")
	namespace, _, both := strings.Cut(rest, ":")
	if !ok || !both {
		return ""
	}
	return namespace
}

// Tenant is the key of what a user may use: the name, or for a service account its namespace.
func (u *User) Tenant() string {
	if namespace := u.Namespace(); namespace != "" {
		return "system:serviceaccounts:" + namespace
	}
	return u.Name
}

// String is the user's name.
func (u *User) String() string { return u.Name }

// GoString is the user's name.
func (u *User) GoString() string { return u.Name }

// LogValue is the user's name.
func (u *User) LogValue() slog.Value { return slog.StringValue(u.Name) }

// secret is a token, which prints as nothing.
type secret string

func (secret) String() string       { return "" }
func (secret) GoString() string     { return "" }
func (secret) LogValue() slog.Value { return slog.Value{} }
