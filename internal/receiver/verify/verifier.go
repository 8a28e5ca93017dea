package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"notifier/internal/receiver/answer"
	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/oidc"
)

// Verifier decides whether the sender of a request knows the Receiver's credentials. It is compiled once per state of
// the Secret and is used by many requests at once.
type Verifier interface {
	// Type is the Receiver's spec.type, one of Types.
	Type() string
	// Begin checks the headers. Its error is a Refusal, oidc.ErrIssuerUnavailable or limit.ErrNoTurn. ctx is the
	// request's. Only the types with issuers' tokens wait on it, for the issuer's keys or a turn.
	Begin(ctx context.Context, h http.Header) (Check, error)
	// KeepsBody reports whether the type reads the body itself. Its requests' bodies stay in memory, within receiver.Limits,
	// until the answer.
	KeepsBody() bool
	// Content reads an authentic request. body is nil for one of which none is kept. A type that reads the body itself waits
	// for the turn of the Receiver's namespace if the body has more than a KiB. The error is limit.ErrNoTurn if the turn was
	// not reached before ctx ended, else a Refusal. A Refusal says nothing about the sender's identity: an authentic body may
	// be one that the type does not accept.
	Content(ctx context.Context, h http.Header, body []byte) (Content, error)
}

// begin checks the headers of a request, as Verifier.Begin does.
type begin func(ctx context.Context, h http.Header) (Check, error)

// scheme is the part of a Verifier that its type defines. A scheme need only begin.
type scheme struct {
	begin begin
	// event reads the sender's event from the headers of an authentic request.
	event func(h http.Header) Event
	// document finds the JSON in the body of an authentic request, nil for none. If it is not set, jsonDocument does.
	document func(h http.Header, body []byte) []byte
	// parse reads both from the body of an authentic request, which is then kept.
	parse func(h http.Header, body []byte) (Content, error)
	// growth is the memory for each byte of a body while it is parsed, 1 if it is zero.
	growth int64
}

// verifier is the Verifier of a scheme.
type verifier struct {
	scheme
	name      string
	namespace string
	share     *limit.Share
}

func (v *verifier) Type() string { return v.name }

func (v *verifier) Begin(ctx context.Context, h http.Header) (Check, error) { return v.begin(ctx, h) }

func (v *verifier) KeepsBody() bool { return v.parse != nil }

// parsedAtOnce is the greatest size of a body, in bytes of memory while it is parsed, that needs no turn. It takes 15 µs at
// most, as long as the rest of a request.
const parsedAtOnce = 1 << 10

// Content takes the turn of the Receiver's namespace to parse: a body of 3 MiB may take a hundred times the processor time
// of its hash, so a flood of them delays only its own namespace.
func (v *verifier) Content(ctx context.Context, h http.Header, body []byte) (Content, error) {
	if v.parse == nil {
		return v.unparsed(h, body), nil
	}
	if size := max(1, v.growth) * int64(len(body)); size > parsedAtOnce {
		turn, ok := v.share.Enter(ctx, v.namespace, size)
		if !ok {
			return Content{}, limit.ErrNoTurn
		}
		defer turn.Leave()
	}
	return v.parse(h, body)
}

// unparsed is Content of a type that does not parse.
func (v *verifier) unparsed(h http.Header, body []byte) (c Content) {
	if v.event != nil {
		c.Event = v.event(h)
	}
	switch {
	case c.Event.Ping, body == nil:
	case v.document != nil:
		c.Document = v.document(h, body)
	default:
		c.Document = jsonDocument(h, body)
	}
	return c
}

// Content is the content of a request: its event, and the document for filters.
type Content struct {
	Event Event
	// Document is the JSON that filters read as "req", nil for none.
	Document []byte
}

// Check is the verification of one request. The body's raw bytes are written to it as they arrive.
type Check interface {
	io.Writer
	// Finish returns nil for an authentic request, else a Refusal, and the claims that the sender has proven. body is
	// the whole body if the Verifier keeps it, and nil for requests of which none is kept. It is called exactly once, also
	// when the body could not be read to its end, and ends the use of the Check.
	Finish(body []byte) (RawClaims, error)
}

// Claims are the claims in a sender's token. Filters read them as "claims".
type Claims map[string]any

// RawClaims are Claims in JSON, nil for types without such tokens. A request that waits has them in this form, which takes up to fifty times
// less memory.
type RawClaims []byte

// Event is an event as its sender reports it.
type Event struct {
	// Name is the sender's name of the event. It counts only if Selects.
	Name string
	// Selects says that the type distinguishes events, so that the Receiver's list of events applies.
	Selects bool
	// Ping says that the sender only tests the connection: the request is answered, and nothing is triggered.
	Ping bool
	// Delivery is the sender's ID of this webhook, the same when it is sent again; empty for senders that give none.
	Delivery string
}

// The refusals of the built-in types.
const (
	refusedNoSignature answer.Refusal = "signature missing"
	refusedAlgorithm                  = oidc.RefusedAlgorithm
	refusedMalformed   answer.Refusal = "signature malformed"
	refusedMismatch    answer.Refusal = "signature mismatch"
	refusedNoToken                    = oidc.RefusedNoToken
	refusedToken       answer.Refusal = "token mismatch"
	refusedContentType answer.Refusal = "content type not supported"
)

