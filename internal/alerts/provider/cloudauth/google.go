package cloudauth

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"notifier/internal/alerts/provider"
)

// The annotations by which a service account names its identity at Google Cloud: Flux's and GKE's.
const (
	googleProvider = "gcp.auth.fluxcd.io/workload-identity-provider"
	googleAccount  = "iam.gke.io/gcp-service-account"
)

const (
	googleTokens        = "https://sts.googleapis.com/v1/token" //nolint:gosec // an address
	googleImpersonation = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/"
	googleScope         = "https://www.googleapis.com/auth/cloud-platform"
)

var (
	googleProviderForm = regexp.MustCompile(`^projects/[0-9]{1,20}/locations/global/workloadIdentityPools/` +
		`[^/\s]{1,100}/providers/[^/\s]{1,100}$`)
	googleAccountForm = regexp.MustCompile(`^[a-zA-Z0-9-]{1,100}@[a-zA-Z0-9.-]{1,150}$`)
)

// Google returns a Source of access tokens for a scope, such as "https://www.googleapis.com/auth/pubsub".
func Google(cfg provider.Config, scope string) (*Source, error) {
	s, err := newSource(cfg, "Google Cloud", googleTokens, googleWord)
	if err != nil {
		return nil, err
	}
	s.exchange = func(ctx context.Context, c *provider.Client) (accessToken, error) {
		annotations, err := cfg.Annotations(ctx)
		if err != nil {
			return accessToken{}, err
		}
		account := annotations[googleAccount]
		if account != "" && !googleAccountForm.MatchString(account) {
			return accessToken{}, misnamed(googleAccount, "is no e-mail address of a service account")
		}
		pool, err := googlePool(ctx, annotations[googleProvider])
		if err != nil {
			return accessToken{}, err
		}
		subject, err := cfg.Identity(ctx, pool.cluster)
		if err != nil {
			return accessToken{}, err
		}
		if account == "" {
			return federate(ctx, c, pool.google, scope, subject)
		}
		federated, err := federate(ctx, c, pool.google, googleScope, subject)
		if err != nil {
			return accessToken{}, err
		}
		return impersonate(ctx, c, account, scope, federated.value)
	}
	return s, nil
}

// audiences are those of a workload identity pool: cluster is the audience of the cluster's token, and google is Google's name of the
// pool.
type audiences struct{ cluster, google string }

// googlePool returns the audiences of the pool that the annotation names or, without one, of GKE's own.
func googlePool(ctx context.Context, annotation string) (audiences, error) {
	if annotation == "" {
		return gkePool(ctx)
	}
	if !googleProviderForm.MatchString(annotation) {
		return audiences{}, misnamed(googleProvider, "is no name of a provider of a workload identity pool")
	}
	name := "//iam.googleapis.com/" + annotation
	return audiences{cluster: name, google: name}, nil
}

// federate exchanges the cluster's token (RFC 8693).
func federate(ctx context.Context, c *provider.Client, audience, scope, subject string) (accessToken, error) {
	return grant(ctx, c, nil, url.Values{
		"grant_type":           {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"audience":             {audience},
		"scope":                {scope},
		"requested_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
		"subject_token_type":   {"urn:ietf:params:oauth:token-type:jwt"},
		"subject_token":        {subject},
	})
}

// impersonate returns a token of a Google service account that the federated identity may act as.
func impersonate(ctx context.Context, c *provider.Client, account, scope, federated string) (accessToken, error) {
	u, err := url.Parse(googleImpersonation + url.PathEscape(account) + ":generateAccessToken")
	if err != nil {
		return accessToken{}, errAnswer
	}
	var answer struct {
		AccessToken string    `json:"accessToken"`
		ExpireTime  time.Time `json:"expireTime"`
	}
	if err := post(ctx, c, provider.Request{
		URL: u, Header: http.Header{"Authorization": {"Bearer " + federated}},
		JSON: map[string]any{"scope": []string{scope}, "lifetime": "3600s"},
	}, &answer); err != nil {
		return accessToken{}, err
	}
	return bearer(answer.AccessToken, time.Until(answer.ExpireTime))
}

// GoogleStatus returns the status in a refusal by one of Google's APIs, or an empty string if the status is unknown.
var GoogleStatus = provider.WordAt("error.status",
	"ABORTED", "ALREADY_EXISTS", "CANCELLED", "DEADLINE_EXCEEDED", "FAILED_PRECONDITION", "INTERNAL", "INVALID_ARGUMENT", "NOT_FOUND",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "UNAUTHENTICATED", "UNAVAILABLE", "UNIMPLEMENTED", "UNKNOWN",
)

// googleWord returns the part of a refusal that is shown: OAuth's word of the Security Token Service, or the status of another API.
func googleWord(answer []byte) string {
	var refusal struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(answer, &refusal) != nil {
		return ""
	}
	var word string
	if json.Unmarshal(refusal.Error, &word) == nil {
		return provider.KnownWord(oauthErrors, word)
	}
	return GoogleStatus(answer)
}
