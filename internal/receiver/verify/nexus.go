package verify

import (
	"context"
	"net/http"
)

// nexus serves Sonatype Nexus, which sends the bare hex of an HMAC-SHA1. As in Flux, its event's name does not select.
type nexus struct{ macs *macs }

func newNexus(c Credentials) (scheme, error) { return nexus{newMACs(c.Token)}, nil }

func (v nexus) Begin(_ context.Context, h http.Header) (Check, error) {
	return v.macs.beginHex(macSHA1, h.Get("X-Nexus-Webhook-Signature"))
}

func (nexus) Event(h http.Header) Event {
	return Event{Delivery: h.Get("X-Nexus-Webhook-Delivery")}
}

func (v nexus) parse(h http.Header, body []byte) (Content, error) {
	var payload struct {
		Action         string `json:"action"`
		RepositoryName string `json:"repositoryName"`
	}
	if err := decodeJSON(body, &payload); err != nil {
		return Content{}, err
	}
	return Content{Event: v.Event(h), Document: body}, nil
}
