package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"notifier/internal/fair"
)

const (
	mib = int64(1) << 20
	// maxPayload is the size of the largest message, in bytes.
	maxPayload   = 8 << 20
	startTimeout = 30 * time.Second
	lockFile     = "lock"
	// lockTimeout is how long a start waits for the lock of the data directory, and lockRetry how long until it tries again.
	lockTimeout = 30 * time.Second
	lockRetry   = 250 * time.Millisecond
	// slack is the number of bytes that the server may store beyond the streams' own bounds. At it the server refuses and does not discard:
	// that is the last bound before the disk is full.
	slack = 256 * mib
	// unlimited is the limit that the server is started with. The server reserves the bytes that each stream that it finds was allowed to
	// store. When these are more than its limit, as on a disk that has become smaller, it refuses even to lower a bound.
	unlimited = 1 << 50
)

// Options are the settings of a Server.
type Options struct {
	// Dir is the data directory. It is made if it does not exist.
	Dir string
	// Synced are the streams of which Sync syncs the files.
	Synced []string
	// Fit returns how many bytes the streams may take together, of those that the disk has for them.
	Fit func(available int64) (int64, error)
	// Fsync writes a file to the disk.
	Fsync func(*os.File) error
	Log   *slog.Logger
}

// Server is a nats-server within this process. It listens on no address.
type Server struct {
	*server.Server
	opts Options
	lock *os.File
	// most is the most bytes that may be stored in all.
	most int64

	syncers map[string]*syncer // by stream
	rounds  sync.WaitGroup     // of the syncers
}

// Start locks the data directory for this process and starts a server on it.
func Start(ctx context.Context, o Options) (_ *Server, err error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	lock, err := lockDir(ctx, o.Dir, o.Log)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = lock.Close()
		}
	}()
	if err := restoreBlocks(o.Dir, o.Synced, o.Fsync, o.Log); err != nil {
		return nil, err
	}
	used, free, err := measure(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("measure data directory: %w", err)
	}
	streams, err := o.Fit(capacity(used, free))
	if err != nil {
		return nil, err
	}
	srv, err := server.NewServer(&server.Options{
		ServerName: "notifier", DontListen: true, NoSigs: true, MaxPayload: maxPayload,
		// The server writes without a sync: publishes are synced together (see syncer).
		JetStream: true, StoreDir: o.Dir, JetStreamMaxMemory: 64 * mib,
		JetStreamMaxStore: unlimited,
		// Everything in this process shares a few connections, so the server's limit per connection bounds the whole process.
		MaxPending: 256 << 20,
	})
	if err != nil {
		return nil, fmt.Errorf("configure embedded server: %w", err)
	}
	srv.SetLoggerV2(serverLog{o.Log}, false, false, false)
	srv.Start()
	if !srv.ReadyForConnections(startTimeout) || !srv.JetStreamEnabled() {
		err = errors.New("embedded server did not start: JetStream is not available on the data directory")
	} else {
		err = dropConsumers(srv, o.Dir, o.Log)
	}
	if err != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
		return nil, err
	}
	// The data of a larger disk may be more than the budgets: half of the free bytes are for handling it.
	return &Server{Server: srv, opts: o, lock: lock, most: max(streams+slack, used+free/2)}, nil
}

// Begin bounds what the server stores, and syncs the streams as the server found or made them. It is called when the streams have their
// bounds, since the server checks these against its own, and before anything is published. It has begun called before each later sync of a
// stream, and what that returns after the sync.
func (s *Server) Begin(begun func(stream string) (ended func())) error {
	if err := s.limit(s.most); err != nil {
		return err
	}
	return s.newSyncers(begun)
}

// limit makes the server refuse to store more than so many bytes.
func (s *Server) limit(bytes int64) error {
	err := s.GlobalAccount().UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": {
		MaxStore: bytes, MaxMemory: -1, MaxStreams: -1, MaxConsumers: -1, MaxAckPending: -1, MemoryMaxStreamBytes: -1, StoreMaxStreamBytes: -1,
	}})
	if err != nil {
		return fmt.Errorf("limit embedded server: %w", err)
	}
	return nil
}

// Fault returns the reason why the server stores nothing more, or not all that is published, until it is started again; nil if there is
// none. After a write error, on a full disk for instance, it stores nothing more in that stream even with free space, and does not answer
// the publishers.
func (s *Server) Fault() error {
	if !s.JetStreamEnabled() {
		return errors.New("JetStream shut down, the disk may be full")
	}
	for _, f := range s.Healthz(&server.HealthzOptions{Details: true}).Errors {
		if f.Type == server.HealthzErrorStream {
			return errors.New(f.Error)
		}
	}
	for stream, syncer := range s.syncers {
		if err := syncer.fault(); err != nil {
			return fmt.Errorf("%s: %w", stream, err)
		}
	}
	return nil
}

// Stop ends the server. It returns when everything is written: leaving earlier could damage the store.
func (s *Server) Stop() {
	s.Shutdown()
	s.WaitForShutdown()
	s.rounds.Wait()
	s.endSyncs()
	_ = s.lock.Close() // closing the file releases the lock
}

// lockDir locks a directory against other processes: two servers on one store destroy it. The process before this one may still be ending,
// so lockDir waits for its lock, for lockTimeout at most.
func lockDir(ctx context.Context, dir string, log *slog.Logger) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of data directory: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	for told := false; ; told = true {
		locked, err := tryLock(f)
		switch {
		case locked:
			return f, nil
		case err != nil:
			_ = f.Close()
			return nil, fmt.Errorf("lock data directory: %w", err)
		case !told:
			log.Info("waiting for another process to give the data directory back", "atMost", lockTimeout.String())
		}
		if fair.Sleep(ctx, lockRetry) != nil {
			_ = f.Close()
			return nil, fmt.Errorf("data directory %s is in use by another process", dir)
		}
	}
}

// measure returns how many bytes a directory's files take, and how many are free.
func measure(dir string) (used, free int64, err error) {
	if free, err = freeBytes(dir); err != nil {
		return 0, 0, fmt.Errorf("statfs: %w", err)
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if path != dir && errors.Is(err, fs.ErrPermission) {
			return nil // another's, such as lost+found on a volume of its own; every stream is of this process
		}
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
	return used, free, err
}

// capacity returns how many bytes the streams may take: those in use, plus those free, less a tenth and the slack.
func capacity(used, free int64) int64 {
	total := used + free
	return total - total/10 - min(slack, total/10)
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
