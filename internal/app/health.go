package app

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
)

// check is one condition of readiness; test returns nil if the condition is true.
type check struct {
	name string
	test func() error
	// advisory says that a probe shows the condition, and that readiness does not need it.
	advisory bool
}

// health answers the probes. Live means that the process serves this request. Ready means that it can do its work: every check but the
// advisory ones passes, and the process is not stopping.
type health struct {
	checks   []check
	stopping atomic.Bool
}

func (h *health) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", h.ready)
	return mux
}

// unready returns the first failure of a check that readiness needs, nil if there is none.
func (h *health) unready() error {
	for _, c := range h.checks {
		if err := c.test(); err != nil && !c.advisory {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

func (h *health) ready(w http.ResponseWriter, _ *http.Request) {
	var b strings.Builder
	ready := true
	if h.stopping.Load() {
		ready = false
		b.WriteString("[-] stopping\n")
	}
	for _, c := range h.checks {
		switch err := c.test(); {
		case err == nil:
			fmt.Fprintf(&b, "[+] %s\n", c.name)
		case c.advisory:
			fmt.Fprintf(&b, "[~] %s: %v\n", c.name, err)
		default:
			ready = false
			fmt.Fprintf(&b, "[-] %s: %v\n", c.name, err)
		}
	}
	if !ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	fmt.Fprint(w, b.String())
}
