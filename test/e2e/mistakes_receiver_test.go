package e2e

import (
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
)

// onGitHub returns the spec of a Receiver of type github with the Secret "$NAME" for the GitRepository "$NAME". fields
// is added to it.
func onGitHub(fields string) string {
	return onResource(`"kind":"GitRepository","name":"$NAME"`, fields)
}

// onResource returns the same spec for another resource.
func onResource(resource, fields string) string {
	return `{"type":"github","secretRef":{"name":"$NAME"},"resources":[{` + resource + `}]` + fields + `}`
}

// pushes returns a function that sends a push of an event, signed with a token.
func pushes(token, event string) func(s *fixture, name string) {
	return func(s *fixture, name string) {
		s.Helper()
		path := s.Path(s.Tenant, name)
		_, err := s.GitHub(s.Ctx, path, token, event, env.GitHubPush)
		s.Must(err)
	}
}

// posts returns a function that sends a request with a body and headers.
func posts(header http.Header, body string) func(s *fixture, name string) {
	return func(s *fixture, name string) {
		s.Helper()
		path := s.Path(s.Tenant, name)
		_, err := s.Do(s.Ctx, http.MethodPost, s.HooksURL+path, header, []byte(body))
		s.Must(err)
	}
}

// typedSecret makes a Secret of the name with Helm's type.
func typedSecret(s *fixture, name string) {
	s.Helper()
	_, err := s.Tenant.Client.CoreV1().Secrets(s.Tenant.Namespace).Create(s.Ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: "helm.sh/release.v1", StringData: map[string]string{"token": hush, "address": hush},
	}, metav1.CreateOptions{})
	s.Must(err)
}

// weakAccount makes the service account "weak", which has no rights, and the GitRepository of a name.
func weakAccount(s *fixture, name string) {
	s.Helper()
	s.Must(s.Tenant.Apply(s.Ctx, `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"weak","namespace":"$NS"}}`))
	repository(s, name)
}

// notReady completes the mistakes that a Receiver shows before any webhook arrives.
func notReady(rows map[string]mistake) map[string]mistake {
	for name, m := range rows {
		m.kind, m.condition = "Receiver", "Ready"
		m.columns = map[string]string{"Ready": "False", "Accepted": "", "Last": ""}
		rows[name] = m
	}
	return rows
}

// tokenMistakes are in the parts of a Receiver other than its targets.
func tokenMistakes() map[string]mistake {
	token := map[string]string{"token": hush}
	return notReady(map[string]mistake{
		"a Receiver's Secret is missing": {
			spec: onGitHub(""), problem: "does not exist", next: `make it, with a key "token"`, reason: "TokenNotFound", event: "Failed",
		},
		"a Receiver's Secret has another key": {
			spec: onGitHub(""), secret: map[string]string{"tokn": hush},
			problem: `has no key "token", or it is empty`, next: "write it there, or correct the name", reason: "TokenNotFound", event: "Failed",
		},
		"a Receiver's token is empty": {
			spec: onGitHub(""), secret: map[string]string{"token": ""},
			problem: `has no key "token", or it is empty`, next: "write it there, or correct the name", reason: "TokenNotFound", event: "Failed",
		},
		"a gcr Receiver's Secret lacks the audience": {
			spec:    `{"type":"gcr","secretRef":{"name":"$NAME"},"resources":[{"kind":"GitRepository","name":"app"}]}`,
			secret:  map[string]string{"token": hush, "email": "robot@example.com"},
			problem: `has no key "audience", or it is empty`, next: "write it there, or correct the name", reason: "TokenNotFound", event: "Failed",
		},
		"a Receiver's Secret belongs to Helm": {
			spec: onGitHub(""), before: typedSecret, problem: "is of a type that belongs to Kubernetes or Helm",
			next: "make one of type Opaque", reason: "SecretDenied",
		},
		"a Receiver's secretRef is not a name": {
			spec:    `{"type":"github","secretRef":{"name":"My Secret"},"resources":[{"kind":"GitRepository","name":"app"}]}`,
			problem: "spec.secretRef.name is not the name of a Secret", reason: "ValidationFailed",
		},
		"a Receiver's token is too long": {
			spec: onGitHub(""), secret: map[string]string{"token": string(make([]byte, 33<<10))},
			problem: "has more than 32768 bytes under the key token", reason: "InvalidConfig",
		},
		"a Receiver's interval overflows": {
			spec: onGitHub(`,"interval":"99999999999h"`), secret: token,
			problem: "a value is outside what its field can hold, a duration that overflows for instance", reason: "ValidationFailed",
		},
	})
}

