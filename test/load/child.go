package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"notifier/test/env"
)

// baselines are the servers that a program can run in Main: each serves HTTP until it is killed.
var baselines = map[string]func(arg string) (http.Handler, error){
	"bare-chi":  bareReceiver,
	"relay":     relay,
	"jetstream": jetStream,
}

// Main must be called first by every program that starts a baseline, since the baseline is the same program again. It
// does not return in the process of a baseline.
func Main() {
	if len(os.Args) != 3 {
		return
	}
	if make := baselines[os.Args[1]]; make != nil {
		fmt.Fprintln(os.Stderr, serve(make, os.Args[2]))
		os.Exit(1)
	}
}

// serve serves a baseline on a free port and prints its address. It returns only on an error.
func serve(make func(string) (http.Handler, error), arg string) error {
	handler, err := make(arg)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("ready http://%s\n", l.Addr())
	return http.Serve(l, handler)
}

// start starts a baseline in a process of its own, as the notifier is, and returns its base URL.
func start(ctx context.Context, name, arg string) (*env.Process, string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	p, err := env.Start(env.Command{Path: self, Args: []string{name, arg}})
	if err != nil {
		return nil, "", err
	}
	line, err := p.WaitLog(ctx, func(line string) bool { return strings.HasPrefix(line, "ready ") })
	if err != nil {
		return nil, "", errors.Join(err, p.Kill9())
	}
	return p, strings.TrimPrefix(strings.TrimSpace(line), "ready "), nil
}
