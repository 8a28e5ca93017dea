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

// diskSize is a little more than embedded JetStream needs to start.
const diskSize = 256 << 20

// room is the directory of a notifier's data, with functions that fill and free its disk.
type room struct {
	dir        string
	fill, free func() error
}

// newRoom makes a small disk; without the permission to mount one it uses a quota on the process's files.
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

// T3 and E2 on a full disk. Fails when a message that is not on disk is answered 2xx, when the process continues without
// a bus and reports itself ready, or when it does not recover once there is space.
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
	// Both wait: the sink is down, and the service account has no rights yet.
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

// E2 for a volume that was restored to a smaller disk, or a disk that another process filled. Fails when the embedded
// server's limit is that of the smaller disk while its streams reserve what the larger one allowed: it then does not
// start.
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

// offer sends an event and a webhook to a process whose disk is full. Both endpoints may accept some while the disk has
// space for them. Then they answer 503, until the process ends.
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
	// When both endpoints refuse, the process cannot recover.
	return accepted, err != nil || !accepted && hook.Status/100 != 2
}

// saysWhy fails the test unless the process ends with an error that names the full disk, or reports itself as not ready.
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
