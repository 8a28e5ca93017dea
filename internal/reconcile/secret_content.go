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

// Bounds on what is kept of one key of a Secret, in bytes. Authorities may be a system's whole bundle.
const (
	maxSecretValue      = 32 << 10
	maxAuthoritiesValue = 256 << 10
)

// want is a Secret that a user refers to, and the keys of it that are read.
type want struct {
	name string
	keys []string
	// tls says that it may be a Secret of type kubernetes.io/tls: its keys are used for TLS alone, which sends neither of them.
	tls bool
}

// secret is what a user gets of a Secret: the keys that it wants.
type secret struct {
	// found is whether the Secret exists.
	found bool
	// denied says, for its owner, why nothing of a Secret that exists may be used; tooLong that a key is over its bound.
	denied, tooLong string
	data            map[string]string
	// version is the resource version at which this was read.
	version string
}

// String hides the values from logs.
func (s secret) String() string { return fmt.Sprintf("secret{found:%t}", s.found) }

// GoString is String.
func (s secret) GoString() string { return s.String() }

// LogValue is String.
func (s secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// value returns what is stored under a key, empty when there is nothing. It is not a copy.
func (s secret) value(key string) string { return s.data[key] }

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

// secretContent is what is kept of a Secret, for all its users together.
type secretContent struct {
	found bool
	use   use
	data  map[string]string
	// long has the wanted keys whose values are over their bound, which are not kept.
	long map[string]bool
}

// use says what a Secret may be used for.
type use int

const (
	// useAny: the Secret is its owner's own.
	useAny use = iota
	// useTLS: its keys are a certificate and what belongs to it.
	useTLS
	// useReserved: it belongs to the cluster or to a program, not to those who make Providers.
	useReserved
	// useUnlabelled: this installation wants a label, which it does not have.
	useUnlabelled
)

// reservedDomains are those of the types that Kubernetes, the projects around it and Helm give their own Secrets: tokens of service
// accounts and of nodes that join, registry logins, kubeconfigs, the values of releases. The right to make a Provider in a namespace is
// not the right to read these, so a Provider does not carry them out of the cluster, and a Receiver does not sign with them.
var reservedDomains = []string{"kubernetes.io", "k8s.io", "x-k8s.io", "helm.sh"}

// useOf decides what a Secret may be used for, from its type, which cannot be changed, and its label.
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

// contentOf takes the wanted keys out of a Secret, and none if the Secret may not be used. What it returns does not keep object alive.
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
			if c.long == nil {
				c.long = map[string]bool{}
			}
			c.long[key] = true
		default:
			if c.data == nil {
				c.data = make(map[string]string, len(keys))
			}
			c.data[key] = string(value)
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

// same reports whether two contents agree in all but the values of keys that are not known.
func (c secretContent) same(other secretContent, known map[string]bool) bool {
	if c.found != other.found || c.use != other.use {
		return false
	}
	for key, isKnown := range known {
		was, had := c.data[key]
		is, has := other.data[key]
		if isKnown && (was != is || had != has || c.long[key] != other.long[key]) {
			return false
		}
	}
	return true
}

// pick returns what one user gets.
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
	s.data = make(map[string]string, len(w.keys))
	for _, key := range w.keys {
		if value, ok := c.data[key]; ok {
			s.data[key] = value
		}
		if c.long[key] {
			s.tooLong = fmt.Sprintf("has more than %d bytes under the key %s", bound(key), key)
		}
	}
	return s
}
