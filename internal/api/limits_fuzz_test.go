package api

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/event/view"
)

// followed is a watch that is under way. since is when its user lost the right, zero while the user has it.
type followed struct {
	user   string
	cancel context.CancelFunc
	since  time.Time
}

// busyService is a Service that many users ask at once, and what is under way there.
type busyService struct {
	*world
	draw   *rand.Rand
	asking sync.WaitGroup

	mu      sync.Mutex
	watches map[*followed]bool
	// revoked has the users without rights, with the time at which they lost them.
	revoked map[string]time.Time
}

// FuzzT6WhateverEndsARequestItsPlacesAreFree has users of three tenants list, search and follow at once. They leave at any time, lose their rights
// and have them again, while the Kubernetes API is slow or fails, the store is slow or fails, and streams end. Fails when a user has more watches
// than may be, when a request goes on for long without the right, when it keeps its place after its end, or when anything is in use in the end.
func FuzzT6WhateverEndsARequestItsPlacesAreFree(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			b := &busyService{
				world: newWorld(t), draw: rand.New(rand.NewPCG(seed, 1)), watches: map[*followed]bool{}, revoked: map[string]time.Time{},
			}
			b.store.takes = time.Duration(b.draw.IntN(3)) * 400 * time.Millisecond
			if b.draw.IntN(4) == 0 {
				b.store.err = errors.New("no answer")
			}
			b.store.namespaces = []string{"team-a", "team-b"}
			for i := range 3 {
				b.authority.grant(fmt.Sprint("user-", i), "team-a", reads...)
			}
			end := make(chan struct{})
			var streams sync.WaitGroup
			streams.Go(func() { b.stream(end, rand.New(rand.NewPCG(seed, 2))) })
			for range 200 {
				b.step()
				<-time.After(time.Duration(1+b.draw.IntN(1<<b.draw.IntN(13))) * time.Millisecond)
				synctest.Wait()
				b.check()
			}
			b.mu.Lock()
			for w := range b.watches {
				w.cancel()
			}
			b.mu.Unlock()
			b.asking.Wait()
			close(end)
			streams.Wait()
			l := b.handler.service.limits
			if n := l.watches.Len() + l.reads.Len() + l.lines.Len() + l.searches.Len() + l.answers.Len(); n > 0 || !l.checks.Idle() {
				t.Errorf("%d users keep places", n)
			}
		})
	})
}

// stream ends some of the streams after a while.
func (b *busyService) stream(end <-chan struct{}, draw *rand.Rand) {
	for {
		select {
		case <-end:
			return
		case handle := <-b.store.follower:
			if draw.IntN(10) == 0 {
				_ = handle(view.Delivery{ID: "too many"})
			}
		}
	}
}

// follow follows a list until that ends.
func (b *busyService) follow(ctx context.Context, cancel context.CancelFunc, u *User) {
	w := &followed{user: u.Name, cancel: cancel}
	err := b.handler.service.follow(ctx, u, "team-a", view.Deliveries, func(item any) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if _, begun := item.(view.Begun); begun {
			b.watches[w], w.since = true, b.revoked[u.Name]
		}
		if _, is := item.(view.Delivery); is {
			return errBehind
		}
		return nil
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.watches, w)
	if err == nil && ctx.Err() == nil {
		b.Errorf("a watch of %s ends without a reason", u.Name)
	}
}

// step sends a request, has a client leave, or changes rights and the Kubernetes API.
func (b *busyService) step() {
	name := fmt.Sprint("user-", b.draw.IntN(3))
	switch kind := b.draw.IntN(24); kind {
	case 0:
		b.turn(name)
	case 1:
		b.authority.mu.Lock()
		b.authority.takes = []time.Duration{0, time.Second / 10, 2 * time.Second, 4 * time.Second}[b.draw.IntN(4)]
		b.authority.mu.Unlock()
	case 2:
		b.authority.fail([]error{nil, nil, ErrUnavailable, ErrBusy}[b.draw.IntN(4)])
	case 3:
		b.mu.Lock()
		defer b.mu.Unlock()
		for w := range b.watches {
			w.cancel()
			return
		}
	default:
		patience, ask := time.Duration(1+b.draw.IntN(60000))*time.Millisecond, b.handler.service
		u := &User{Name: name, token: secret(name)}
		for range 1 + b.draw.IntN(8) {
			b.asking.Go(func() {
				ctx, cancel := context.WithTimeout(b.Context(), patience)
				defer cancel()
				switch kind {
				case 4, 5, 6, 7:
					_, _ = ask.Deliveries(ctx, u, "team-a", view.Query{})
				case 8, 9, 10:
					_, _ = ask.Namespaces(ctx, u)
				case 11, 12:
					_, _ = ask.Health(ctx, u, "team-a")
				default:
					b.follow(ctx, cancel, u)
				}
			})
		}
	}
}

// turn takes the right to watch from a user, or gives it back.
func (b *busyService) turn(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, without := b.revoked[name]; without {
		delete(b.revoked, name)
		b.authority.grant(name, "team-a", reads...)
	} else {
		b.revoked[name] = time.Now()
		b.authority.revoke(name, "team-a", "watch deliveries")
	}
	for w := range b.watches {
		if w.user == name {
			w.since = b.revoked[name]
		}
	}
}

// check compares the watches with their places, while no goroutine runs.
func (b *busyService) check() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	users := map[string]int{}
	for w := range b.watches {
		users[w.user]++
		// The fake keeps no answers: a check begins within recheckEvery, and ends within recheckTime.
		if lost := time.Since(w.since); !w.since.IsZero() && lost > recheckEvery+recheckTime+recheckTime {
			b.Errorf("a watch of %s goes on %v after the right was lost", w.user, lost)
		}
	}
	for user, n := range users {
		if n > userWatches {
			b.Errorf("%s has %d watches", user, n)
		}
	}
	if n := b.handler.service.limits.watches.Len(); n < len(users) {
		b.Errorf("%d users have watches, and %d places", len(users), n)
	}
}
