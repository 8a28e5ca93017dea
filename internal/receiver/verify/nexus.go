package verify

import (
	"context"
	"net/http"
)

// newNexus serves Sonatype Nexus, which sends the bare hex of an HMAC-SHA1. As in Flux, its event's name does not select.
func newNexus(c Credentials) (scheme, error) {
	macs := newMACs(c.Token)
	return scheme{parse: parseNexus, begin: func(_ context.Context, h http.Header) (Check, error) {
		return macs.beginHex(macSHA1, h.Get("X-Nexus-Webhook-Signature"))
	}}, nil
}

func parseNexus(h http.Header, body []byte) (Content, error) {
	var payload struct {
		Action         string `json:"action"`
		RepositoryName string `json:"repositoryName"`
	}
	if err := decodeJSON(body, &payload); err != nil {
		return Content{}, err
	}
	return Content{Event: Event{Delivery: h.Get("X-Nexus-Webhook-Delivery")}, Document: body}, nil
}
