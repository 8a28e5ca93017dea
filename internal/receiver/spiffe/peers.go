package spiffe

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// self in place of a trust domain means the one of the process.
const self = "self"

// Peers are the SPIFFE IDs of the clients that may connect.
type Peers []peer

// peer is one ID or several. The zero domain is that of the process.
type peer struct {
	domain spiffeid.TrustDomain
	// path is that of one ID. If it ends in a slash it is the beginning of the paths of several, and if it is empty all IDs of the trust
	// domain are meant.
	path string
}

// ParsePeers parses what Flux's flags for the SPIFFE IDs of peers accept: "spiffe://<trust domain>/<path>" is one ID, with a slash at the
// end all IDs below it, and without a path all IDs of the trust domain. The trust domain "self" is that of the process.
// Source: https://fluxcd.io/flux/integrations/spiffe-mtls/.
func ParsePeers(texts []string) (Peers, error) {
	var peers Peers
	for _, text := range texts {
		p, err := parsePeer(text)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		peers = append(peers, p)
	}
	return peers, nil
}

func parsePeer(text string) (peer, error) {
	id, err := spiffeid.FromString(strings.TrimSuffix(text, "/")) // no SPIFFE ID ends in a slash
	if err != nil {
		return peer{}, err
	}
	p := peer{domain: id.TrustDomain(), path: id.Path()}
	if strings.HasSuffix(text, "/") {
		if p.path == "" {
			return peer{}, errors.New("a trust domain has no slash at its end")
		}
		p.path += "/"
	}
	if p.domain.Name() == self {
		p.domain = spiffeid.TrustDomain{}
	}
	return p, nil
}

// include reports whether an ID is one of the peers', for a process whose trust domain is own.
func (p Peers) include(id spiffeid.ID, own spiffeid.TrustDomain) bool {
	return slices.ContainsFunc(p, func(p peer) bool {
		if p.domain.IsZero() {
			p.domain = own
		}
		switch {
		case id.TrustDomain() != p.domain:
			return false
		case p.path == "":
			return true
		case strings.HasSuffix(p.path, "/"):
			return strings.HasPrefix(id.Path(), p.path)
		default:
			return id.Path() == p.path
		}
	})
}
