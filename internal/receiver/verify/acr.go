package verify

import (
	"errors"
	"net/http"
)

// acr serves Azure Container Registry, which cannot sign: like generic it authenticates by its path.
var acr = scheme{begin: provenByPath, parse: parseACR}

// parseACR reads the id and detects a ping, if present. The other fields only feed filters.
func parseACR(_ http.Header, body []byte) (Content, error) {
	var payload struct {
		ID     string `json:"id"`
		Action string `json:"action"`
	}
	if err := decodeJSON(body, &payload); errors.Is(err, refusedJSON) {
		return Content{}, err
	}
	return Content{Event: Event{Ping: payload.Action == "ping", Delivery: payload.ID}, Document: body}, nil
}
