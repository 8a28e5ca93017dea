package verify

// newHarbor serves Harbor, which sends the token as the whole Authorization header, with no scheme unless the token begins
// with one. Only the body names its events, and as in Flux they do not select.
func newHarbor(c Credentials) (scheme, error) {
	return scheme{begin: newTokenDigest(c.Token).in("Authorization")}, nil
}
