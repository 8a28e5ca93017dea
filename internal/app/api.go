package app

import (
	"net"

	"notifier/internal/api"
	"notifier/internal/api/access"
	"notifier/internal/api/page"
	"notifier/internal/receiver/limit"
)

func (o Options) validateAPI(bad badFlag) {
	if o.APIAddr == "" {
		if o.APITLSCertFile != "" || o.APITLSKeyFile != "" || len(o.APIAudiences) > 0 {
			bad("api-addr", "is required with the other flags of the API")
		}
		return
	}
	if _, err := net.ResolveTCPAddr("tcp", o.APIAddr); err != nil {
		bad("api-addr", "%q is not an address of the form host:port or :port", o.APIAddr)
	}
	validatePair(bad, "api-", o.APITLSCertFile, o.APITLSKeyFile)
	for _, audience := range o.APIAudiences {
		if audience == "" {
			bad("api-audiences", "has an empty audience")
		}
	}
}

// apiStreams are enough for all watches of a user in the pages of one browser, and for what they read beside them.
const apiStreams = 32

// addAPI adds the listener of the API, unless it is off.
func (a *App) addAPI(all []listener, proxies limit.Proxies) ([]listener, error) {
	if a.options.APIAddr == "" {
		return all, nil
	}
	log := a.log.With("component", "api")
	authority, err := access.New(access.Options{
		Tokens: a.clients.tokens, Rights: a.clients.rights, Namespaces: a.clients.namespaces, Audiences: a.options.APIAudiences, Log: log, Registerer: a.registry,
	})
	if err != nil {
		return nil, err
	}
	service, err := api.New(api.Options{
		Authority: authority, Store: a.bus, Worker: a.bus, Explainer: a.router, Objects: a.reconcile, Proxies: proxies, Log: log,
		Audiences: a.options.APIAudiences,
	})
	if err != nil {
		return nil, err
	}
	handler, err := api.NewHandler(service, page.New(service, log), a.registry)
	if err != nil {
		return nil, err
	}
	a.listeners = append(a.listeners, part{"watches", handler.Run})
	return append(all, listener{
		name: "api", addr: a.options.APIAddr, handler: handler, cert: a.options.APITLSCertFile, key: a.options.APITLSKeyFile,
		streams: apiStreams,
	}), nil
}
