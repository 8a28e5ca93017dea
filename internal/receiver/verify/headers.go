package verify

import "net/http"

// first returns the first non-empty value among the named headers, "" for none.
func first(h http.Header, names ...string) string {
	for _, name := range names {
		if value := h.Get(name); value != "" {
			return value
		}
	}
	return ""
}
