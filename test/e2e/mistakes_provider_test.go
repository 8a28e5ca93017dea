package e2e

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// generic returns the spec of a Provider of type generic whose Secret is "$NAME". fields is added to it.
func generic(fields string) string {
	return `{"type":"generic","secretRef":{"name":"$NAME"}` + fields + `}`
}

// notAKey and notACertificate are values of users that confuse the fields.
const (
	notACertificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	notAKey         = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
)

// withAddress is a field of a Provider. openly is the beginning of a complete spec.
const (
	withAddress = `,"address":"https://example.com"`
	openly      = `{"type":"generic"` + withAddress
)

// unserved completes the mistakes that a Provider shows before a notification is sent.
func unserved(rows map[string]mistake) map[string]mistake {
	for name, m := range rows {
		m.kind, m.condition = "Provider", "Serving"
		m.columns = map[string]string{"Delivering": "", "Last": "", "Waiting": ""}
		rows[name] = m
	}
	return rows
}

// providerMistakes are in a Provider's spec and in the Secret of its credentials.
func providerMistakes() map[string]mistake {
	return unserved(map[string]mistake{
		"a type that is not built": {
			spec: `{"type":"carrier-pigeon","address":"https://pigeon.example"}`, problem: `type "carrier-pigeon" is not supported`,
			next: "supported are alertmanager", reason: "UnsupportedType",
		},
		"a Provider's Secret is missing": {
			spec: generic(""), problem: "does not exist", next: "make it, or correct the name", reason: "SecretNotFound",
		},
		"a Provider's Secret has no address": {
			spec: generic(""), secret: map[string]string{"url": hush},
			problem: `has no key "address", or it is empty, and spec.address is not set`, next: "write one of them", reason: "InvalidConfig",
		},
		"a Provider without an address": {
			spec: `{"type":"generic"}`, problem: "spec.address is not set", next: "write one of them", reason: "InvalidConfig",
		},
		"a Provider's Secret belongs to Helm": {
			spec: generic(""), before: typedSecret, problem: "is of a type that belongs to Kubernetes or Helm",
			next: "make one of type Opaque", reason: "SecretDenied",
		},
		"a Provider's secretRef is not a name": {
			spec:    `{"type":"generic","secretRef":{"name":"My Secret"}}`,
			problem: "spec.secretRef.name is not the name of a Secret", reason: "ValidationFailed",
		},
		"an address with another scheme": {
			spec: generic(""), secret: map[string]string{"address": "ftp://" + hush},
			problem: "address has another scheme than https or http", next: "begin it with https: and two slashes", reason: "InvalidConfig",
		},
		"an address without a scheme": {
			spec: generic(""), secret: map[string]string{"address": hush + ".example.com/hook"},
			problem: "address has another scheme than https or http", next: "begin it with https: and two slashes", reason: "InvalidConfig",
		},
		"an address without a host": {
			spec: generic(""), secret: map[string]string{"address": "https:///" + hush}, problem: "address has an invalid host", reason: "InvalidConfig",
		},
		"Slack's API without a token": {
			spec:    `{"type":"slack","channel":"general","address":"https://slack.com/api/chat.postMessage"}`,
			problem: "the Secret's key token is missing", next: "write it into the Secret that spec.secretRef names", reason: "InvalidConfig",
		},
		"Slack's API without a channel": {
			spec:   `{"type":"slack","address":"https://slack.com/api/chat.postMessage","secretRef":{"name":"$NAME"}}`,
			secret: map[string]string{"token": hush}, problem: "chat.postMessage needs spec.channel", reason: "InvalidConfig",
		},
		"a token with a line break": {
			spec:   `{"type":"slack","channel":"general"` + withAddress + `,"secretRef":{"name":"$NAME"}}`,
			secret: map[string]string{"token": hush + "\n"}, problem: "the Secret's key token holds a space, a line end", reason: "InvalidConfig",
		},
		"a signature without a token": {
			spec: `{"type":"generic-hmac"` + withAddress + `}`, problem: "the Secret's key token is missing", reason: "InvalidConfig",
		},
		"a Provider is suspended": {
			spec: openly + `,"suspend":true}`, problem: "spec.suspend is set: nothing is sent", next: "unset it to go on", reason: "Suspended",
			event: "-",
		},
	})
}

