package verify

import (
	"encoding/json"
	"net/http"
)

// unsigned serves Docker Hub and Quay, which cannot sign: like generic it authenticates by its path. Their fields only feed filters.
type unsigned struct {
	generic
	kind string
}

func newDockerHub(Credentials) (Verifier, error) { return unsigned{kind: "dockerhub"}, nil }
func newQuay(Credentials) (Verifier, error)      { return unsigned{kind: "quay"}, nil }

func (v unsigned) Type() string { return v.kind }

func (unsigned) parse(_ http.Header, body []byte) (Content, error) {
	if !json.Valid(body) {
		return Content{}, refusedJSON
	}
	return Content{Document: body}, nil
}
