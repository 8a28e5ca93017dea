package app

import (
	"errors"
	"fmt"
	"strings"
)

// checks are the conditions of readiness. That the API server answers is none: webhooks and events are accepted without it. Nor is
// that the Flux objects are read, which takes several times as long as the rest on a large cluster: a request that needs one of them is
// answered 503 until its kind is read, and Git hosts, which send a webhook once, are answered. Nor is that service accounts can be
// impersonated: what is accepted meanwhile is tried for a while, and a Pod that is not ready would mend nothing.
func (a *App) checks() []check {
	return []check{
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
}
