package app

import (
	"net"
	"net/http"
	"net/http/pprof"
)

func (o Options) validateProfiles(bad badFlag) {
	if o.PprofAddr == "" {
		return
	}
	if addr, err := net.ResolveTCPAddr("tcp", o.PprofAddr); err != nil || !addr.IP.IsLoopback() {
		bad("pprof-addr", "%q is no loopback address with a port, such as localhost:6060; kubectl port-forward reaches it", o.PprofAddr)
	}
}

// profiles serves /debug/pprof/, where Flux's controllers serve it, without their command line: the URL of a NATS server in it may have a
// password.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}
