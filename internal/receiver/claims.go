package receiver

import (
	"slices"
	"strings"

	"notifier/internal/fair"
	"notifier/internal/receiver/verify"
)

// maxOnPath bounds the Receivers of one path, each of which verifies every webhook on that path.
const maxOnPath = 8

// pathRoutes are the Receivers of one path, nearly always one. The digest of a path does not separate the parts of its input (see Path), so
// a tenant can make a Receiver with the path of another tenant's Receiver. Each gets the webhooks that its own verification accepts, and
// neither can take them from the other. A pathRoutes is not changed once it is in the table.
type pathRoutes struct {
	// claims are all hooks with the path, and routes those that are served, both by priority. full are the owners of those beyond maxOnPath.
	claims, routes []*route
	full           []string
	// bodies is the capacity for bodies that several of them read, within that of tenant, or of Table.mixed if they are of several namespaces.
	bodies *fair.Capacity
	tenant *tenant
}

// claim replaces one owner's claim to path, nil to end it, and updates the Receivers served there.
func (t *Table) claim(path, key string, r *route) {
	was := t.at(path)
	if was == nil {
		was = &pathRoutes{}
	}
	claims := slices.DeleteFunc(slices.Clone(was.claims), func(c *route) bool { return c.owner.key == key })
	if r != nil {
		claims = append(claims, r)
	}
	if len(claims) == 0 {
		t.routes.Delete(path)
		return
	}
	is := t.served(ranked(claims), was)
	t.routes.Store(path, is)
	if t.moved == nil {
		return
	}
	for _, c := range claims {
		if slices.Contains(was.full, c.owner.key) != slices.Contains(is.full, c.owner.key) && c.owner.key != key {
			t.moved(c.owner.key)
		}
	}
}

// served returns the Receivers of a path, which has the capacity that it had unless the namespace changed.
func (t *Table) served(claims []*route, was *pathRoutes) *pathRoutes {
	fit := eligible(claims)
	n := min(len(fit), maxOnPath)
	s := &pathRoutes{claims: claims, routes: fit[:n], bodies: was.bodies, tenant: was.tenant}
	for _, c := range fit[n:] {
		s.full = append(s.full, c.owner.key)
	}
	if n < 2 {
		return s
	}
	within := t.mixed
	s.tenant = only(s.routes)
	if s.tenant != nil {
		within = t.ofTenant(s.tenant).bodies
	}
	if s.bodies == nil || s.tenant != was.tenant {
		s.bodies = within.Within(t.limits.Bodies.Path, 0)
	}
	return s
}

// only returns the namespace of all routes, nil if they are of several.
func only(routes []*route) *tenant {
	first := routes[0].owner.tenant
	if slices.ContainsFunc(routes, func(r *route) bool { return r.owner.tenant != first }) {
		return nil
	}
	return first
}

// eligible returns the claims that may be served. The path of a Receiver without a token can be computed from its name and namespace. There
// the path proves nothing, so a Receiver that takes the path for proof is left out. Its owner is not informed: that would disclose the
// other Receiver.
func eligible(claims []*route) []*route {
	if !slices.ContainsFunc(claims, func(r *route) bool { return !verify.NeedsSecret(r.hook.Verifier.Type()) }) {
		return claims
	}
	return slices.DeleteFunc(slices.Clone(claims), func(r *route) bool { return verify.ProvesByPath(r.hook.Verifier.Type()) })
}

// ranked orders claims to one path by priority, the same on every replica: one of each namespace, then the next of each, so that a
// namespace with many claims does not exclude another.
func ranked(claims []*route) []*route {
	slices.SortFunc(claims, byPriority)
	turn, seen := make(map[*route]int, len(claims)), map[string]int{}
	for _, c := range claims {
		turn[c] = seen[c.owner.tenant.namespace]
		seen[c.owner.tenant.namespace]++
	}
	slices.SortStableFunc(claims, func(a, b *route) int { return turn[a] - turn[b] })
	return claims
}

// byPriority orders claims to one path. The type without a token is first, since its name and namespace are enough to choose a token that
// makes its path. Then the older Receiver is first, then the lesser key.
func byPriority(a, b *route) int {
	if a, b := verify.NeedsSecret(a.hook.Verifier.Type()), verify.NeedsSecret(b.hook.Verifier.Type()); a != b {
		if b {
			return -1
		}
		return 1
	}
	if c := a.hook.Created.Compare(b.hook.Created); c != 0 {
		return c
	}
	return strings.Compare(a.owner.key, b.owner.key)
}
