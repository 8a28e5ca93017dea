package limits

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"notifier/test/env"
)

// diskSize is the least that embedded JetStream starts on, and some.
const diskSize = 256 << 20

// room is where a notifier keeps its data, and how that gets full.
type room struct {
	dir        string
	fill, free func() error
}

// newRoom makes a small disk; where nobody may mount one, a quota on the process's files stands for it.
func (s *fixture) newRoom() room {
	s.Helper()
	disk, err := env.NewDisk(s.Ctx, diskSize)
	if err == nil {
		s.Cleanup(func() { _ = disk.Close() })
		return room{filepath.Join(disk.Dir, "data"), func() error { return disk.Fill(512 << 10) }, disk.Free}
	}
	s.Logf("a quota instead of a disk: %v", err)
	dir, err := env.TempDir("data")
	s.Must(err)
	return room{dir, func() error { return s.Process().LimitFiles(256 << 10) }, func() error { return nil }}
}

// T3 and E2 on a full disk. Fails when something is answered 2xx that is not on disk, when the process goes on without a bus and
// says that it is ready, or when it does not come back once there is space.
func TestAFullDiskLosesNothingThatWasAccepted(t *testing.T) {
	s := scoped(t)
	disk := s.newRoom()
	s.startScoped(env.NotifierOptions{DataDir: disk.dir})
	sink := s.NewSink()
	s.Must(sink.Down())
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.Must(s.Tenant.Alert(s.Ctx, "all", "generic", sink.URL("/"), env.AnyKustomization))
	s.Must(s.System.ServiceAccount(s.Ctx, s.Tenant.Namespace, "late"))
	path := s.Receiver(s.Tenant, "app", "t", `,"serviceAccountName":"late"`)
	// Both wait: the sink is down, and the service account may do nothing yet.
	sent := time.Now()
	s.Push(path, "t", http.StatusOK)
	ledger := []string{"first"}
	s.accepted("first")

	s.Must(disk.fill())
	for i := range 2000 {
		message := fmt.Sprintf("event %d %s", i, strings.Repeat("x", 2000))
		accepted, ended := s.offer(path, message)
		if accepted {
			ledger = append(ledger, message)
		}
		if ended {
			break
		}
	}
	s.saysWhy()

	s.Must(disk.free())
	s.Must(s.Kill()) // a kubelet would have restarted it
	s.Must(s.Restart(s.Ctx))
	s.Condition(s.Tenant, "Alert", "all", "Serving", metav1.ConditionTrue, "")
	s.Must(sink.Up(s.Ctx))
	s.waitTold(sink, ledger...)
	s.Must(s.System.Grant(s.Ctx, s.Tenant.Namespace, "late", []string{"patch"}, env.Patchable...))
	_, err := s.Tenant.WaitRequested(s.Within(90*time.Second), "GitRepository", "app", sent)
	s.Must(err)
	s.Push(path, "t", http.StatusOK)
	s.accepted("last")
	s.waitTold(sink, "last")
	t.Logf("%d events were accepted, before and while the disk was full", len(ledger))
}

// E2 for a volume that was restored to a smaller disk, or a disk that another filled. Fails when the embedded server's limit is that
// of the smaller disk while it still reserves what the larger one allowed: it then does not start.
func TestE2ADataDirectoryOnASmallerDiskStartsWithWhatItHolds(t *testing.T) {
	s := scoped(t)
	large, err := env.TempDir("data")
	s.Must(err)
	s.startScoped(env.NotifierOptions{DataDir: large})
	sink := s.NewSink()
	s.Must(sink.Down())
	s.Must(s.Tenant.Object(s.Ctx, "Kustomization", "app", nil, ""))
	s.Must(s.Tenant.Alert(s.Ctx, "all", "generic", sink.URL("/"), env.AnyKustomization))
	s.Condition(s.Tenant, "Alert", "all", "Serving", metav1.ConditionTrue, "")
	s.accepted("kept")
	s.Must(s.Kill())

	small := s.newRoom().dir
	s.Must(os.CopyFS(small, os.DirFS(large)))
	s.Must(sink.Up(s.Ctx))
	s.startScoped(env.NotifierOptions{DataDir: small})
	s.waitTold(sink, "kept")
	s.accepted("after")
	s.waitTold(sink, "after")
}

// offer sends an event and a webhook to a process whose disk is full. Both doors may still take some, which the disk has place
// for; else they answer 503, until the process ends.
func (s *fixture) offer(path, message string) (accepted, ended bool) {
	s.Helper()
	event, err := s.Tenant.Event(s.Ctx, "Kustomization", "app", "error", "BuildFailed", message, "main@sha1:"+message[:12])
	s.Must(err)
	resp, err := s.Post(s.Ctx, event)
	switch {
	case err != nil:
		return false, true
	case resp.Status == http.StatusAccepted:
		accepted = true
	default:
		s.unavailable("an event", resp, false)
	}
	hook, err := s.GitHub(s.Ctx, path, "t", "push", env.GitHubPush)
	if err == nil && hook.Status/100 != 2 {
		s.unavailable("a webhook", hook, true)
	}
	// When both doors refuse the process is done for.
	return accepted, err != nil || !accepted && hook.Status/100 != 2
}

// saysWhy fails the test unless the process ends with an error and says that the disk is full, or says that it is not ready.
func (s *fixture) saysWhy() {
	s.Helper()
	ctx := s.Within(30 * time.Second)
	said := ""
	err := env.Eventually(ctx, func(ctx context.Context) error {
		select {
		case <-s.Process().Exited():
			if s.Process().Err() == nil {
				return errors.New("it ended with exit code 0")
			}
			said = s.Logs()
			return nil
		default:
		}
		resp, err := s.Do(ctx, http.MethodGet, s.HealthURL+"/readyz", nil, nil)
		if err == nil && resp.Status == http.StatusOK {
			return errors.New("it says that it is ready")
		}
		said = resp.Body
		return err
	})
	s.Must(err)
	why := slices.IndexFunc(strings.Split(said, "\n"), func(line string) bool {
		return (strings.HasPrefix(line, "notifier: ") || strings.HasPrefix(line, "[-] ")) &&
			(strings.Contains(line, "no space left") || strings.Contains(line, "file too large"))
	})
	if why < 0 {
		s.Fatalf("it does not say that the disk is full: %s", said)
	}
	s.Logf("on a full disk it says: %s", strings.Split(said, "\n")[why])
}
