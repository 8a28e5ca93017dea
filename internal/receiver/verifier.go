package receiver

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// Verifier tells whether a request comes from someone who knows the Receiver's token. It is compiled once per token and
// used by many requests at once.
type Verifier interface {
	// Type is the Receiver's spec.type, one of Types.
	Type() string
	// Begin judges the headers. Its error is a Refusal.
	Begin(h http.Header) (Check, error)
	// Event reads from the headers of an authentic request what happened at the sender.
	Event(h http.Header) Event
}

// Check is the verification of one request. The body's raw bytes are written to it as they arrive, none is kept.
type Check interface {
	io.Writer
	// Finish returns nil for an authentic request, else a Refusal. It is called exactly once, also when the body could not
	// be read to its end, and ends the use of the Check.
	Finish() error
}

// Event is what a sender says happened.
type Event struct {
	// Name is the sender's name of the event. It counts only if Selects.
	Name string
	// Selects says that the type tells events apart, so that the Receiver's list of events applies.
	Selects bool
	// Ping says that the sender only tries the connection: it is answered, and nothing is triggered.
	Ping bool
}

// Refusal is the reason why a request was not found authentic. It is sent to the caller, so it holds nothing of the request
// and nothing secret.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// The refusals of the built-in types.
const (
	refusedNoSignature  Refusal = "signature missing"
	refusedAlgorithm    Refusal = "signature algorithm not supported"
	refusedMalformed    Refusal = "signature malformed"
	refusedMismatch     Refusal = "signature mismatch"
	refusedNoToken      Refusal = "token missing"
	refusedToken        Refusal = "token mismatch"
	refusedContentType  Refusal = "content type not supported"
	refusedUnclassified Refusal = "not authentic"
)

// types lists the Receiver types that are built. A new type is one file and one row.
var types = []struct {
	name string
	make func(token []byte) Verifier
}{
	{"generic", newGeneric},
	{"generic-hmac", newHMAC},
	{"github", newGitHub},
	{"gitlab", newGitLab},
}

// Types returns the supported values of a Receiver's spec.type.
func Types() []string {
	names := make([]string, 0, len(types))
	for _, t := range types {
		names = append(names, t.name)
	}
	return names
}

// ErrEmptyToken says that a Secret's token is empty. An empty key authenticates everybody who leaves the signature out or
// signs with nothing, so such a Receiver is not served.
var ErrEmptyToken = errors.New("token is empty")

// UnsupportedTypeError says that a Receiver's type is not built here.
type UnsupportedTypeError struct{ Type string }

func (e *UnsupportedTypeError) Error() string {
	return fmt.Sprintf("receiver type %q is not supported; supported types: %s", e.Type, strings.Join(Types(), ", "))
}

// NewVerifier compiles the verification of one Receiver type with the bytes of the Secret's token as they are, untrimmed. It
// returns an *UnsupportedTypeError or ErrEmptyToken.
func NewVerifier(kind string, token []byte) (Verifier, error) {
	for _, t := range types {
		if t.name != kind {
			continue
		}
		if len(token) == 0 {
			return nil, ErrEmptyToken
		}
		return t.make(slices.Clone(token)), nil
	}
	return nil, &UnsupportedTypeError{Type: kind}
}

// accepted is the Check of a request that its headers alone have proven.
type accepted struct{}

func (accepted) Write(p []byte) (int, error) { return len(p), nil }
func (accepted) Finish() error               { return nil }
