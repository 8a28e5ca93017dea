package app

import (
	"errors"
	"fmt"
	"strings"
)

// checks returns the conditions of readiness. An unavailable API server is none: webhooks and events are accepted without it. Nor are Flux
// objects that are still being read, which takes several times as long as the rest on a large cluster. A request that needs one of them is
// answered 503 until its kind is read, while Git hosts, which send a webhook only once, get an answer. Nor is a refused impersonation of
// service accounts: accepted triggers are retried for a while, and an unready Pod would not help. With an external NATS a replica may become
// the worker long after its start, so its shards of deliveries are no condition. A missing X509-SVID is a condition only if webhooks need it:
// events are posted again, and found by watching.
func (a *App) checks() []check {
	all := []check{
		{name: "bus", test: a.bus.Ready},
		{name: "compiled", test: func() error {
			if waiting := a.reconcile.Waiting(); len(waiting) > 0 {
				return fmt.Errorf("still compiling %s", strings.Join(waiting, ", "))
			}
			return nil
		}},
		{name: "objects", advisory: true, test: func() error {
			if !a.watcher.HasSynced() {
				return errors.New("some Flux objects are still being read; events about those of a kind that is not read yet are answered 503")
			}
			return nil
		}},
		{name: "impersonation", advisory: true, test: a.applier.Impersonation},
		{name: "definitions", advisory: true, test: a.definitions.Whole},
	}
	if a.svid != nil {
		all = append(all, check{name: "X509-SVID", test: a.svid.Ready, advisory: len(a.options.AuthorizedReceivers) == 0})
	}
	if a.takeUp != nil {
		all = append(all, check{name: "deliveries", test: a.takeUp.test})
	}
	return all
}
