package app

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Fails when an advisory condition makes the process unready, or is not shown.
func TestAnAdvisoryConditionDoesNotMakeUnready(t *testing.T) {
	missing := errors.New("not there")
	for name, c := range map[string]struct {
		check  check
		status int
		body   string
	}{
		"holds":         {check{name: "a", test: func() error { return nil }}, http.StatusOK, "[+] a\n"},
		"does not hold": {check{name: "a", test: func() error { return missing }}, http.StatusServiceUnavailable, "[-] a: not there\n"},
		"advisory":      {check{name: "a", advisory: true, test: func() error { return missing }}, http.StatusOK, "[~] a: not there\n"},
	} {
		h := &health{checks: []check{c.check}}
		w := httptest.NewRecorder()
		h.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if w.Code != c.status || w.Body.String() != c.body {
			t.Errorf("%s: got %d %q", name, w.Code, w.Body)
		}
	}
}
