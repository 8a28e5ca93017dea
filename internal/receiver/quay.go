package receiver

import (
	"context"
	"net/http"
)

// quay cannot sign: like generic it authenticates by its path. Its notifications about builds, mirrors and vulnerabilities name
// no updated tags.
type quay struct{ generic }

func newQuay(Credentials) (Verifier, error) { return quay{}, nil }

func (quay) Type() string { return "quay" }

func (quay) Parse(_ context.Context, _ http.Header, body []byte) (Content, error) {
	var payload struct {
		Repository string      `json:"docker_url"`
		Tags       []anyString `json:"updated_tags"`
	}
	if err := decodeJSON(body, &payload); err != nil {
		return Content{}, err
	}
	if payload.Repository == "" {
		return Content{}, refusedField
	}
	return Content{Document: body}, nil
}
