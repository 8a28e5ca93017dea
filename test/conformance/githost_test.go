package conformance

import "notifier/test/sender"

const (
	noSignature  = "signature missing"
	badSignature = "signature mismatch"
	malformed    = "signature malformed"
	noToken      = "token missing"
	badToken     = "token mismatch"
	notListed    = "event not listed"
	contentType  = "content type not supported"
	noJSON       = "body is not valid JSON"
	badField     = "a field of the payload is missing or has the wrong type"
)

func github(*fixture) kind {
	push := sender.GitHub(token, "push", sender.GitHubPush)
	return kind{
		secret: map[string]string{"token": token}, events: []string{"push", "release"},
		accepted: map[string]sender.Webhook{
			"JSON":                       sender.GitHub(token, "push", sender.GitHubPush),
			"a form":                     sender.GitHubForm(token, "push", sender.GitHubPush),
			"of an old server":           sender.GitHub(token, "push", sender.GitHubPush).With("X-Hub-Signature-256", ""),
			"another event, in capitals": sender.GitHub(token, "RELEASE", sender.GitHubPush),
			"of Gitea":                   sender.Gitea(token, "push", sender.GiteaPush),
		},
		repeats: true,
		refused: map[string]refusal{
			"signed with another token":                  {sender.GitHub("other", "push", sender.GitHubPush), badSignature},
			"signed for another body":                    {push.WithBody(sender.GitHubPing), badSignature},
			"a bad signature beside a good one of SHA-1": {push.With("X-Hub-Signature-256", "sha256="+zeros(64)), badSignature},
			"not signed":                  {push.With("X-Hub-Signature-256", "").With("X-Hub-Signature", ""), noSignature},
			"an event that is not listed": {sender.GitHub(token, "issues", sender.GitHubPush), notListed},
			"no event":                    {push.With("X-GitHub-Event", ""), notListed},
			"another content type":        {push.With("Content-Type", "text/plain"), contentType},
		},
		pings: map[string]sender.Webhook{"a ping": sender.GitHub(token, "ping", sender.GitHubPing)},
		sized: func(body string) sender.Webhook { return sender.GitHub(token, "push", body) },
	}
}

func gitea(*fixture) kind {
	push := sender.Gitea(token, "push", sender.GiteaPush)
	return kind{
		secret: map[string]string{"token": token}, events: []string{"push"},
		accepted: map[string]sender.Webhook{
			"Gitea": push,
			"Gogs":  sender.Gitea(token, "push", sender.GiteaPush).With("X-Gitea-Signature", "").With("X-Gitea-Event", "").With("X-Hub-Signature-256", ""),
		},
		repeats: true,
		refused: map[string]refusal{
			"signed with another token": {sender.Gitea("other", "push", sender.GiteaPush), badSignature},
			"signed for another body":   {push.WithBody(sender.GitHubPush), badSignature},
			"a signature cut short":     {push.With("X-Gitea-Signature", zeros(10)), malformed},
			"not signed": {
				push.With("X-Gitea-Signature", "").With("X-Gogs-Signature", "").With("X-Hub-Signature-256", ""), noSignature,
			},
			"an event that is not listed": {sender.Gitea(token, "release", sender.GiteaPush), notListed},
			"a form":                      {push.With("Content-Type", "application/x-www-form-urlencoded"), contentType},
		},
		pings: map[string]sender.Webhook{"a ping": sender.Gitea(token, "ping", "{}")},
		sized: func(body string) sender.Webhook { return sender.Gitea(token, "push", body) },
	}
}

func gitlab(*fixture) kind {
	push := sender.GitLab(token, "Push Hook", sender.GitLabPush)
	return kind{
		secret: map[string]string{"token": token}, events: []string{"Push Hook"},
		accepted: map[string]sender.Webhook{"a push": push},
		repeats:  true,
		refused: map[string]refusal{
			"another token":               {push.With("X-Gitlab-Token", "other"), badToken},
			"no token":                    {push.With("X-Gitlab-Token", ""), noToken},
			"an event that is not listed": {sender.GitLab(token, "Tag Push Hook", sender.GitLabPush), notListed},
			"no event":                    {push.With("X-Gitlab-Event", ""), notListed},
		},
		sized: func(body string) sender.Webhook { return sender.GitLab(token, "Push Hook", body) },
	}
}

func gitlabSigned(*fixture) kind {
	push := sender.GitLabSigned(signingToken, "Push Hook", sender.GitLabPush)
	return kind{
		secret: map[string]string{"token": signingToken}, events: []string{"Push Hook"},
		accepted: map[string]sender.Webhook{"a push": push},
		repeats:  true,
		refused: map[string]refusal{
			"signed with another token":   {sender.GitLabSigned(otherSigningToken, "Push Hook", sender.GitLabPush), badSignature},
			"signed for another body":     {push.WithBody("{}"), badSignature},
			"not signed":                  {push.With("webhook-signature", ""), noSignature},
			"an event that is not listed": {sender.GitLabSigned(signingToken, "Tag Push Hook", sender.GitLabPush), notListed},
		},
		sized: func(body string) sender.Webhook { return sender.GitLabSigned(signingToken, "Push Hook", body) },
	}
}

func bitbucket(*fixture) kind {
	push := sender.Bitbucket(token, "repo:push", sender.BitbucketPush)
	return kind{
		secret: map[string]string{"token": token}, events: []string{"repo:push", "repo:refs_changed"},
		accepted: map[string]sender.Webhook{
			"Cloud":       push,
			"Data Center": sender.Bitbucket(token, "repo:refs_changed", sender.BitbucketPush),
		},
		repeats: true,
		refused: map[string]refusal{
			"signed with another token":   {sender.Bitbucket("other", "repo:push", sender.BitbucketPush), badSignature},
			"signed for another body":     {push.WithBody("{}"), badSignature},
			"not signed":                  {push.With("X-Hub-Signature", ""), noSignature},
			"a test that is badly signed": {sender.BitbucketTest().With("X-Hub-Signature", "sha256="+zeros(64)), badSignature},
			"an event that is not listed": {sender.Bitbucket(token, "pullrequest:created", sender.BitbucketPush), notListed},
			"another content type":        {push.With("Content-Type", "text/plain"), contentType},
		},
		pings: map[string]sender.Webhook{
			"a test connection":         sender.BitbucketTest(),
			"a test connection, signed": sender.Bitbucket(token, "diagnostics:ping", `{"test":true}`),
		},
		sized: func(body string) sender.Webhook { return sender.Bitbucket(token, "repo:push", body) },
	}
}
