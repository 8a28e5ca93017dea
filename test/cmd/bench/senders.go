package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"notifier/test/env"
	"notifier/test/sender"
)

// receiverType is a type of Receiver and its sender.
type receiverType struct {
	name string
	// with is the kind of credentials, for a type that has two.
	with string
	// secret is the Secret's content, nil for a type without one. spec has the Receiver's fields beside the common ones,
	// each with a comma after it.
	secret map[string]string
	spec   string
	// webhook makes a webhook with an ID of its own, authentic from now on for some time.
	webhook func() sender.Webhook
}

const (
	// signingToken is a signing secret of Standard Webhooks.
	signingToken  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	googleAccount = "flux@team.iam.gserviceaccount.com"
	audience      = "flux"
)

// receiverTypes are all types that have a webhook. The issuer signs for those with tokens.
func receiverTypes(issuer *sender.Issuer) []receiverType {
	secret, signing := map[string]string{"token": token}, map[string]string{"token": signingToken}
	google := sender.Claims{"email": googleAccount, "email_verified": true}
	return []receiverType{
		{name: "acr", secret: secret, webhook: func() sender.Webhook { return sender.ACR("push") }},
		{name: "bitbucket", secret: secret, webhook: func() sender.Webhook { return sender.Bitbucket(token, "repo:push", sender.BitbucketPush) }},
		{name: "cdevents", secret: secret, webhook: func() sender.Webhook { return sender.CDEvent(sender.ArtifactPublished()) }},
		{name: "dockerhub", secret: secret, webhook: func() sender.Webhook { return sender.DockerHub(sender.DockerHubPush) }},
		{
			name: "gcr", secret: map[string]string{"token": token, "email": googleAccount, "audience": audience},
			webhook: func() sender.Webhook { return sender.GCR(issuer.Token(audience, google), sender.GCRInsert) },
		},
		{name: "generic", secret: secret, webhook: func() sender.Webhook { return sender.Generic("{}") }},
		{name: "generic-hmac", secret: secret, webhook: func() sender.Webhook { return sender.GenericHMAC(token, "sha256", sender.GitHubPush) }},
		{
			name: "generic-oidc", spec: fmt.Sprintf(`"oidcProviders":[{"issuerURL":%q,"audience":%q,"validations":[
				{"expression":"claims.repository.startsWith('team/')","message":"not our team"}]}],`, issuer.URL, audience),
			webhook: func() sender.Webhook {
				return sender.OIDC(issuer.Token(audience, sender.Claims{"repository": "team/app"}), sender.GitHubPush)
			},
		},
		{name: "gitea", secret: secret, webhook: func() sender.Webhook { return sender.Gitea(token, "push", sender.GiteaPush) }},
		{name: "github", secret: secret, webhook: func() sender.Webhook { return sender.GitHub(token, "push", sender.GitHubPush) }},
		{
			name: "gitlab", with: "secret token", secret: secret,
			webhook: func() sender.Webhook { return sender.GitLab(token, "Push Hook", sender.GitLabPush) },
		},
		{
			name: "gitlab", with: "signing token", secret: signing,
			webhook: func() sender.Webhook { return sender.GitLabSigned(signingToken, "Push Hook", sender.GitLabPush) },
		},
		{name: "harbor", secret: secret, webhook: func() sender.Webhook { return sender.Harbor(token, sender.HarborPush) }},
		{name: "nexus", secret: secret, webhook: func() sender.Webhook { return sender.Nexus(token, "asset", sender.NexusCreated) }},
		{name: "quay", secret: secret, webhook: func() sender.Webhook { return sender.Quay(sender.QuayPush) }},
		{
			name: "standard-webhooks", secret: signing,
			webhook: func() sender.Webhook { return sender.StandardWebhooks(signingToken, `{"type":"release.published"}`) },
		},
	}
}

// complete returns an error if the API has a type with a webhook that is not among these.
func complete(ctx context.Context, w *env.System, types []receiverType) error {
	names, err := w.WebhookTypes(ctx)
	for _, name := range names {
		if !slices.ContainsFunc(types, func(t receiverType) bool { return t.name == name }) {
			err = errors.Join(err, fmt.Errorf("type %s is in the API and not in the benchmark", name))
		}
	}
	return err
}

// row returns the name of the type in the table.
func (t receiverType) row() string {
	if t.with == "" {
		return t.name
	}
	return t.name + " with " + t.with
}

// receiver makes a Receiver of the type, on an object of its own, and returns its path once it is ready.
func (t receiverType) receiver(ctx context.Context, tenant *env.Tenant, name string) (path string, err error) {
	ref := ""
	if t.secret != nil {
		if err := tenant.Secret(ctx, name, t.secret); err != nil {
			return "", err
		}
		ref = fmt.Sprintf(`"secretRef":{"name":%q},`, name)
	}
	if err := tenant.Object(ctx, "GitRepository", name, nil, ""); err != nil {
		return "", err
	}
	spec := fmt.Sprintf(`{"type":%q,%s%s"resources":[{"kind":"GitRepository","name":%q}]}`, t.name, ref, t.spec, name)
	if err := tenant.Object(ctx, "Receiver", name, nil, spec); err != nil {
		return "", err
	}
	return tenant.ReceiverPath(ctx, name)
}
