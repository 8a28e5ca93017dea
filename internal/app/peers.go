package app

import "notifier/internal/receiver/spiffe"

// The flags of the SPIFFE IDs of clients.
const (
	notifierIDs = "authorized-notifier-spiffe-id"
	receiverIDs = "authorized-receiver-spiffe-id"
)

func (o Options) validatePeers(bad badFlag) {
	o.validateIDs(bad, notifierIDs, o.AuthorizedNotifiers)
	o.validateIDs(bad, receiverIDs, o.AuthorizedReceivers)
	if len(o.AuthorizedReceivers) > 0 && o.TLSCertFile != "" {
		bad(receiverIDs, "and --tls-cert-file exclude each other: the certificate of the webhook endpoint is the X509-SVID of the process then")
	}
}

func (o Options) validateIDs(bad badFlag, flag string, ids []string) {
	if len(ids) == 0 {
		return
	}
	if _, err := spiffe.ParsePeers(ids); err != nil {
		bad(flag, "%v; it takes spiffe://<trust domain>/<path>, spiffe://<trust domain>/<path>/ and spiffe://<trust domain>", err)
	}
	if o.SPIFFESocket == "" {
		bad(flag, "needs the address of the SPIFFE Workload API, as unix:///path, in the environment variable SPIFFE_ENDPOINT_SOCKET")
	} else if err := spiffe.ValidateAddress(o.SPIFFESocket); err != nil {
		bad(flag, "the environment variable SPIFFE_ENDPOINT_SOCKET: %v", err)
	}
}
