package bus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"notifier/internal/fair"
)

const (
	embeddedPayload = 8 << 20
	startTimeout    = 30 * time.Second
	lockFile        = "lock"
	// serverSlack is the number of bytes that the server may store beyond the streams' own bounds. DELIVERIES is bounded by its writers and
	// not by the server (see streams.go), so this is the last bound before the disk is full. At it the server refuses and does not discard.
	serverSlack = 256 * mib
	// unlimited is the limit that the server is started with. The server reserves the bytes that each stream that it finds was allowed to
	// store. When these are more than its limit, as on a disk that has become smaller, it refuses even to lower a bound.
	unlimited = 1 << 50
)

// embedded is a nats-server within this process. It listens on no address.
type embedded struct {
	srv  *server.Server
	lock *os.File
	// most is the most bytes that may be stored in all.
	most int64
}

// startEmbedded locks the data directory for this process and starts a server on it. It scales the budgets down to the disk.
func startEmbedded(ctx context.Context, o *Options) (_ *embedded, err error) {
	dir, budgets, log := o.DataDir, &o.Budgets, o.Log
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	lock, err := lockDir(ctx, dir, log)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = lock.Close()
		}
	}()
	if err := restoreBlocks(dir, o.fsync, log); err != nil {
		return nil, err
	}
	used, free, err := measure(dir)
	if err != nil {
		return nil, fmt.Errorf("measure data directory: %w", err)
	}
	wanted := budgets.total()
	if err := budgets.fit(capacity(used, free)); err != nil {
		return nil, err
	}
	if budgets.total() < wanted {
		log.Warn("streams are smaller than asked for: the disk has no room; for all of it make the volume larger and restart",
			"wantedMiB", wanted/mib, "givenMiB", budgets.total()/mib)
	}
	srv, err := server.NewServer(&server.Options{
		ServerName: "notifier", DontListen: true, NoSigs: true, MaxPayload: embeddedPayload,
		// The server writes without a sync: publishes are synced together (see syncer).
		JetStream: true, StoreDir: dir, JetStreamMaxMemory: 64 * mib,
		JetStreamMaxStore: unlimited,
		// Everything in this process shares a few connections, so the server's limit per connection bounds the whole process.
		MaxPending: 256 << 20,
	})
	if err != nil {
		return nil, fmt.Errorf("configure embedded server: %w", err)
	}
	srv.SetLoggerV2(serverLog{log}, false, false, false)
	srv.Start()
	if !srv.ReadyForConnections(startTimeout) || !srv.JetStreamEnabled() {
		srv.Shutdown()
		srv.WaitForShutdown()
		return nil, errors.New("embedded server did not start: JetStream is not available on the data directory")
	}
	// The data of a larger disk may be more than the budgets: half of the free bytes are for handling it.
	return &embedded{srv: srv, lock: lock, most: max(budgets.total()+serverSlack, used+free/2)}, nil
}

// limit makes the server refuse to store more than so many bytes. It is called when the streams have their bounds, since the server checks
// bounds against it.
func (e *embedded) limit(bytes int64) error {
	err := e.srv.GlobalAccount().UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": {
		MaxStore: bytes, MaxMemory: -1, MaxStreams: -1, MaxConsumers: -1, MaxAckPending: -1, MemoryMaxStreamBytes: -1, StoreMaxStreamBytes: -1,
	}})
	if err != nil {
		return fmt.Errorf("limit embedded server: %w", err)
	}
	return nil
}

// fault returns the reason why a stream cannot be written, empty for none. After a write error, on a full disk for instance, the server
// stores nothing more in that stream until it is started again, even with free space. It does not answer the publishers.
func (e *embedded) fault() string {
	health := e.srv.Healthz(&server.HealthzOptions{Details: true})
	for _, f := range health.Errors {
		if f.Type == server.HealthzErrorStream {
			return f.Error
		}
	}
	return ""
}

// stop ends the server. It returns when everything is written: leaving earlier could damage the store. It calls ended before it unlocks the
// data directory.
func (e *embedded) stop(ended func()) {
	e.srv.Shutdown()
	e.srv.WaitForShutdown()
	ended()
	_ = e.lock.Close() // closing the file releases the lock
}

// lockDir locks a directory against other processes: two servers on one store destroy it. The process before this one may still be ending,
// so lockDir waits for its lock, for openTimeout at most.
func lockDir(ctx context.Context, dir string, log *slog.Logger) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of data directory: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	for told := false; ; told = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return f, nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			_ = f.Close()
			return nil, fmt.Errorf("lock data directory: %w", err)
		case !told:
			log.Info("waiting for another process to give the data directory back", "atMost", openTimeout.String())
		}
		if fair.Sleep(ctx, openRetry) != nil {
			_ = f.Close()
			return nil, fmt.Errorf("data directory %s is in use by another process", dir)
		}
	}
}

// measure returns how many bytes a directory's files take, and how many are free.
func measure(dir string) (used, free int64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("statfs: %w", err)
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == filepath.Join(dir, guardDir) {
			return fs.SkipDir // links to files that are counted elsewhere
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			used += info.Size()
		}
		return nil
	})
	return used, int64(st.Bavail) * st.Bsize, err
}

// capacity returns how many bytes the streams may take: those in use, plus those free, less a tenth and the server's slack.
func capacity(used, free int64) int64 {
	total := used + free
	return total - total/10 - min(serverSlack, total/10)
}

// serverLog is the server's logger. The server's lines are attributes, since our messages are constant.
type serverLog struct{ log *slog.Logger }

func put(log func(msg string, args ...any), format string, v []any) {
	log("nats-server", "text", fmt.Sprintf(format, v...))
}

func (l serverLog) Noticef(format string, v ...any) { put(l.log.Debug, format, v) }
func (l serverLog) Warnf(format string, v ...any)   { put(l.log.Warn, format, v) }
func (l serverLog) Errorf(format string, v ...any)  { put(l.log.Error, format, v) }
func (l serverLog) Fatalf(format string, v ...any)  { put(l.log.Error, format, v) }
func (l serverLog) Debugf(format string, v ...any)  { put(l.log.Debug, format, v) }
func (l serverLog) Tracef(format string, v ...any)  { put(l.log.Debug, format, v) }
