package sender

import (
	"crypto/sha1" // the hash of Nexus
	"encoding/base64"
	"fmt"
)

// The bodies that registries send.
const (
	HarborPush    = `{"type":"PUSH_ARTIFACT","occur_at":1763731200,"operator":"dev","event_data":{"resources":[{"tag":"v1"}],"repository":{"repo_full_name":"team/app"}}}`
	DockerHubPush = `{"callback_url":"https://registry.hub.docker.com/u/team/app/hook/2i/","push_data":{"pushed_at":1763731200,"pusher":"dev","tag":"v1"},` +
		`"repository":{"repo_name":"team/app","repo_url":"https://registry.hub.docker.com/u/team/app/"}}`
	QuayPush     = `{"name":"app","repository":"team/app","namespace":"team","docker_url":"quay.io/team/app","homepage":"https://quay.io/repository/team/app","updated_tags":["v1"]}`
	NexusCreated = `{"timestamp":"2026-11-21T12:00:00.000+00:00","nodeId":"7FFA7361","initiator":"dev/127.0.0.1","repositoryName":"docker-hosted","action":"CREATED",` +
		`"asset":{"id":"1","format":"docker","name":"v2/team/app/manifests/v1"}}`
	GCRInsert = `{"action":"INSERT","digest":"europe-docker.pkg.dev/team/app@sha256:6ec128e2","tag":"europe-docker.pkg.dev/team/app:v1"}`
)

// Harbor sends the token as the whole Authorization header.
func Harbor(token, body string) Webhook { return webhook(body, "Authorization", token) }

// DockerHub proves only that it knows the address.
func DockerHub(body string) Webhook { return webhook(body) }

// Quay proves only that it knows the address.
func Quay(body string) Webhook { return webhook(body) }

// Nexus signs with bare HMAC-SHA1 and names the event in a header.
func Nexus(token, event, body string) Webhook {
	return webhook(body, "X-Nexus-Webhook-Id", "rm:repository:"+event, "X-Nexus-Webhook-Delivery", delivery(),
		"X-Nexus-Webhook-Signature", sign(sha1.New, token, body))
}

// ACR proves only that it knows the address. Its ping has no target.
func ACR(action string) Webhook {
	if action == "ping" {
		return webhook(fmt.Sprintf(`{"id":%q,"timestamp":"2026-11-21T12:00:00Z","action":"ping"}`, delivery()))
	}
	return webhook(fmt.Sprintf(`{"id":%q,"timestamp":"2026-11-21T12:00:00Z","action":%q,"target":{"mediaType":"application/vnd.oci.image.manifest.v1+json",`+
		`"digest":"sha256:80f0d5c8","repository":"team/app","tag":"v1"},"request":{"host":"team.azurecr.io","method":"PUT"}}`, delivery(), action))
}

// GCR returns the push of a Pub/Sub subscription on a registry's topic, with a token that Google signed.
func GCR(token, notification string) Webhook {
	id := delivery()
	return webhook(fmt.Sprintf(`{"message":{"data":%q,"messageId":%q,"publishTime":"2026-11-21T12:00:00Z"},"subscription":"projects/team/subscriptions/flux"}`,
		base64.StdEncoding.EncodeToString([]byte(notification)), id), "Authorization", "Bearer "+token)
}

// OIDC sends a token of an issuer with any body.
func OIDC(token, body string) Webhook { return webhook(body, "Authorization", "Bearer "+token) }
