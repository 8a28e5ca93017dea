// Package secrets keeps the Secrets that Receivers and Providers name.
//
// RBAC lets the process read all Secrets, so the restriction is in the code. A Store reads only those that its users name, from their own
// namespace, one by one, and watches each until its last user releases it. It keeps the values of the used keys, once for all users and
// each up to a bound. Its Source has no method to list.
//
// The author of a Provider decides where a Secret is sent, and may lack the right to read it. So a Secret whose type marks it as the
// cluster's or a program's is not used (useOf), except that a Secret of type kubernetes.io/tls serves spec.certSecretRef.
// Options.Labelled further restricts the use to Secrets that their owners labelled.
package secrets
