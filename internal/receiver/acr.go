package receiver

import (
	"context"
	"net/http"
)

// acr cannot sign: like generic it authenticates by its path. A manifest that is deleted by its digest has no tag, and a ping
// has no target.
type acr struct{ generic }

func newACR(Credentials) (Verifier, error) { return acr{}, nil }

func (acr) Type() string { return "acr" }

func (acr) Parse(_ context.Context, _ http.Header, body []byte) (Content, error) {
	var payload struct {
		ID     string `json:"id"`
		Action string `json:"action"`
		Target struct {
			Repository string `json:"repository"`
			Tag        string `json:"tag"`
		} `json:"target"`
	}
	if err := decodeJSON(body, &payload); err != nil {
		return Content{}, err
	}
	e := Event{Ping: payload.Action == "ping", Delivery: payload.ID}
	if !e.Ping && (payload.Action == "" || payload.Target.Repository == "") {
		return Content{}, refusedField
	}
	return Content{Event: e, Document: body}, nil
}
