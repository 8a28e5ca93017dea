package conformance

import (
	"strings"

	"notifier/test/sender"
)

// unsigned returns a type whose sender proves only that it knows the path.
func unsigned(k kind) kind {
	k.secret = map[string]string{"token": token}
	return k
}

func harbor(*fixture) kind {
	push := sender.Harbor(token, sender.HarborPush)
	return kind{
		secret:   map[string]string{"token": token},
		accepted: map[string]sender.Webhook{"a push": push},
		refused: map[string]refusal{
			"another token":         {sender.Harbor("other", sender.HarborPush), badToken},
			"no token":              {push.With("Authorization", ""), noToken},
			"the token as a bearer": {sender.Harbor("Bearer "+token, sender.HarborPush), badToken},
		},
		sized: func(body string) sender.Webhook { return sender.Harbor(token, body) },
	}
}

func nexus(*fixture) kind {
	created := sender.Nexus(token, "asset", sender.NexusCreated)
	return kind{
		secret: map[string]string{"token": token},
		accepted: map[string]sender.Webhook{
			"created":     created,
			"in capitals": capitals(sender.Nexus(token, "asset", sender.NexusCreated), "X-Nexus-Webhook-Signature"),
		},
		repeats: true,
		refused: map[string]refusal{
			"signed with another token": {sender.Nexus("other", "asset", sender.NexusCreated), badSignature},
			"signed for another body":   {created.WithBody("{}"), badSignature},
			"not signed":                {created.With("X-Nexus-Webhook-Signature", ""), noSignature},
			"no JSON":                   {sender.Nexus(token, "asset", "created"), noJSON},
			"a list":                    {sender.Nexus(token, "asset", "[]"), badField},
		},
		sized: func(body string) sender.Webhook { return sender.Nexus(token, "asset", body) },
	}
}

func dockerhub(*fixture) kind {
	return unsigned(kind{
		accepted: map[string]sender.Webhook{
			"a push":             sender.DockerHub(sender.DockerHubPush),
			"no tag":             sender.DockerHub(strings.Replace(sender.DockerHubPush, `"tag"`, `"tog"`, 1)),
			"another registry's": sender.DockerHub(sender.QuayPush),
		},
		refused: map[string]refusal{
			"no JSON": {sender.DockerHub("v1"), noJSON},
		},
		sized: sender.DockerHub,
	})
}

func quay(*fixture) kind {
	return unsigned(kind{
		accepted: map[string]sender.Webhook{
			"a push": sender.Quay(sender.QuayPush), "no image": sender.Quay(`{"updated_tags":["v1"]}`), "another registry's": sender.Quay(sender.DockerHubPush),
		},
		refused: map[string]refusal{
			"no JSON": {sender.Quay("v1"), noJSON},
		},
		sized: sender.Quay,
	})
}

func acr(*fixture) kind {
	push := sender.ACR("push")
	return unsigned(kind{
		accepted: map[string]sender.Webhook{
			"a push": push, "a chart": sender.ACR("chart_push"), "no target": push.WithBody(`{"id":"1","action":"push"}`),
			"another registry's": push.WithBody(strings.Replace(sender.QuayPush, "{", `{"id":"2",`, 1)),
		},
		repeats: true,
		refused: map[string]refusal{
			"no JSON": {push.WithBody("v1"), noJSON},
		},
		pings: map[string]sender.Webhook{"a ping": sender.ACR("ping")},
		sized: sender.Generic,
	})
}

func cdevents(*fixture) kind {
	published := sender.CDEvent(sender.ArtifactPublished())
	return unsigned(kind{
		events: []string{"dev.cdevents.artifact.published.0.2.0", "dev.cdevents.pipelinerun.finished"},
		accepted: map[string]sender.Webhook{
			"of specification 0.4": published,
			"of 0.4, structured":   sender.CDEventStructured(sender.ArtifactPublished()),
		},
		repeats: true,
		refused: map[string]refusal{
			"an event that is not listed": {sender.CDEvent(sender.PipelineRunFinished()), notListed},
			"no JSON":                     {published.WithBody("finished"), noJSON},
			"a CloudEvent of something else": {
				published.WithBody(`{"context":{"version":"0.4.1","id":"1","source":"/ci","type":"dev.cdevents.cake.baked.0.1.0","timestamp":"2026-11-21T12:00:00Z"}}`),
				"body is not a CDEvent of specification 0.4 or 0.5",
			},
			"another type outside than inside": {
				published.With("Ce-Type", "dev.cdevents.artifact.signed.0.2.0"), "event types of CloudEvent and CDEvent differ",
			},
			"an event of 64 KiB and more": {published.WithBody(published.Body + strings.Repeat(" ", 64<<10)), "event is larger than 64 KiB"},
		},
		sized: sender.Generic,
	})
}
