// Package spiffe authenticates the clients of a listener by mutual TLS with X509-SVIDs: the process shows its own, and a client must show
// that of a peer.
//
// The SVID of the process and the certificate authorities of the trust domains come from a SPIFFE runtime, such as SPIRE, by the SPIFFE
// Workload API. A Source follows both. Until it has them, and for a client without an SVID or with that of another workload, the
// handshake fails. Sources: https://github.com/spiffe/spiffe/tree/main/standards, SPIFFE-ID.md, X509-SVID.md and SPIFFE_Workload_API.md.
package spiffe
