package spiffetest

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Runtime serves the SPIFFE Workload API to one workload.
type Runtime struct {
	// Address is what SPIFFE_ENDPOINT_SOCKET has to be.
	Address string
	workload.UnimplementedSpiffeWorkloadAPIServer

	mu      sync.Mutex
	answer  *workload.X509SVIDResponse
	failure error
	// changed is closed at the next change.
	changed chan struct{}
}

// NewRuntime serves until the test ends. It gives no SVID before Give is called.
func NewRuntime(t testing.TB) *Runtime {
	t.Helper()
	dir, err := os.MkdirTemp("", "spiffe") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "api.sock")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	r := &Runtime{Address: "unix://" + path, changed: make(chan struct{})}
	r.Fail(codes.PermissionDenied)
	s := grpc.NewServer()
	workload.RegisterSpiffeWorkloadAPIServer(s, r)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(l) // Stop ends it
	}()
	t.Cleanup(func() { s.Stop(); <-served })
	return r
}

// Give gives the workload an SVID of the trust domain of the first authority, and the certificates of all authorities. Those of one trust
// domain stand together.
func (r *Runtime) Give(t testing.TB, svid tls.Certificate, authorities ...*Authority) {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(svid.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	own := &workload.X509SVID{SpiffeId: svid.Leaf.URIs[0].String(), X509Svid: bytes.Join(svid.Certificate, nil), X509SvidKey: key}
	answer := &workload.X509SVIDResponse{Svids: []*workload.X509SVID{own}, FederatedBundles: map[string][]byte{}}
	for _, a := range authorities {
		if a.Domain == authorities[0].Domain {
			own.Bundle = append(own.Bundle, a.cert.Raw...)
			continue
		}
		answer.FederatedBundles["spiffe://"+a.Domain] = append(answer.FederatedBundles["spiffe://"+a.Domain], a.cert.Raw...)
	}
	r.change(answer, nil)
}

// Fail has the Workload API answer with an error, and end the streams that are open.
func (r *Runtime) Fail(code codes.Code) { r.change(nil, status.Error(code, "no identity issued")) }

func (r *Runtime) change(answer *workload.X509SVIDResponse, failure error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer, r.failure = answer, failure
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *Runtime) state() (answer *workload.X509SVIDResponse, changed <-chan struct{}, failure error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answer, r.changed, r.failure
}

// FetchX509SVID implements workload.SpiffeWorkloadAPIServer.
func (r *Runtime) FetchX509SVID(_ *workload.X509SVIDRequest, stream grpc.ServerStreamingServer[workload.X509SVIDResponse]) error {
	// The header keeps requests away that a workload is made to send: SPIFFE_Workload_Endpoint.md, section 6.1.
	if md, _ := metadata.FromIncomingContext(stream.Context()); len(md.Get("workload.spiffe.io")) != 1 {
		return status.Error(codes.InvalidArgument, "security header missing from request")
	}
	for {
		answer, changed, failure := r.state()
		if failure != nil {
			return failure
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}
