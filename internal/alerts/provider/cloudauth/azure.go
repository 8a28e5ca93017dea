package cloudauth

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"time"

	"notifier/internal/alerts/provider"
)

// The annotations by which a service account names its identity at Entra ID. They are those of Azure's workload identity.
const (
	azureClientID = "azure.workload.identity/client-id"
	azureTenantID = "azure.workload.identity/tenant-id"
)

const (
	azureAudience  = "api://AzureADTokenExchange"
	azureAuthority = "https://login.microsoftonline.com"
	jwtAssertion   = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" // RFC 7523
)

// AuthorityHost returns the address of Entra ID. In a sovereign cloud the administrator names it by AZURE_AUTHORITY_HOST, the
// environment variable that Azure's own libraries read.
func AuthorityHost() string { return cmp.Or(os.Getenv("AZURE_AUTHORITY_HOST"), azureAuthority) }

// azureName matches the ID of a tenant or of an application: a GUID, or a tenant's domain.
var azureName = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.-]{0,252}$`)

// Azure returns a Source of access tokens for a scope, such as "https://eventhubs.azure.net//.default".
func Azure(cfg provider.Config, scope string) (*Source, error) {
	s, err := newSource(cfg, "Microsoft Entra ID", AuthorityHost(), azureWord)
	if err != nil {
		return nil, err
	}
	s.exchange = func(ctx context.Context, c *provider.Client) (accessToken, error) {
		annotations, err := cfg.Annotations(ctx)
		if err != nil {
			return accessToken{}, err
		}
		for _, name := range []string{azureClientID, azureTenantID} {
			if !azureName.MatchString(annotations[name]) {
				return accessToken{}, misnamed(name, "is missing or is no ID of Microsoft Entra ID")
			}
		}
		assertion, err := cfg.Identity(ctx, azureAudience)
		if err != nil {
			return accessToken{}, err
		}
		return grant(ctx, c, c.URL(annotations[azureTenantID], "oauth2", "v2.0", "token"), url.Values{
			"grant_type":            {"client_credentials"},
			"client_id":             {annotations[azureClientID]},
			"scope":                 {scope},
			"client_assertion_type": {jwtAssertion},
			"client_assertion":      {assertion},
		})
	}
	return s, nil
}

// bearer returns the token of an answer, which was issued now and has the given life. It returns errAnswer if the token is not fit for a
// header or its life is not positive.
func bearer(value string, life time.Duration) (accessToken, error) {
	if value == "" || life <= 0 || slices.ContainsFunc([]byte(value), func(c byte) bool { return c <= ' ' || c > '~' }) {
		return accessToken{}, errAnswer
	}
	life = min(life, maxAge)
	now := time.Now()
	return accessToken{value: value, renew: now.Add(life - life/renewShare), expiresAt: now.Add(life)}, nil
}

// entraCodes are the codes with which Entra ID refuses a federated login, with their meanings.
var entraCodes = map[int]string{
	50020:  "the user is of another tenant",
	53003:  "conditional access forbids it",
	70021:  "no federated credential matches the service account",
	90002:  "there is no such tenant",
	500011: "the scope is unknown in the tenant",
	700016: "there is no such application in the tenant",
	700024: "the token is outside its time",
	700027: "the token's signature does not verify",
	700211: "no federated credential has the cluster's issuer",
	700212: "no federated credential has the audience",
	700213: "no federated credential has the service account as its subject",
	700222: "the application's own tokens are no assertions",
}

var oauthErrors = []string{
	"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope", "invalid_target",
	"temporarily_unavailable", "server_error", "invalid_resource", "interaction_required",
}

// azureWord returns the part of Entra ID's refusal that is shown: the meaning of its code, or OAuth's word for it.
func azureWord(answer []byte) string {
	var refusal struct {
		Error string `json:"error"`
		Codes []int  `json:"error_codes"`
	}
	if json.Unmarshal(answer, &refusal) != nil {
		return ""
	}
	for _, code := range refusal.Codes {
		if meaning := entraCodes[code]; meaning != "" {
			return fmt.Sprintf("AADSTS%d: %s", code, meaning)
		}
	}
	return provider.KnownWord(oauthErrors, refusal.Error)
}
