package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "notifier/api/v1"
	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/registry"
	"notifier/internal/reconcile/kube"
	"notifier/internal/reconcile/secrets"
)

// The keys of the Secrets that a Provider names.
const (
	addressKey  = "address"
	usernameKey = "username"
	passwordKey = "password"
	headersKey  = "headers"
	proxyKey    = "proxy"
)

// maxHeadersText bounds the YAML of the key headers before it is parsed, in bytes.
const maxHeadersText = 20 << 10

// The keys that are read of a Provider's Secrets. Those of the type are added to mainKeys.
var (
	mainKeys  = []string{addressKey, tokenKey, usernameKey, passwordKey, headersKey, proxyKey}
	proxyKeys = []string{addressKey, usernameKey, passwordKey}
	certKeys  = provider.TLSKeys[:]
)

// credentials has the Secrets of a Provider, each nil if the spec does not name it.
type credentials struct{ main, proxy, cert *secrets.Secret }

// all returns the Secrets that are named.
func (c credentials) all() []*secrets.Secret {
	return slices.DeleteFunc([]*secrets.Secret{c.main, c.proxy, c.cert}, func(s *secrets.Secret) bool { return s == nil })
}

// secretReference is one reference of a spec, with the place for its Secret.
type secretReference struct {
	field string
	want  secrets.Want
	to    **secrets.Secret
}

// secretReferences returns the references of a spec, whose Secrets have their places in c.
func secretReferences(p *v1.Provider, c *credentials) []secretReference {
	var refs []secretReference
	add := func(field string, ref *v1.LocalObjectReference, to **secrets.Secret, w secrets.Want) {
		if ref != nil {
			w.Name = ref.Name
			refs = append(refs, secretReference{field, w, to})
		}
	}
	add("secretRef", p.Spec.SecretRef, &c.main, secrets.Want{Keys: slices.Concat(mainKeys, registry.Keys(p.Spec.Type))})
	add("proxySecretRef", p.Spec.ProxySecretRef, &c.proxy, secrets.Want{Keys: proxyKeys})
	add("certSecretRef", p.Spec.CertSecretRef, &c.cert, secrets.Want{Keys: certKeys, TLS: true})
	return refs
}

// checkProvider returns the fault of a spec, found without its Secrets, or nil.
func checkProvider(p *v1.Provider) *fault {
	if kube.IsUndecodable(p) {
		return undecodable()
	}
	if !registry.Builds(p.Spec.Type) {
		err := &registry.UnsupportedTypeError{Type: p.Spec.Type, Supported: registry.Types()}
		return &fault{reason: v1.UnsupportedTypeReason, message: err.Error()}
	}
	for _, ref := range secretReferences(p, &credentials{}) {
		if len(validation.IsDNS1123Subdomain(ref.want.Name)) > 0 {
			return invalidSpec("spec.%s.name is not the name of a Secret", ref.field)
		}
	}
	return nil
}

// wantsOf returns the wanted Secrets of references.
func wantsOf(refs []secretReference) []secrets.Want {
	wants := make([]secrets.Want, len(refs))
	for i, ref := range refs {
		wants[i] = ref.want
	}
	return wants
}

// readCredentials reads the Secrets that the spec names. It returns a fault for a missing or unfit Secret, and an error for a failed
// read.
func readCredentials(ctx context.Context, s *secrets.Store, p *v1.Provider) (c credentials, f *fault, err error) {
	refs := secretReferences(p, &c)
	states, err := s.Hold(ctx, secrets.User{Kind: v1.ProviderKind, Key: kube.KeyOf(p)}, wantsOf(refs)...)
	if err != nil {
		return c, nil, err
	}
	for i, ref := range refs {
		if !states[i].Found {
			return c, &fault{reason: v1.SecretNotFoundReason, retried: true, message: fmt.Sprintf(
				"Secret %q, named by spec.%s, does not exist: make it, or correct the name", ref.want.Name, ref.field)}, nil
		}
		if f := unfitSecret(states[i], ref.want.Name, ref.field); f != nil {
			return c, f, nil
		}
		*ref.to = &states[i]
	}
	return c, nil, nil
}

// slowText is the number of bytes of a Provider's Secrets from which on they are compiled in the namespace's turn. A chain of certificates, or
// an RSA key, which takes milliseconds, is longer.
const slowText = 1 << 10

// text returns the number of bytes of the Secrets, 0 for less than slowText.
func (c credentials) text() int {
	n := 0
	for _, s := range c.all() {
		for _, value := range s.Data {
			n += len(value.Value)
		}
	}
	if n < slowText {
		return 0
	}
	return n
}

// version returns a string that changes with the spec and with each Secret. It reveals nothing of the Secrets' values.
func (c credentials) version(p *v1.Provider) string {
	parts := []string{string(p.UID), strconv.FormatInt(p.Generation, 10)}
	for _, s := range c.all() {
		parts = append(parts, s.Version)
	}
	return strings.Join(parts, "/")
}

// written returns when the values of the Secrets were last written, zero for none.
func (c credentials) written() time.Time {
	var last time.Time
	for _, s := range c.all() {
		if s.Written.After(last) {
			last = s.Written
		}
	}
	return last
}

// maxTimeout is the longest duration of a send, which a Provider's spec cannot exceed: the send counts against the Provider's concurrency
// meanwhile.
const maxTimeout = 5 * time.Minute

