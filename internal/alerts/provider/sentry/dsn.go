package sentry

import (
	"errors"
	"net/url"
	"regexp"
	"strings"

	"notifier/internal/alerts/provider"
)

// dsn is a project's address with its public key, as Sentry shows it under the project's client keys.
type dsn struct {
	scheme, host string
	// prefix is the path that Sentry is installed under, empty or with a leading slash.
	prefix string
	// key is the public key, and project the project's number.
	key, project string
}

var errDSN = errors.New("address is no DSN; copy it whole from the project's client keys, with the key and the project's number")

func parseDSN(address string) (dsn, error) {
	address = strings.TrimSpace(address)
	if address == "" {
		return dsn{}, provider.ErrNoAddress
	}
	u, err := url.Parse(address)
	if err != nil {
		return dsn{}, errors.New("address is not a valid URL")
	}
	path := strings.TrimSuffix(u.Path, "/")
	slash := strings.LastIndex(path, "/")
	if u.User.Username() == "" || u.Host == "" || slash < 0 || path[slash+1:] == "" {
		return dsn{}, errDSN
	}
	return dsn{scheme: u.Scheme, host: u.Host, prefix: path[:slash], key: u.User.Username(), project: path[slash+1:]}, nil
}

// envelopes returns the endpoint of the project's envelopes.
func (d dsn) envelopes() string { return d.at("/api/" + d.project + "/envelope/").String() }

// ingest matches the hosts of Sentry's own service that accept events: the organization's number and, unless it is the first region,
// the region.
var ingest = regexp.MustCompile(`^o([0-9]{1,19})\.ingest\.(?:([a-z0-9-]+)\.)?sentry\.io$`)

// api returns the root of the web API and the organization's number. Sentry's own service has the API on another host than events,
// which depends on the region. Another Sentry has both on one host, and its DSN does not name the organization.
func (d dsn) api() (root *url.URL, organization string) {
	host, _, _ := strings.Cut(strings.ToLower(d.host), ":")
	m := ingest.FindStringSubmatch(strings.TrimSuffix(host, "."))
	switch {
	case m == nil:
		return d.at("/api/0"), ""
	case m[2] == "":
		return &url.URL{Scheme: "https", Host: "sentry.io", Path: "/api/0"}, m[1]
	default:
		return &url.URL{Scheme: "https", Host: m[2] + ".sentry.io", Path: "/api/0"}, m[1]
	}
}

func (d dsn) at(path string) *url.URL {
	return &url.URL{Scheme: d.scheme, Host: d.host, Path: d.prefix + path}
}
