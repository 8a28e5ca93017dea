package e2e

import "strings"

// matchingMistakes are those in an object's references: to other objects, another namespace, an account.
func matchingMistakes() map[string]mistake {
	const hook = `{"type":"github","events":["push"],"secretRef":{"name":"$NAME"},"resources":[%]}`
	resource := func(fields string) string { return strings.ReplaceAll(hook, "%", fields) }
	token := map[string]string{"token": hush}
	source := func(fields string) string {
		return strings.ReplaceAll(`{"providerRef":{"name":"$NAME-chat"},"eventSources":[%]}`, "%", fields)
	}
	chat := withChat(`{"type":"generic","address":"https://example.com"}`)
	return map[string]mistake{
		"a source whose kind is misspelt": {
			kind: "Alert", spec: source(`{"kind":"Kustomisation","name":"*"}`), before: chat, condition: "Matching", reason: "UnknownKind",
			problem: "no kind Kustomisation is known", next: "is Kustomization meant?",
		},
		"a source that does not exist": {
			kind: "Alert", spec: source(`{"kind":"Kustomization","name":"absent"}`), before: chat, condition: "Matching", reason: "NothingMatches",
			problem: `Kustomization "absent" does not exist`, next: "correct the name, or make it",
		},
		"labels that no source has": {
			kind: "Alert", spec: source(`{"kind":"Kustomization","name":"*","matchLabels":{"team":"nobody"}}`), before: chat,
			condition: "Matching", reason: "NothingMatches", problem: "matches none", next: "correct name and labels",
		},
		"a source of another namespace": {
			kind: "Alert", spec: source(`{"kind":"Kustomization","name":"app","namespace":"flux-system"}`), before: chat,
			condition: "Serving", reason: "CrossNamespaceDenied", problem: `is in namespace "flux-system"`, next: "own namespace only",
		},
		"a resource that does not exist": {
			kind: "Receiver", spec: resource(`{"kind":"GitRepository","name":"absent"}`), secret: token, condition: "Matching", reason: "NothingMatches",
			problem: `GitRepository "absent" does not exist`, next: "correct the name, or make it",
		},
		"a resource whose kind is misspelt": {
			kind: "Receiver", spec: resource(`{"kind":"GitRepositry","name":"app"}`), secret: token, condition: "Matching", reason: "UnknownKind",
			problem: "no kind GitRepositry is known", next: "is GitRepository meant?",
		},
		"a resource of another namespace": {
			kind: "Receiver", secret: token, condition: "Serving", reason: "CrossNamespaceDenied",
			spec:    resource(`{"kind":"GitRepository","name":"app","namespace":"flux-system"},{"kind":"GitRepository","name":"app"}`),
			problem: `is in namespace "flux-system"`, next: "own namespace only",
		},
		"a faulty resource beside another": {
			kind: "Receiver", secret: token, condition: "Serving", reason: "ValidationFailed", columns: map[string]string{"Ready": "True"},
			spec:    resource(`{"kind":"GitRepository","name":"*"},{"kind":"GitRepository","name":"app"}`),
			problem: `spec.resources[0]: name "*" needs matchLabels or matchExpressions`, next: "it is not served, the others are",
		},
		"an account that does not exist": {
			kind: "Receiver", secret: token, condition: "WriteDenied", reason: "ServiceAccountNotFound",
			spec:    strings.Replace(resource(`{"kind":"GitRepository","name":"app"}`), "{", `{"serviceAccountName":"absent",`, 1),
			problem: `service account "absent" does not exist`, next: "create it",
		},
	}
}
