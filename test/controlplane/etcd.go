package controlplane

import (
	"context"
	"errors"
	"net/url"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// startEtcd starts a single member on loopback and returns it with its client URL.
func startEtcd(ctx context.Context, dir, logFile string) (*embed.Etcd, string, error) {
	anyPort := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = anyPort, anyPort
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = anyPort, anyPort
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.LogLevel = "error"
	cfg.LogOutputs = []string{logFile}
	// The data is worth nothing after a power cut, and fsync would be the slowest
	// part of every write.
	cfg.UnsafeNoFsync = true
	// A single member need not wait long for other candidates: it stands for election after six ticks at most. Shorter ticks
	// would wake the process too often while it is idle.
	cfg.TickMs, cfg.ElectionMs = 50, 250
	cfg.QuotaBackendBytes = 4 << 30
	// It would dial the address above, port 0, for ever.
	cfg.EnableGRPCGateway = false

	store, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, "", err
	}
	select {
	case <-store.Server.ReadyNotify():
		return store, "http://" + store.Clients[0].Addr().String(), nil
	case err := <-store.Err():
		return nil, "", err
	case <-time.After(readyTimeout):
		store.Close()
		return nil, "", errors.New("not ready in time")
	case <-ctx.Done():
		store.Close()
		return nil, "", context.Cause(ctx)
	}
}
