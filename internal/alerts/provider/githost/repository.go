package githost

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"notifier/internal/alerts/provider"
)

// Repository is the place of a repository on a Git host.
type Repository struct {
	// Scheme is https, or http if the address has that scheme.
	Scheme string
	// Host is the host's name in lower case, with the port of an address for HTTP.
	Host string
	// Path is the path of the repository on the host, unescaped, without ".git" and slashes around it, such as "owner/name".
	Path string
}

// errNotARepository describes a valid address. It quotes nothing.
var errNotARepository = errors.New("address is not that of a Git repository: it has the host and the path of the repository, such as owner/name")

// ParseRepository parses the address of a repository in the forms that Git accepts: https and http, ssh, git, and "git@host:owner/name". It
// drops the port of an address for ssh or git, where the host has no API, and user, password, query and fragment. It does not check whether
// the host may be reached. The errors quote nothing.
func ParseRepository(address string) (Repository, error) {
	address, err := provider.TrimAddress(address)
	if err != nil {
		return Repository{}, err
	}
	u, err := url.Parse(expand(address))
	if err != nil || u.Opaque != "" || u.Host == "" {
		return Repository{}, errNotARepository
	}
	r := Repository{Scheme: u.Scheme, Host: strings.ToLower(u.Host)}
	switch u.Scheme {
	case "https", "http":
	case "ssh", "git", "git+ssh", "ssh+git":
		r.Scheme, r.Host = "https", strings.ToLower(u.Hostname())
		if strings.Contains(r.Host, ":") {
			r.Host = "[" + r.Host + "]"
		}
	default:
		return Repository{}, errors.New("address has another scheme than https, http or ssh: begin it with https: and two slashes")
	}
	r.Path = strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git")
	if slices.ContainsFunc(r.Segments(), unusable) {
		return Repository{}, errNotARepository
	}
	return r, nil
}

// expand returns an address of Git's own form "user@host:path" as an equivalent URL, and any other address unchanged.
func expand(address string) string {
	host, path, found := strings.Cut(address, ":")
	if !found || strings.Contains(host, "/") || strings.HasPrefix(path, "//") {
		return address
	}
	return "ssh://" + host + "/" + strings.TrimLeft(path, "/")
}

// unusable reports whether a segment cannot be part of a repository's path.
func unusable(segment string) bool {
	return segment == "" || segment == "." || segment == ".." ||
		strings.ContainsFunc(segment, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' })
}

// Base returns the address of the host, without a path.
func (r Repository) Base() string { return r.Scheme + "://" + r.Host }

// Below returns the address of a path on a host.
func Below(host string, path []string) string {
	escaped := make([]string, len(path))
	for i, segment := range path {
		escaped[i] = url.PathEscape(segment)
	}
	return host + "/" + strings.Join(escaped, "/")
}

// Segments returns the parts of the path.
func (r Repository) Segments() []string { return strings.Split(r.Path, "/") }

// OwnerAndName returns the two segments of the path, for hosts without groups within groups and without a path before the
// repositories.
func (r Repository) OwnerAndName() (owner, name string, err error) {
	if parts := r.Segments(); len(parts) == 2 {
		return parts[0], parts[1], nil
	}
	return "", "", errNotARepository
}
