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

// Headers checks the headers of a Secret. It leaves out those of the connection and the type's own, and returns the names of those
// left out. The type's own are given in their canonical form; a name that ends in "-*" means every name with that prefix. The errors
// quote no name, since a name may be part of a badly quoted value.
func Headers(values map[string]string, own ...string) (h http.Header, ignored []string, err error) {
	if len(values) > MaxHeaders {
		return nil, nil, errors.New("headers has too many entries")
	}
	own = append(own, reserved...)
	h = make(http.Header, len(values))
	size := 0
	for name, value := range values {
		value = strings.TrimSpace(value)
		size += len(name) + len(value)
		canonical := http.CanonicalHeaderKey(name)
		if i := slices.IndexFunc(own, func(o string) bool { return covers(o, canonical) }); i >= 0 {
			ignored = append(ignored, own[i])
			continue
		}
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return nil, nil, errors.New("headers has an entry whose name is not valid")
		case !httpguts.ValidHeaderFieldValue(value):
			return nil, nil, errors.New("headers has an entry whose value is not valid")
		case h[canonical] != nil:
			return nil, nil, errors.New("headers has two entries of one name")
		}
		h[canonical] = []string{value}
	}
	if size > maxHeaderBytes {
		return nil, nil, errors.New("headers is too long")
	}
	slices.Sort(ignored)
	return h, slices.Compact(ignored), nil
}

// covers reports whether own, a name or a prefix with "*", matches a header.
func covers(own, name string) bool {
	if prefix, all := strings.CutSuffix(own, "*"); all {
		return strings.HasPrefix(name, prefix)
	}
	return own == name
}