// targetMistakes are in a Receiver's resources and filters.
func targetMistakes() map[string]mistake {
	token := map[string]string{"token": hush}
	return notReady(map[string]mistake{
		"a Receiver's filter does not parse": {
			spec: onGitHub(`,"resourceFilter":"res.metadata.name =="`), secret: token,
			problem: "spec.resourceFilter", next: "Syntax error", reason: "InvalidCELExpression",
		},
		"a Receiver's filter reads what there is not": {
			spec: onGitHub(`,"resourceFilter":"object.metadata.name == 'x'"`), secret: token,
			problem: "spec.resourceFilter", next: "undeclared reference to 'object'", reason: "InvalidCELExpression",
		},
		"a Receiver's filter gives no boolean": {
			spec: onGitHub(`,"resourceFilter":"res.metadata.name"`), secret: token,
			problem: "spec.resourceFilter", next: "compare it", reason: "InvalidCELExpression",
		},
		"a resource's filter does not parse": {
			spec: onResource(`"kind":"GitRepository","name":"app","filter":"(("`, ""), secret: token,
			problem: "spec.resources[0].filter", next: "Syntax error", reason: "InvalidCELExpression",
		},
		"a star without labels": {
			spec: onResource(`"kind":"GitRepository","name":"*"`, ""), secret: token,
			problem: `name "*" needs matchLabels or matchExpressions`, next: "an empty map of matchLabels selects all", reason: "ValidationFailed",
		},
		"labels that are none": {
			spec: onResource(`"kind":"GitRepository","name":"*","matchLabels":{"team":"not a value"}`, ""), secret: token,
			problem: "spec.resources[0]", next: "matchLabels", reason: "ValidationFailed",
		},
		"an expression of labels with a wrong operator": {
			spec:   onResource(`"kind":"GitRepository","name":"*","matchExpressions":[{"key":"team","operator":"Is","values":["a"]}]`, ""),
			secret: token, problem: "matchExpressions[0].operator", next: "not a valid selector operator", reason: "ValidationFailed",
		},
		"expressions of labels beside a name": {
			spec:   onResource(`"kind":"GitRepository","name":"app","matchExpressions":[{"key":"team","operator":"Exists"}]`, ""),
			secret: token, problem: `matchExpressions narrow down what the name "*" selects`, reason: "ValidationFailed",
		},
		"an apiVersion that is none": {
			spec: onResource(`"apiVersion":"v1/beta/2","kind":"GitRepository","name":"app"`, ""), secret: token,
			problem: `apiVersion "v1/beta/2" is not of the form group/version`, reason: "ValidationFailed",
		},
		"a name that is none": {
			spec: onResource(`"kind":"GitRepository","name":"apps/app"`, ""), secret: token,
			problem: `name "apps/app" is not the name of an object`, reason: "ValidationFailed",
		},
		"a filter of a Receiver of events": {
			spec: `{"type":"event","eventSources":[{"kind":"ImagePolicy","name":"app"}],"resourceFilter":"true",
				"resources":[{"kind":"GitRepository","name":"app"}]}`,
			problem: "spec.resourceFilter is not supported for type event", reason: "UnsupportedField", event: "ValidationFailed",
		},
	})
}

// webhookMistakes are those of a Receiver that serves.
func webhookMistakes() map[string]mistake {
	token := map[string]string{"token": hush}
	refused := map[string]string{"Ready": "True", "Accepted": "", "Last": ""}
	rows := map[string]mistake{
		"a Receiver that may not patch": {
			spec: onGitHub(`,"serviceAccountName":"weak"`), secret: token, before: weakAccount, act: pushes(hush, "push"),
			problem: `service account "weak" may not patch gitrepositories.source.toolkit.fluxcd.io`,
			columns: map[string]string{"Ready": "True", "Accepted": "1"}, condition: "WriteDenied", reason: "Forbidden",
		},
		"a Receiver that is suspended": {
			spec: onGitHub(`,"suspend":true`), secret: token, problem: "spec.suspend is set", next: "unset it to go on",
			columns: map[string]string{"Ready": "True"},
		},
		"a sender with another secret": {
			spec: onGitHub(""), secret: token, act: pushes("another", "push"), columns: refused,
			problem: "the last webhook was not accepted", next: `compare the sender's secret with the key "token"`,
		},
		"a sender without a secret": {
			spec: onGitHub(""), secret: token, columns: refused,
			act:     posts(http.Header{"X-Github-Event": {"push"}}, "{}"),
			problem: "the last webhook was not accepted", next: `compare the sender's secret with the key "token"`,
		},
		"a sender of an event that is not listed": {
			spec: onGitHub(`,"events":["push"]`), secret: token, act: pushes(hush, "release"), columns: refused,
			problem: "event not listed", next: "add it to spec.events",
		},
	}
	for name, m := range rows {
		m.kind = "Receiver"
		if m.before == nil { // a missing object would be the first mistake, once the Receiver is some seconds old
			m.before = repository
		}
		rows[name] = m
	}
	return rows
}

// repository makes the GitRepository of a name.
func repository(s *fixture, name string) {
	s.Helper()
	s.Must(s.Tenant.Object(s.Ctx, "GitRepository", name, nil, ""))
}
