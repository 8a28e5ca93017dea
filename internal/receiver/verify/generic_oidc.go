package verify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"notifier/internal/event"
	"notifier/internal/receiver/answer"
	"notifier/internal/receiver/cel"
	"notifier/internal/receiver/limit"
	"notifier/internal/receiver/oidc"
)

// defaultAudience is the audience of tokens for a provider that names none.
const defaultAudience = "notification-controller"

// Bounds on one Receiver's providers. Every webhook of its sender may have one provider's expressions evaluated.
const (
	maxProviders   = 16
	maxExpressions = 32 // of the variables, and of the validations, of a provider
	// maxMessages bounds in bytes the messages of failed validations in an answer.
	maxMessages = 1 << 10
)

const refusedVariable answer.Refusal = "a variable of the receiver cannot be evaluated for this token"

// OIDCProvider is an issuer whose tokens a Receiver of type generic-oidc accepts, with the demands on their claims.
type OIDCProvider struct {
	IssuerURL string
	// Audience is "notification-controller" if it is empty.
	Audience    string
	Variables   []OIDCVariable
	Validations []OIDCValidation
}

// OIDCVariable names the value of an expression over "claims", and over the "vars" before it.
type OIDCVariable struct {
	Name, Expression string
	program          *cel.Program
}

// OIDCValidation is an expression over "claims" and "vars" that must be true. If it is not, the answer quotes Message.
type OIDCValidation struct {
	Expression, Message string
	program             *cel.Program
}

// ExpressionError names an expression of a Receiver that cannot be compiled, and the reason.
type ExpressionError struct {
	// Field is the path of the expression in the spec.
	Field string
	Err   error
}

func (e *ExpressionError) Error() string { return e.Field + ": " + e.Err.Error() }

func (e *ExpressionError) Unwrap() error { return e.Err }

// genericOIDC accepts tokens of the issuers that the Receiver lists.
type genericOIDC struct {
	issuers   *oidc.Issuers
	namespace string
	share     *limit.Share
	providers map[string]*OIDCProvider // by issuer URL, compiled
}

func newGenericOIDC(c Credentials) (scheme, error) {
	switch {
	case c.Issuers == nil:
		return scheme{}, oidc.ErrNone
	case len(c.OIDC) == 0:
		return scheme{}, errors.New("spec.oidcProviders needs at least one entry")
	case len(c.OIDC) > maxProviders:
		return scheme{}, fmt.Errorf("spec.oidcProviders has more than %d entries", maxProviders)
	}
	v := genericOIDC{issuers: c.Issuers, namespace: c.Namespace, share: c.Share, providers: map[string]*OIDCProvider{}}
	var errs []error
	for i, p := range c.OIDC {
		field := fmt.Sprintf("spec.oidcProviders[%d]", i)
		if v.providers[p.IssuerURL] != nil {
			return scheme{}, fmt.Errorf("%s.issuerURL is that of another entry", field)
		}
		errs = append(errs, p.compile(field))
		v.providers[p.IssuerURL] = &p
	}
	if err := errors.Join(errs...); err != nil {
		return scheme{}, err
	}
	return scheme{begin: v.begin}, nil
}

// compile compiles a copy of an entry. It returns the entry's first fault, or all faults of its expressions.
func (p *OIDCProvider) compile(field string) error {
	if err := oidc.CheckAddress(p.IssuerURL); err != nil {
		return fmt.Errorf("%s.issuerURL %w", field, err)
	}
	if len(p.Validations) == 0 {
		// A signature only proves the issuer, and public issuers sign for anyone.
		return fmt.Errorf("%s.validations needs at least one entry", field)
	}
	if max(len(p.Variables), len(p.Validations)) > maxExpressions {
		return fmt.Errorf("%s has more than %d expressions of one sort", field, maxExpressions)
	}
	p.Audience = cmp.Or(p.Audience, defaultAudience)
	p.Variables, p.Validations = slices.Clone(p.Variables), slices.Clone(p.Validations)
	var errs []error
	for i := range p.Variables {
		v, err := &p.Variables[i], error(nil)
		v.program, err = compileClaim(fmt.Sprintf("%s.variables[%d].expression", field, i), v.Expression, cel.Any)
		errs = append(errs, err)
	}
	for i := range p.Validations {
		v, err := &p.Validations[i], error(nil)
		v.program, err = compileClaim(fmt.Sprintf("%s.validations[%d].expression", field, i), v.Expression, cel.Bool)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// compileClaim compiles the expression of a field, and returns an *ExpressionError if it is faulty.
func compileClaim(field, source string, result cel.Result) (*cel.Program, error) {
	program, err := cel.Compile(source, result, "claims", "vars")
	if err != nil {
		return nil, &ExpressionError{field, err}
	}
	return program, nil
}

func (v genericOIDC) begin(ctx context.Context, h http.Header) (Check, error) {
	token, err := oidc.Token(h)
	if err != nil {
		return nil, err
	}
	url, err := oidc.ClaimedIssuer(token)
	if err != nil {
		return nil, err
	}
	provider := v.providers[url]
	if provider == nil {
		return nil, oidc.RefusedIssuer
	}
	proven, err := v.issuers.Verify(ctx, token, oidc.Demand{
		Namespace: v.namespace, Issuer: url, Audience: provider.Audience, Share: v.share,
	})
	if err != nil {
		return nil, err
	}
	turn, ok := v.share.Enter(ctx, v.namespace, 0)
	if !ok {
		return nil, limit.ErrNoTurn
	}
	defer turn.Leave()
	var raw json.RawMessage
	var claims Claims
	if proven.Claims(&raw) != nil || json.Unmarshal(raw, &claims) != nil {
		return nil, oidc.RefusedBearer
	}
	limit.InTime(ctx, func(ctx context.Context) { err = provider.validate(ctx, claims) })
	if err != nil {
		return nil, err
	}
	return accepted{RawClaims(raw)}, nil
}

// validate returns nil for claims that pass all validations, else a Refusal with the messages of the failed ones. A
// validation that cannot be evaluated fails. All expressions share the time and the work of one, and so the memory of
// their values.
func (p *OIDCProvider) validate(ctx context.Context, claims Claims) error {
	budget := cel.NewBudget()
	read, values := map[string]any(claims), map[string]any{}
	for _, v := range p.Variables {
		value, err := budget.Eval(ctx, v.program, map[string]any{"claims": read, "vars": values})
		if err != nil {
			return refusedVariable
		}
		values[v.Name] = value
	}
	var messages []string
	for _, v := range p.Validations {
		if holds, err := budget.Bool(ctx, v.program, map[string]any{"claims": read, "vars": values}); err != nil || !holds {
			messages = append(messages, v.Message)
		}
	}
	if len(messages) == 0 {
		return nil
	}
	return answer.Refusal(event.Truncate(strings.Join(messages, "; "), maxMessages, ""))
}