// wayMistakes are in a Provider's settings for the way to its destination: headers, proxies, certificates, blocked
// addresses.
func wayMistakes() map[string]mistake {
	return unserved(map[string]mistake{
		"headers that are no map": {
			spec: generic(withAddress), secret: map[string]string{"headers": "Authorization " + hush},
			problem: "the Secret's key headers is not a map of strings in YAML", reason: "InvalidConfig",
		},
		"a header whose name is none": {
			spec: generic(withAddress), secret: map[string]string{"headers": `"X Team": ` + hush},
			problem: "headers has an entry whose name is not valid", reason: "InvalidConfig",
		},
		"a proxy's Secret is missing": {
			spec: openly + `,"proxySecretRef":{"name":"absent"}}`, problem: "named by spec.proxySecretRef, does not exist",
			next: "make it, or correct the name", reason: "SecretNotFound",
		},
		"a proxy's Secret has no address": {
			spec: openly + `,"proxySecretRef":{"name":"$NAME"}}`, secret: map[string]string{"proxy": hush},
			problem: `the Secret of spec.proxySecretRef has no key "address"`, reason: "InvalidConfig",
		},
		"a proxy with another scheme": {
			spec: openly + `,"proxySecretRef":{"name":"$NAME"}}`, secret: map[string]string{"address": "socks4://" + hush},
			problem: "proxy: address has another scheme than http or https or socks5", reason: "InvalidConfig",
		},
		"an address that is blocked": {
			spec: `{"type":"generic","address":"http://169.254.169.254/latest"}`, problem: "destination address is not allowed",
			next: "--allow-destinations", reason: "InvalidConfig",
		},
		"a proxy that is blocked": {
			spec: openly + `,"proxySecretRef":{"name":"$NAME"}}`, secret: map[string]string{"address": "http://169.254.169.254:3128"},
			problem: "proxy: destination address is not allowed", next: "--allow-destinations", reason: "InvalidConfig",
		},
		"a certificate's Secret is missing": {
			spec: openly + `,"certSecretRef":{"name":"absent"}}`, problem: "named by spec.certSecretRef, does not exist",
			next: "make it, or correct the name", reason: "SecretNotFound",
		},
		"a certificate's Secret has other keys": {
			spec: openly + `,"certSecretRef":{"name":"$NAME"}}`, secret: map[string]string{"ca.pem": hush},
			problem: `has none of the keys "ca.crt", "tls.crt" and "tls.key"`, reason: "InvalidConfig",
		},
		"an authority that is no certificate": {
			spec: openly + `,"certSecretRef":{"name":"$NAME"}}`, secret: map[string]string{"ca.crt": hush},
			problem: "ca.crt (or caFile) holds no valid certificate", next: "write blocks of PEM", reason: "InvalidConfig",
		},
		"a client's certificate without its key": {
			spec: openly + `,"certSecretRef":{"name":"$NAME"}}`, secret: map[string]string{"tls.crt": notACertificate},
			problem: "tls.crt and tls.key (or certFile and keyFile) come together or not at all", next: "write both", reason: "InvalidConfig",
		},
		"a client's certificate with another key": {
			spec:    openly + `,"certSecretRef":{"name":"$NAME"}}`,
			secret:  map[string]string{"tls.crt": notACertificate, "tls.key": notAKey},
			problem: "tls.crt and tls.key (or certFile and keyFile) are no valid pair", next: "write a certificate and its own key",
			reason: "InvalidConfig",
		},
	})
}

// sendingMistakes are those that a Provider shows when a notification is sent. tls is an address with an unknown
// certificate.
func sendingMistakes(tls string) map[string]mistake {
	to := func(address, fields string) string {
		return `{"type":"generic","address":"` + address + `"` + fields + `}`
	}
	return failing(map[string]mistake{
		"a wrong token": {
			spec: to("$SINK/wrong-token", ""), problem: "HTTP 401", next: "check the token", reason: "DeliveryFailed",
		},
		"a token without the right": {
			spec: to("$SINK/forbidden", ""), problem: "HTTP 403", next: "what it may do", reason: "DeliveryFailed",
		},
		"a wrong channel": {
			spec:    strings.Replace(to("$SINK/wrong-channel", `,"channel":"nowhere"`), "generic", "slack", 1),
			problem: "channel_not_found", next: "check spec.channel", reason: "DeliveryFailed",
		},
		"a wrong path": {
			spec: to("$SINK/wrong-path", ""), problem: "HTTP 404", next: "check the address", reason: "DeliveryFailed",
		},
		"a webhook that was deleted": {
			spec: to("$SINK/gone", ""), problem: "HTTP 410", next: "check the address", reason: "DeliveryFailed",
		},
		"a destination of another type": {
			spec: to("$SINK/wrong-type", ""), problem: "HTTP 400", next: "check type and address", reason: "DeliveryFailed",
		},
		"an address that moved": {
			spec: to("$SINK/moved", ""), problem: "redirects are not followed", next: "use the address that it leads to", reason: "DeliveryFailed",
		},
		"a port where nobody listens": {
			spec: to("http://127.0.0.1:1", ""), problem: "connection refused", next: "check host and port",
		},
		"a host that does not exist": {
			spec: to("https://no-such-host.invalid", ""), problem: "host name", next: "check the host name in the address",
		},
		"a destination that is too slow": {
			spec: to("$SINK/slow", `,"timeout":"1s"`), problem: "no answer in time", next: "raise spec.timeout",
		},
		"a certificate of an unknown authority": {
			spec: to(tls, ""), problem: "certificate is signed by an unknown authority", next: "ca.crt",
		},
		"https where http is spoken": {
			spec: to("$HTTPS", ""), problem: "host does not speak TLS", next: "check scheme and port",
		},
		"a proxy that does not run": {
			spec:   to("http://192.0.2.1", `,"proxySecretRef":{"name":"$NAME"}`),
			secret: map[string]string{"address": "http://127.0.0.1:1"}, problem: "proxy: connection refused", next: "check the proxy",
		},
	})
}

// failing completes the mistakes that show when a notification is sent.
func failing(rows map[string]mistake) map[string]mistake {
	for name, m := range rows {
		m.kind, m.condition = "Provider", "Delivering"
		if m.reason == "" { // it becomes DestinationUnavailable
			m.event = "DeliveryRetrying"
		}
		m.columns = map[string]string{"Delivering": "False", "Last": ""}
		m.before = func(s *fixture, name string) {
			s.Must(s.Tenant.Object(s.Ctx, "Alert", name, nil, strings.ReplaceAll(
				`{"providerRef":{"name":"$NAME"},"eventSources":[{"kind":"Kustomization","name":"$NAME"}]}`, "$NAME", name)))
		}
		m.act = func(s *fixture, name string) {
			s.Condition(s.Tenant, "Provider", name, "Serving", metav1.ConditionTrue, "")
			s.Condition(s.Tenant, "Alert", name, "Serving", metav1.ConditionTrue, "")
			s.tell(name)
		}
		rows[name] = m
	}
	return rows
}
