package reconcile

import (
	v1 "notifier/api/v1"
	"notifier/internal/receiver/verify"
)

// checkProviders refuses spec.oidcProviders of other types, which only the verifier of generic-oidc reads.
func checkProviders(r *v1.Receiver, _ *receiverPlan) *fault {
	if len(r.Spec.OIDCProviders) > 0 && r.Spec.Type != v1.GenericOIDCReceiver {
		return invalidSpec("spec.oidcProviders is for type generic-oidc, not %q", r.Spec.Type)
	}
	return nil
}

// providersOf returns a Receiver's providers in the form of package verify.
func providersOf(r *v1.Receiver) []verify.OIDCProvider {
	var providers []verify.OIDCProvider
	for _, p := range r.Spec.OIDCProviders {
		provider := verify.OIDCProvider{IssuerURL: p.IssuerURL, Audience: p.Audience}
		for _, v := range p.Variables {
			provider.Variables = append(provider.Variables, verify.OIDCVariable{Name: v.Name, Expression: v.Expression})
		}
		for _, v := range p.Validations {
			provider.Validations = append(provider.Validations, verify.OIDCValidation{Expression: v.Expression, Message: v.Message})
		}
		providers = append(providers, provider)
	}
	return providers
}
