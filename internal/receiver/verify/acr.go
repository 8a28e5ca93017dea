package verify

import (
	"encoding/json"
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
	document, err := firstJSON(body)
	if err != nil {
		return Content{}, err
	}
	_ = json.Unmarshal(document, &payload) // a field of another type is as good as none
	return Content{Event: Event{Ping: payload.Action == "ping", Delivery: payload.ID}, Document: document}, nil
}
