package env

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// natsPackage is nats-server's own main package, in the version of this module's go.mod.
const natsPackage = "github.com/nats-io/nats-server/v2"

// NATSOptions configure StartNATS.
type NATSOptions struct {
	// SyncAlways makes every acknowledged message survive a power cut.
	SyncAlways bool
	// Config is appended to the server's configuration file.
	Config string
}

// NATSServer is a nats-server with JetStream in a process of its own. It keeps its port and its data when it is killed
// and started again.
type NATSServer struct {
	// URL for clients.
	URL string
	// monitor is the base of its monitoring endpoints.
	monitor string
	process *Process
}

// StartNATS builds and starts a nats-server and waits until JetStream serves.
func StartNATS(ctx context.Context, o NATSOptions) (*NATSServer, error) {
	s, err := launchNATS(ctx, o)
	if err != nil {
		return nil, err
	}
	return s, s.ready(ctx)
}

// launchNATS builds and starts a nats-server and does not wait for it.
func launchNATS(ctx context.Context, o NATSOptions) (*NATSServer, error) {
	module, err := ModuleDir()
	if err != nil {
		return nil, err
	}
	bin, err := BinDir()
	if err != nil {
		return nil, err
	}
	program := filepath.Join(bin, "nats-server")
	if err := Build(ctx, module, natsPackage, program, false); err != nil {
		return nil, err
	}
	dir, err := TempDir("nats")
	if err != nil {
		return nil, err
	}
	ports, err := FreePorts(2)
	if err != nil {
		return nil, err
	}
	sync := ""
	if o.SyncAlways {
		sync = "sync_interval: always"
	}
	config := filepath.Join(dir, "nats.conf")
	// What the server may store does not depend on the disk of the machine: its default is a share of what is free there.
	text := fmt.Sprintf("listen: \"127.0.0.1:%d\"\nhttp: \"127.0.0.1:%d\"\nmax_payload: 8MB\n"+
		"jetstream { store_dir: %q, max_file_store: 16GB, %s }\n%s\n", ports[0], ports[1], filepath.Join(dir, "data"), sync, o.Config)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	process, err := Start(Command{Path: program, Args: []string{"--config", config}})
	if err != nil {
		return nil, err
	}
	return &NATSServer{
		URL:     fmt.Sprintf("nats://127.0.0.1:%d", ports[0]),
		monitor: fmt.Sprintf("http://127.0.0.1:%d", ports[1]),
		process: process,
	}, nil
}

// Process returns the present process, which changes with each Again.
func (s *NATSServer) Process() *Process { return s.process }

// Kill9 ends the server as a crash does.
func (s *NATSServer) Kill9() error { return s.process.Kill9() }

// Again starts the ended server on its port and data, and waits until JetStream serves. A node of a cluster may still
// lack messages that the others stored meanwhile.
func (s *NATSServer) Again(ctx context.Context) error {
	process, err := s.process.Again()
	if err != nil {
		return err
	}
	s.process = process
	return s.ready(ctx)
}

// Stop ends the server. Shutdown removes its data.
func (s *NATSServer) Stop() error {
	return s.process.Terminate(endTimeout)
}

// ready waits until JetStream serves. If it does not, ready ends the process.
func (s *NATSServer) ready(ctx context.Context) error {
	if err := s.process.Ready(ctx, s.monitor+"/healthz"); err != nil {
		return errors.Join(err, s.process.Kill9())
	}
	return nil
}
