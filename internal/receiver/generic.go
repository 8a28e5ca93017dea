package receiver

import "net/http"

// generic authenticates by its path alone, which is derived from the token.
type generic struct{}

func newGeneric([]byte) Verifier { return generic{} }

func (generic) Type() string                     { return "generic" }
func (generic) Begin(http.Header) (Check, error) { return accepted{}, nil }
func (generic) Event(http.Header) Event          { return Event{} }
