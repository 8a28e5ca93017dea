package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var discard = slog.New(slog.DiscardHandler)

func TestStagesStopInReverseOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended []string
		waits := func(name string) part {
			return part{name, func(ctx context.Context) error {
				<-ctx.Done()
				ended = append(ended, name)
				return nil
			}}
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		err := runStages(ctx, discard, []stage{
			{"bus", time.Second, []part{waits("bus")}},
			{"work", time.Second, []part{waits("work")}},
			{"listeners", time.Second, []part{waits("listeners")}},
		})
		if err != nil {
			t.Errorf("got %v after a stop that was asked for, want nil", err)
		}
		if diff := cmp.Diff([]string{"listeners", "work", "bus"}, ended); diff != "" {
			t.Errorf("order of ends differs (-want +got):\n%s", diff)
		}
	})
}

func TestAPartThatFailsStopsTheProcessWithItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := errors.New("the disk is full")
		err := runStages(t.Context(), discard, []stage{
			{"bus", time.Second, []part{{"bus", func(context.Context) error { return lost }}}},
			{"listeners", time.Second, []part{{"webhooks", func(ctx context.Context) error { <-ctx.Done(); return nil }}}},
		})
		if !errors.Is(err, lost) || !strings.HasPrefix(err.Error(), "bus: ") {
			t.Errorf("got %v, want the failure with the name of its part", err)
		}
	})
}

func TestAPartThatEndsByItselfIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := runStages(t.Context(), discard, []stage{
			{"work", time.Second, []part{{"router", func(context.Context) error { return nil }}}},
		})
		if err == nil {
			t.Error("got nil, want an error")
		}
	})
}

func TestAPartThatDoesNotEndIsLeftAfterItsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begin := time.Now()
		err := runStages(ctx, discard, []stage{
			{"work", 3 * time.Second, []part{{"stuck", func(context.Context) error { <-release; return nil }}}},
		})
		if err != nil || time.Since(begin) != 3*time.Second {
			t.Errorf("got %v after %s, want nil after the grace of 3s", err, time.Since(begin))
		}
		close(release)
	})
}