// providerConfig returns the Config of a spec and its Secrets. Its errors quote nothing of a Secret.
func providerConfig(p *v1.Provider, c credentials, network provider.Network) (provider.Config, error) {
	cfg := provider.Config{
		Type: p.Spec.Type, Namespace: p.Namespace, UID: string(p.UID),
		Address: p.Spec.Address, Channel: p.Spec.Channel, Username: p.Spec.Username,
		ServiceAccount: p.Spec.ServiceAccountName, JetStream: p.Spec.JetStream,
		Timeout: min(p.Timeout(), maxTimeout), Network: network, Proxy: provider.Proxy{Address: p.Spec.Proxy},
	}
	var errs []error
	if a := p.Spec.ServiceAccountName; a != "" && len(validation.IsDNS1123Subdomain(a)) > 0 {
		errs = append(errs, errors.New("spec.serviceAccountName is not the name of a service account"))
	}
	if s := c.main; s != nil {
		cfg.Address = cmp.Or(strings.TrimSpace(s.Value(addressKey)), cfg.Address)
		name := s.Value(usernameKey)
		cfg.Username, cfg.SecretUsername = cmp.Or(name, cfg.Username), name != ""
		cfg.Password = s.Value(passwordKey)
		cfg.Token = s.Value(tokenKey)
		cfg.Values = valuesOf(s, registry.Keys(p.Spec.Type))
		cfg.Proxy.Address = cmp.Or(strings.TrimSpace(s.Value(proxyKey)), cfg.Proxy.Address)
		headers, err := parseHeaders([]byte(s.Value(headersKey)))
		cfg.Headers, errs = headers, append(errs, err)
	}
	if s := c.proxy; s != nil {
		cfg.Proxy = provider.Proxy{
			Address: strings.TrimSpace(s.Value(addressKey)), Username: s.Value(usernameKey), Password: s.Value(passwordKey),
		}
		if cfg.Proxy.Address == "" {
			errs = append(errs, errors.New(`the Secret of spec.proxySecretRef has no key "address"`))
		}
	}
	if s := c.cert; s != nil {
		cfg.TLS = provider.ReadTLS(s.Value)
		if len(cfg.TLS.CA)+len(cfg.TLS.Cert)+len(cfg.TLS.Key) == 0 {
			errs = append(errs, errors.New(`the Secret of spec.certSecretRef has none of the keys "ca.crt", "tls.crt" and "tls.key"`))
		}
	}
	return cfg, errors.Join(errs...)
}

// valuesOf returns a Secret's values under keys, without empty ones.
func valuesOf(s *secrets.Secret, keys []string) map[string]string {
	if len(keys) == 0 {
		return nil
	}
	values := make(map[string]string, len(keys))
	for _, key := range keys {
		if v := s.Value(key); v != "" {
			values[key] = v
		}
	}
	return values
}

// errHeaders does not quote the text, which is secret.
var errHeaders = errors.New("the Secret's key headers is not a map of strings in YAML")

// parseHeaders reads YAML that is one flat mapping of scalars, and refuses all other YAML. It refuses aliases, since a few kilobytes of
// them can expand to gigabytes.
func parseHeaders(text []byte) (map[string]string, error) {
	if len(text) > maxHeadersText {
		return nil, fmt.Errorf("the Secret's key headers is longer than %d bytes", maxHeadersText)
	}
	if len(text) == 0 { // most Secrets have no such key, and a parser has 4 KiB
		return nil, nil
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, errHeaders
	}
	if len(document.Content) == 0 {
		return nil, nil
	}
	mapping := document.Content[0]
	if mapping.Kind == yaml.ScalarNode && mapping.Tag == "!!null" {
		return nil, nil
	}
	if mapping.Kind != yaml.MappingNode {
		return nil, errHeaders
	}
	headers := make(map[string]string, len(mapping.Content)/2)
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		if key.Kind != yaml.ScalarNode || value.Kind != yaml.ScalarNode {
			return nil, errHeaders
		}
		if _, twice := headers[key.Value]; twice {
			return nil, errHeaders
		}
		headers[key.Value] = value.Value
	}
	return headers, nil
}

// sender builds the sender of a checked Provider with its credentials.
func (c *providerController) sender(p *v1.Provider, found credentials) (provider.Sender, *fault) {
	named, f := c.statusName(p)
	if f != nil {
		return nil, f
	}
	cfg, err := providerConfig(p, found, c.options.Network)
	if err != nil {
		return nil, &fault{reason: v1.InvalidConfigReason, message: oneLine(err)}
	}
	cfg.StatusName = named
	c.options.Identities.Give(&cfg, kube.Key{Namespace: p.Namespace, Name: p.Spec.ServiceAccountName})
	sender, err := registry.New(cfg)
	switch {
	case errors.Is(err, provider.ErrNoAddress):
		return nil, &fault{reason: v1.InvalidConfigReason, message: noAddress(p, err)}
	case errors.Is(err, provider.ErrDenied):
		return nil, &fault{reason: v1.InvalidConfigReason, message: oneLine(err) +
			"; use another, or have the administrator open it with --allow-destinations"}
	case err != nil:
		return nil, &fault{reason: v1.InvalidConfigReason, message: oneLine(err)}
	}
	return sender, nil
}

// noAddress returns the text about a missing address, which names the searched places, and about the other faults in err.
func noAddress(p *v1.Provider, err error) string {
	texts := []string{"spec.address is not set, and spec.secretRef names no Secret that has one: write one of them"}
	if ref := p.Spec.SecretRef; ref != nil {
		texts[0] = fmt.Sprintf("Secret %q, named by spec.secretRef, has no key %q, or it is empty, and spec.address is not set: write one of them",
			ref.Name, addressKey)
	}
	for text := range strings.Lines(err.Error()) {
		if text = strings.TrimSpace(text); text != provider.ErrNoAddress.Error() {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "; ")
}