// Credentials are the inputs of a Verifier.
type Credentials struct {
	// Token is the Secret's token, unchanged and untrimmed.
	Token []byte
	// Values are the Secret's other keys that the type reads, as SecretKeys names them.
	Values map[string][]byte
	// OIDC are the providers of type generic-oidc.
	OIDC []OIDCProvider
	// Issuers has the keys of the issuers of tokens. Types generic-oidc and gcr need it.
	Issuers *oidc.Issuers
	// Namespace is the Receiver's. Costly checks of its webhooks take their turn in Share; without a Share they run at
	// once.
	Namespace string
	Share     *limit.Share
}

// kind is a supported Receiver type.
type kind struct {
	make func(Credentials) (scheme, error)
	// keys are the keys of the Secret that the type reads beside the token.
	keys []string
	// noSecret says that the type has no Secret, and with it no token.
	noSecret bool
	// byPath says that the type takes the path for proof.
	byPath bool
	// anyMethod says that a webhook may have another method than POST.
	anyMethod bool
}

// kinds are the supported Receiver types by name. A new type is one file and one row.
var kinds = map[string]kind{
	"acr":               {byPath: true, make: always(acr)},
	"bitbucket":         {make: newBitbucket},
	"cdevents":          {byPath: true, make: always(cdEvents)},
	"dockerhub":         {byPath: true, make: always(unsigned)},
	"gcr":               {keys: gcrKeys, make: newGCR},
	"generic":           {byPath: true, anyMethod: true, make: always(generic)},
	"generic-hmac":      {anyMethod: true, make: newHMAC},
	"generic-oidc":      {noSecret: true, make: newGenericOIDC},
	"gitea":             {make: newGitea},
	"github":            {make: newGitHub},
	"gitlab":            {make: newGitLab},
	"harbor":            {make: newHarbor},
	"nexus":             {make: newNexus},
	"quay":              {byPath: true, make: always(unsigned)},
	"standard-webhooks": {make: newStandardWebhooks},
}

// always makes the scheme of a type that needs no credentials.
func always(s scheme) func(Credentials) (scheme, error) {
	return func(Credentials) (scheme, error) { return s, nil }
}

// SecretKeys returns the keys of the Secret that a type reads beside the token.
func SecretKeys(name string) []string { return slices.Clone(kinds[name].keys) }

// NeedsSecret reports whether a type reads a Secret, from whose token its path is made. It returns true for an unknown
// type.
func NeedsSecret(name string) bool { return !kinds[name].noSecret }

// ProvesByPath reports whether a type takes the path for proof.
func ProvesByPath(name string) bool { return kinds[name].byPath }

// TakesMethod reports whether webhooks of a type may have a method. CONNECT asks for a tunnel (RFC 9110, section 9.3.6), and what follows an
// answer of 2xx on its connection is no HTTP.
func TakesMethod(name, method string) bool {
	return method == http.MethodPost || kinds[name].anyMethod && method != http.MethodConnect
}

// Types returns the supported values of a Receiver's spec.type, in order.
func Types() []string { return slices.Sorted(maps.Keys(kinds)) }

// Supports reports whether name is a supported value of spec.type.
func Supports(name string) bool {
	_, ok := kinds[name]
	return ok
}

// ErrEmptyToken says that a Secret's token is empty. An empty key authenticates everybody without a signature or with a
// signature of that key, so such a Receiver is not served.
var ErrEmptyToken = errors.New("token is empty")

// MissingKeyError names a key that the type needs beside the token and that is missing from the Secret, or empty.
type MissingKeyError struct{ Key string }

func (e *MissingKeyError) Error() string {
	return fmt.Sprintf("the Secret's key %q is missing or empty", e.Key)
}

// UnsupportedTypeError names a Receiver's type that is not supported.
type UnsupportedTypeError struct{ Type string }

func (e *UnsupportedTypeError) Error() string {
	return fmt.Sprintf("receiver type %q is not supported; supported types: %s", e.Type, strings.Join(Types(), ", "))
}

// New compiles the verification of one Receiver type. It returns an *UnsupportedTypeError, ErrEmptyToken, a
// *MissingKeyError, an *ExpressionError (joined with the other faults of spec.oidcProviders), or an error that names the unfit credential
// without quoting it.
func New(name string, c Credentials) (Verifier, error) {
	k, ok := kinds[name]
	switch {
	case !ok:
		return nil, &UnsupportedTypeError{Type: name}
	case len(c.Token) == 0 && !k.noSecret:
		return nil, ErrEmptyToken
	}
	c.Token = slices.Clone(c.Token)
	s, err := k.make(c)
	if err != nil {
		return nil, err
	}
	return &verifier{s, name, c.Namespace, c.Share}, nil
}

// accepted is the Check of a request that its headers alone have proven, with the claims of its token.
type accepted struct{ claims RawClaims }

func (accepted) Write(p []byte) (int, error)        { return len(p), nil }
func (a accepted) Finish([]byte) (RawClaims, error) { return a.claims, nil }
