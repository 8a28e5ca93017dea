package app

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/receiver"
)

// Fails when a flag's default is not what the package documents, or when a flag reaches another limit than its own.
func TestTheFlagsOfTheDoorReachTheirLimits(t *testing.T) {
	if diff := cmp.Diff(receiver.DefaultLimits(), DefaultOptions().limits()); diff != "" {
		t.Errorf("without flags (-want +got):\n%s", diff)
	}
	o := DefaultOptions()
	o.ClientFailureRate, o.PathFailureRate, o.NamespaceRate = 0.01, 2, 30
	o.ReceiverRate, o.ReceiverBurst, o.MaxInFlight, o.MaxBodiesInFlight = 4, 5, 160, 6<<20
	want := receiver.Limits{
		Unknown:  receiver.Budget{Rate: 0.01, Burst: 1},
		Failure:  receiver.Budget{Rate: 2, Burst: 20},
		Tenant:   receiver.Budget{Rate: 30, Burst: 150},
		Receiver: receiver.Budget{Rate: 4, Burst: 5},
		Requests: receiver.Caps{Path: 10, Namespace: 40, Total: 160, Reserve: 8},
		Bodies:   receiver.Caps{Path: 3 << 20, Namespace: 3 << 20, Total: 6 << 20},
		Wait:     receiver.DefaultLimits().Wait,
	}
	if diff := cmp.Diff(want, o.limits()); diff != "" {
		t.Errorf("with flags (-want +got):\n%s", diff)
	}
}

// Fails when settings that Validate accepts are refused as limits: the process would not start and name no flag.
func TestWhateverIsAValidOptionIsAValidLimit(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"all off": func(o *Options) {
			o.ClientFailureRate, o.PathFailureRate, o.NamespaceRate, o.ReceiverRate = 0, 0, 0, 0
			o.MaxInFlight, o.MaxBodiesInFlight = 0, 0
		},
		"the least":    func(o *Options) { o.MaxInFlight, o.MaxBodiesInFlight, o.NamespaceRate = 1, receiver.MaxBody, 1e-9 },
		"the greatest": func(o *Options) { o.NamespaceRate, o.MaxInFlight = math.MaxFloat64, math.MaxInt64 },
	} {
		o := DefaultOptions()
		change(&o)
		if err := o.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := receiver.NewTable(o.limits(), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Fails when a network is taken that would let clients choose their address, or that no address is ever in.
func TestProxiesAreNetworks(t *testing.T) {
	for cidr, ok := range map[string]bool{
		"10.0.0.0/8": true, "10.1.2.3/8": true, "192.0.2.1/32": true, "2001:db8::/32": true,
		"192.0.2.1": false, "0.0.0.0/0": false, "::/0": false, "::ffff:10.0.0.0/104": false, "ingress": false, "": false,
	} {
		if _, err := parseProxies([]string{cidr}); (err == nil) != ok {
			t.Errorf("%q: %v", cidr, err)
		}
	}
}
