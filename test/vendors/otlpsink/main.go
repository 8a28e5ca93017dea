// Otlpsink is a collector of OpenTelemetry with one receiver, OTLP over HTTP, that writes each request's traces to standard output: a line
// of OTLP's JSON each, after a line "ready". Its argument is the address to listen on. It runs until it gets a signal.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: otlpsink <address>")
		os.Exit(2)
	}
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address string) error {
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	// As a collector's configuration has it.
	wanted := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{"http": map[string]any{"endpoint": address}}})
	if err := wanted.Unmarshal(config); err != nil {
		return err
	}
	next, err := consumer.NewTraces(printer())
	if err != nil {
		return err
	}
	receiver, err := factory.CreateTraces(ctx, receivertest.NewNopSettings(factory.Type()), config, next)
	if err != nil {
		return err
	}
	if err := receiver.Start(ctx, componenttest.NewNopHost()); err != nil {
		return err
	}
	fmt.Println("ready")
	<-ctx.Done()
	return receiver.Shutdown(context.Background())
}

// printer writes traces one request after the other.
func printer() consumer.ConsumeTracesFunc {
	var (
		mu      sync.Mutex
		marshal ptrace.JSONMarshaler
	)
	return func(_ context.Context, traces ptrace.Traces) error {
		line, err := marshal.MarshalTraces(traces)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		_, err = os.Stdout.Write(append(line, '\n'))
		return err
	}
}
