package receiver

import (
	"context"
	"net/http"
)

// dockerHub cannot sign: like generic it authenticates by its path.
type dockerHub struct{ generic }

func newDockerHub(Credentials) (Verifier, error) { return dockerHub{}, nil }

func (dockerHub) Type() string { return "dockerhub" }

func (dockerHub) Parse(_ context.Context, _ http.Header, body []byte) (Content, error) {
	var payload struct {
		Push struct {
			Tag string `json:"tag"`
		} `json:"push_data"`
		Repository struct {
			URL string `json:"repo_url"`
		} `json:"repository"`
	}
	if err := decodeJSON(body, &payload); err != nil {
		return Content{}, err
	}
	if payload.Push.Tag == "" || payload.Repository.URL == "" {
		return Content{}, refusedField
	}
	return Content{Document: body}, nil
}
