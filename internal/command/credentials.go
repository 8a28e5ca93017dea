package command

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/oauth2"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"notifier/internal/api/client"
	"notifier/internal/builtin"
)

// tokenSeconds is the lifetime of a requested token, in seconds.
const tokenSeconds = int64(3600)

// credentials returns a transport that adds the caller's token to each request and sends it by base. The token is requested for the service
// account that is named; if none is, it is from the kubeconfig or its plugin, else it is requested for the account "default". A certificate
// is not sent, since notifier cannot check it.
func (c *connection) credentials(ctx context.Context, kube *rest.Config, base http.RoundTripper) (http.RoundTripper, error) {
	if kube.Impersonate.UserName != "" {
		return nil, errors.New("the kubeconfig impersonates another user, which notifier's API does not do: use a context without \"as\"")
	}
	own := rest.CopyConfig(kube)
	own.Username, own.Password = "", "" // for the API server alone
	own.UserAgent = ""
	adding, err := rest.HTTPWrappersForConfig(own, base)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	c.token = func(ctx context.Context) (string, error) { return configured(ctx, own) }
	switch token, err := c.token(ctx); {
	case err != nil:
		return nil, err
	case token == "", c.serviceAccount != "":
	case len(c.audiences) > 0:
		return nil, UsageError{errors.New("--audience: your kubeconfig has a token, which is sent as it is; " +
			"with --service-account one is requested for that account")}
	case own.ExecProvider != nil:
		return renewing{adding, c.token}, nil
	default:
		return adding, nil
	}
	source := oauth2.ReuseTokenSource(nil, requested(func() (*oauth2.Token, error) { return c.requestToken(ctx, kube) }))
	c.token = func(context.Context) (string, error) {
		token, err := source.Token()
		if err != nil {
			return "", err
		}
		return token.AccessToken, nil
	}
	if _, err := c.token(ctx); err != nil {
		return nil, err
	}
	return &oauth2.Transport{Source: source, Base: base}, nil
}

// renewing is a transport that adds a plugin's token. The plugin need not say when that ends. It is asked again when a request is not
// authenticated, which is then sent once more if there is another token.
type renewing struct {
	http.RoundTripper
	token func(context.Context) (string, error)
}

func (t renewing) RoundTrip(r *http.Request) (*http.Response, error) {
	before, _ := t.token(r.Context()) // the request has the same error
	answer, err := t.RoundTripper.RoundTrip(r.Clone(r.Context()))
	if err != nil || answer.StatusCode != http.StatusUnauthorized {
		return answer, err
	}
	again := r.Clone(r.Context())
	if after, err := t.token(r.Context()); err != nil || after == before {
		return answer, nil // the first answer stands
	}
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return answer, nil // the first answer stands
		}
	}
	_ = answer.Body.Close()
	return t.RoundTripper.RoundTrip(again)
}

// requested is a source of tokens that are requested.
type requested func() (*oauth2.Token, error)

// Token implements [oauth2.TokenSource].
func (r requested) Token() (*oauth2.Token, error) { return r() }

// errSeen ends a request that is made only for its headers.
var errSeen = errors.New("seen")

// seen is a RoundTripper that sends nothing and keeps the header Authorization.
type seen struct{ authorization string }

func (s *seen) RoundTrip(r *http.Request) (*http.Response, error) {
	s.authorization = r.Header.Get("Authorization")
	return nil, errSeen
}

// configured returns the token of a configuration or of its plugin, empty for none.
func configured(ctx context.Context, config *rest.Config) (string, error) {
	s := &seen{}
	adding, err := rest.HTTPWrappersForConfig(config, s)
	if err != nil {
		return "", fmt.Errorf("kubeconfig: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://localhost/", nil)
	if err != nil {
		return "", err
	}
	answer, err := adding.RoundTrip(r)
	if answer != nil {
		_ = answer.Body.Close()
	}
	if !errors.Is(err, errSeen) {
		return "", fmt.Errorf("the kubeconfig's plugin gave no token: %w", err)
	}
	token, _ := strings.CutPrefix(s.authorization, "Bearer ")
	return token, nil
}

// requestToken requests a token of the service account from the API server.
func (c *connection) requestToken(ctx context.Context, kube *rest.Config) (*oauth2.Token, error) {
	namespace, err := c.ns()
	if err != nil {
		return nil, err
	}
	core, err := builtin.NewClient(kube, corev1.SchemeGroupVersion)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	seconds, account := tokenSeconds, cmp.Or(c.serviceAccount, "default")
	issued, err := builtin.Token(ctx, core, namespace, account, authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds, Audiences: c.audiences})
	if err != nil && c.serviceAccount == "" {
		return nil, fmt.Errorf("your kubeconfig has no token, and none was given for service account %s/%s (name another with --service-account): %w",
			namespace, account, err)
	}
	if err != nil {
		return nil, fmt.Errorf("--service-account: no token for %s/%s: %w", namespace, account, err)
	}
	c.account = namespace + "/" + account
	return &oauth2.Token{AccessToken: issued.Token, Expiry: issued.ExpirationTimestamp.Time}, nil
}

// advised adds to an error the flag that may mend it.
func (c *connection) advised(err error) error {
	e, ok := errors.AsType[*client.Error](err)
	switch {
	case !ok || c.account == "":
	case e.Status == http.StatusUnauthorized:
		return fmt.Errorf("%w; or name an audience of the API with --audience", err)
	case e.Status == http.StatusForbidden && c.serviceAccount == "": // the user may have the right
		return fmt.Errorf("%w; your kubeconfig has no token, so the request was that of service account %s: name another with --service-account",
			err, c.account)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("%w; name the file of its authority with --server-ca", err)
	}
	if _, ok := errors.AsType[*url.Error](err); ok && c.server != "" && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w; check the address of --server or $%s", err, serverVariable)
	}
	return err
}
