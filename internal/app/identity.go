package app

import (
	"strconv"

	"notifier/internal/reconcile/identity"
)

// WorkloadIdentityGate is Flux's name of the feature gate with which Providers log in to a cloud as a service account of their namespace.
const WorkloadIdentityGate = "ObjectLevelWorkloadIdentity"

// workloadIdentity reports whether the gate is enabled.
func (o Options) workloadIdentity() (bool, error) {
	value, ok := o.FeatureGates[WorkloadIdentityGate]
	if !ok {
		return false, nil
	}
	return strconv.ParseBool(value)
}

// identities returns the service accounts of Providers, nil while the gate is disabled.
func (a *App) identities() (*identity.Accounts, error) {
	if open, err := a.options.workloadIdentity(); err != nil || !open {
		return nil, err
	}
	return identity.New(identity.NewSource(a.clients.accounts), a.options.TokenCacheSize, a.options.TokenCacheAge), nil
}
