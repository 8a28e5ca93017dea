package provider

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

const (
	// MaxHeaders is the number of headers that a Secret may have.
	MaxHeaders     = 32
	maxHeaderBytes = 16 << 10 // their names and values together
)

// reserved are the headers that a Secret cannot set. They are left out, as an HTTP client would do.
var reserved = []string{
	"Connection", "Content-Encoding", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Authenticate",
	"Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Via",
}

// Headers are the headers of a Secret, for types that send them.
type Headers struct {
	Sent    http.Header
	ignored []string
}

// Ignored returns the names of the headers that are not sent. The names are from a closed set.
func (h Headers) Ignored() []string { return h.ignored }

// NewHeaders checks the headers of a Secret. It leaves out those of the connection and the type's own. The type's own are given in their
// canonical form; a name that ends in "-*" means every name with that prefix. The errors quote no name, since a name may be part of a
// badly quoted value.
func NewHeaders(values map[string]string, own ...string) (Headers, error) {
	if len(values) > MaxHeaders {
		return Headers{}, errors.New("headers has too many entries")
	}
	own = append(own, reserved...)
	h := Headers{Sent: make(http.Header, len(values))}
	size := 0
	for name, value := range values {
		value = strings.TrimSpace(value)
		size += len(name) + len(value)
		canonical := http.CanonicalHeaderKey(name)
		if i := slices.IndexFunc(own, func(o string) bool { return covers(o, canonical) }); i >= 0 {
			h.ignored = append(h.ignored, own[i])
			continue
		}
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return Headers{}, errors.New("headers has an entry whose name is not valid")
		case !httpguts.ValidHeaderFieldValue(value):
			return Headers{}, errors.New("headers has an entry whose value is not valid")
		case h.Sent[canonical] != nil:
			return Headers{}, errors.New("headers has two entries of one name")
		}
		h.Sent[canonical] = []string{value}
	}
	if size > maxHeaderBytes {
		return Headers{}, errors.New("headers is too long")
	}
	slices.Sort(h.ignored)
	h.ignored = slices.Compact(h.ignored)
	return h, nil
}

// covers reports whether own, a name or a prefix with "*", matches a header.
func covers(own, name string) bool {
	if prefix, all := strings.CutSuffix(own, "*"); all {
		return strings.HasPrefix(name, prefix)
	}
	return own == name
}
