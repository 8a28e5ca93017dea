package verify

import "net/http"

// first returns the first of the named headers that is there and not empty.
func first(h http.Header, names ...string) string {
	for _, name := range names {
		if value := h.Get(name); value != "" {
			return value
		}
	}
	return ""
}
