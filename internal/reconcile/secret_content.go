package reconcile

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "notifier/api/v1"
	"notifier/internal/alerts/provider"
)

// Bounds on the kept value of one key of a Secret, in bytes. Certificate authorities may be a system's whole bundle.
const (
	maxSecretValue      = 32 << 10
	maxAuthoritiesValue = 256 << 10
)

// want is a Secret that a user refers to, with the keys to read.
type want struct {
	name string
	keys []string
	// tls allows a Secret of type kubernetes.io/tls: the keys are used for TLS alone, which sends none of them.
	tls bool
}

// secret is one user's part of a Secret: the keys that it wants.
type secret struct {
	// found reports whether the Secret exists.
	found bool
	// denied is the reason, for the owner, why an existing Secret may not be used. tooLong names a key over its bound.
	denied, tooLong string
	data            secretValues
	// version is the resource version of this state.
	version string
}

// String hides the values from logs.
func (s secret) String() string { return fmt.Sprintf("secret{found:%t}", s.found) }

// GoString is String.
func (s secret) GoString() string { return s.String() }

// LogValue is String.
func (s secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// value returns the value of a key, "" if there is none.
func (s secret) value(key string) string {
	value, _ := s.data.get(key)
	return value
}

// secretValues are the values of a few keys. There are tens of thousands of them, and a map is six times as large.
type secretValues []keyValue

type keyValue struct{ key, value string }

// get returns the value of a key, and whether there is one.
func (v secretValues) get(key string) (string, bool) {
	for i := range v {
		if v[i].key == key {
			return v[i].value, true
		}
	}
	return "", false
}

// unfit returns the fault of an object whose spec names the Secret in a field, nil if the Secret can be used.
func (s secret) unfit(name, field string) *fault {
	switch {
	case s.denied != "":
		return &fault{
			reason: v1.SecretDeniedReason, retried: true, event: v1.SecretDeniedReason,
			message: fmt.Sprintf("Secret %q, named by spec.%s, %s", name, field, s.denied),
		}
	case s.tooLong != "":
		return &fault{reason: v1.InvalidConfigReason, message: fmt.Sprintf("Secret %q, named by spec.%s, %s", name, field, s.tooLong)}
	}
	return nil
}

// secretContent is the kept part of a Secret, shared by all its users.
type secretContent struct {
	found bool
	use   use
	data  secretValues
	// long has the wanted keys whose values exceed their bound. Those values are not kept.
	long []string
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
	for _, reserved := range reservedDomains {
		if domain == reserved || strings.HasSuffix(domain, "."+reserved) {
			return useReserved
		}
	}
	return useAny
}

// contentOf returns the wanted keys of a Secret, and none if the Secret may not be used. The result does not keep object alive.
func contentOf(object *corev1.Secret, keys map[string]bool, labelled bool) secretContent {
	c := secretContent{found: true, use: useOf(object, labelled)}
	if c.use == useReserved || c.use == useUnlabelled {
		return c
	}
	for key := range keys {
		value, ok := object.Data[key]
		switch {
		case !ok || c.use == useTLS && !isTLSKey(key):
		case len(value) > bound(key):
			c.long = append(c.long, key)
		default:
			c.data = append(c.data, keyValue{key, string(value)})
		}
	}
	return c
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

// same reports whether two contents agree, except in the values of keys that known has as false.
func (c secretContent) same(other secretContent, known map[string]bool) bool {
	if c.found != other.found || c.use != other.use {
		return false
	}
	for key, isKnown := range known {
		was, had := c.data.get(key)
		is, has := other.data.get(key)
		if isKnown && (was != is || had != has || slices.Contains(c.long, key) != slices.Contains(other.long, key)) {
			return false
		}
	}
	return true
}

// pick returns one user's part of the content.
func (c secretContent) pick(w want) secret {
	s := secret{found: c.found}
	switch {
	case c.use == useUnlabelled:
		s.denied = fmt.Sprintf("lacks the label %s: %s, without which this installation uses no Secret; "+
			"whoever owns the Secret can set it", v1.SecretLabel, v1.SecretLabelValue)
	case c.use == useReserved || c.use == useTLS && !w.tls:
		s.denied = "is of a type that belongs to Kubernetes or Helm, and such a Secret is not used here; " +
			"make one of type Opaque that has the keys which are needed and nothing else"
	}
	if s.denied != "" {
		return s
	}
	for _, key := range w.keys {
		if value, ok := c.data.get(key); ok {
			s.data = append(s.data, keyValue{key, value})
		}
		if slices.Contains(c.long, key) {
			s.tooLong = fmt.Sprintf("has more than %d bytes under the key %s", bound(key), key)
		}
	}
	return s
}
