package secrets

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "notifier/api/v1"
	"notifier/internal/alerts/provider"
)

// Bounds on the kept value of one key of a Secret, in bytes. Certificate authorities may be a system's whole bundle.
const (
	maxSecretValue      = 32 << 10
	maxAuthoritiesValue = 256 << 10
)

// Want is a Secret that a user refers to, with the keys to read.
type Want struct {
	Name string
	Keys []string
	// TLS allows a Secret of type kubernetes.io/tls: the keys are used for TLS alone, which sends none of them.
	TLS bool
}

// Secret is one user's part of a Secret: the keys that it wants.
type Secret struct {
	// Found reports whether the Secret exists.
	Found bool
	// Denied is the reason, for the owner, why an existing Secret may not be used. TooLong names a key over its bound.
	Denied, TooLong string
	Data            Values
	// Version is the resource version of this state.
	Version string
	// Written is when the values were last written, by the API server's clock.
	Written time.Time
}

// String hides the values from logs.
func (s Secret) String() string { return fmt.Sprintf("Secret{Found:%t}", s.Found) }

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// LogValue is String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Value returns the value of a key, "" if there is none.
func (s Secret) Value(key string) string {
	value, _ := s.Data.get(key)
	return value
}

// Values are the values of a few keys. There are tens of thousands of them, and a map is six times as large.
type Values []Value

// Value is the value of one key.
type Value struct{ Key, Value string }

// get returns the value of a key, and whether there is one.
func (v Values) get(key string) (string, bool) {
	for i := range v {
		if v[i].Key == key {
			return v[i].Value, true
		}
	}
	return "", false
}

// content is the kept part of a Secret, shared by all its users.
type content struct {
	found bool
	use   use
	data  Values
	// long has the wanted keys whose values exceed their bound. Those values are not kept.
	long    []string
	written time.Time
}

// use is the permitted use of a Secret.
type use int

const (
	// useAny: the Secret is its owner's own, for any use.
	useAny use = iota
	// useTLS: its keys are a certificate with its key and authorities, for TLS only.
	useTLS
	// useReserved: it belongs to the cluster or to a program, not to the authors of Providers.
	useReserved
	// useUnlabelled: it lacks the label that this installation requires.
	useUnlabelled
)

// reservedDomains are those of the Secret types of Kubernetes, the projects around it and Helm: tokens of service accounts and of joining
// nodes, registry logins, kubeconfigs, the values of releases. The right to make a Provider in a namespace does not include the right to
// read these. So no Provider sends them out of the cluster, and no Receiver signs with them.
var reservedDomains = []string{"kubernetes.io", "k8s.io", "x-k8s.io", "helm.sh"}

// useOf returns the permitted use of a Secret, from its type, which is immutable, and its label.
func useOf(object *corev1.Secret, labelled bool) use {
	if labelled && object.Labels[v1.SecretLabel] != v1.SecretLabelValue {
		return useUnlabelled
	}
	if object.Type == corev1.SecretTypeTLS {
		return useTLS
	}
	domain, _, qualified := strings.Cut(string(object.Type), "/")
	if !qualified {
		return useAny
	}
	if slices.ContainsFunc(reservedDomains, func(of string) bool { return domain == of || strings.HasSuffix(domain, "."+of) }) {
		return useReserved
	}
	return useAny
}

// contentOf returns the wanted keys of a Secret, and none if the Secret may not be used. The result does not keep object alive.
func contentOf(object *corev1.Secret, keys []string, labelled bool) content {
	c := content{found: true, use: useOf(object, labelled), written: writtenAt(object)}
	if c.use == useReserved || c.use == useUnlabelled {
		return c
	}
	for _, key := range keys {
		value, ok := object.Data[key]
		switch {
		case !ok || c.use == useTLS && !isTLSKey(key):
		case len(value) > bound(key):
			c.long = append(c.long, key)
		default:
			c.data = append(c.data, Value{key, string(value)})
		}
	}
	return c
}

// writtenAt returns when the values of a Secret were last written, which is not when it was labelled, for example.
func writtenAt(object *corev1.Secret) time.Time {
	at := object.CreationTimestamp.Time
	for _, by := range object.ManagedFields {
		if by.Time != nil && by.FieldsV1 != nil && by.Time.After(at) && bytes.Contains(by.FieldsV1.GetRawBytes(), []byte(`"f:data"`)) {
			at = by.Time.Time
		}
	}
	return at
}

func bound(key string) int {
	if slices.Contains(provider.TLSKeys[:2], key) {
		return maxAuthoritiesValue
	}
	return maxSecretValue
}

func isTLSKey(key string) bool {
	return key == "ca.crt" || key == corev1.TLSCertKey || key == corev1.TLSPrivateKeyKey
}

// same reports whether two contents agree in the values of keys.
func (c content) same(other content, keys []string) bool {
	if c.found != other.found || c.use != other.use {
		return false
	}
	for _, key := range keys {
		was, had := c.data.get(key)
		is, has := other.data.get(key)
		if was != is || had != has || slices.Contains(c.long, key) != slices.Contains(other.long, key) {
			return false
		}
	}
	return true
}

// pick returns one user's part of the content.
func (c content) pick(w Want) Secret {
	s := Secret{Found: c.found, Written: c.written}
	switch {
	case c.use == useUnlabelled:
		s.Denied = fmt.Sprintf("lacks the label %s: %s, without which this installation uses no Secret; "+
			"whoever owns the Secret can set it", v1.SecretLabel, v1.SecretLabelValue)
	case c.use == useReserved || c.use == useTLS && !w.TLS:
		s.Denied = "is of a type that belongs to Kubernetes or Helm, and such a Secret is not used here; " +
			"make one of type Opaque that has the keys which are needed and nothing else"
	}
	if s.Denied != "" {
		return s
	}
	for _, key := range w.Keys {
		if value, ok := c.data.get(key); ok {
			s.Data = append(s.Data, Value{key, value})
		}
		if slices.Contains(c.long, key) {
			s.TooLong = fmt.Sprintf("has more than %d bytes under the key %s", bound(key), key)
		}
	}
	return s
}
