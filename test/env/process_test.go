package env_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"notifier/test/env"
)

// role makes this test binary a child process for the tests.
const role = "HARNESS_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "":
		env.Main(m)
	case "polite":
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		fmt.Println("first line\nKUBECONFIG is", os.Getenv("KUBECONFIG"), "EXTRA is", os.Getenv("EXTRA"), "\nstarted")
		<-signals
		fmt.Println("goodbye")
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("started")
		select {}
	case "failing":
		fmt.Println("the reason")
		os.Exit(3)
	case "serving":
		http.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
		fmt.Println(http.ListenAndServe(os.Getenv("ADDRESS"), nil))
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func child(t *testing.T, as string, environment ...string) *env.Process {
	t.Helper()
	p, err := env.Start(env.Command{Path: os.Args[0], Env: append(environment, role+"="+as)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill9() })
	return p
}

func awaitLine(t *testing.T, p *env.Process, line string) {
	t.Helper()
	if _, err := p.WaitLog(within(t, time.Minute), func(l string) bool { return l == line }); err != nil {
		t.Fatal(err)
	}
}

func TestTerminateLetsAProcessEndByItself(t *testing.T) {
	p := child(t, "polite")
	awaitLine(t, p, "started")
	if err := p.Terminate(time.Minute); err != nil {
		t.Errorf("terminate: %v", err)
	}
	if !strings.HasSuffix(p.Logs(), "goodbye\n") {
		t.Errorf("log is %q, want the last line too", p.Logs())
	}
	if err := p.Kill9(); err != nil {
		t.Errorf("killing what has ended: %v", err)
	}
}

func TestTerminateKillsAStubbornProcessAndSaysSo(t *testing.T) {
	p := child(t, "stubborn")
	awaitLine(t, p, "started")
	err := p.Terminate(50 * time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "did not end within") {
		t.Errorf("terminate returned %v", err)
	}
	select {
	case <-p.Exited():
	default:
		t.Error("the process is still there")
	}
}

func TestChildrenDoNotSeeKUBECONFIG(t *testing.T) {
	t.Setenv("KUBECONFIG", "/some/real/cluster")
	p := child(t, "polite", "EXTRA=set")
	awaitLine(t, p, "KUBECONFIG is  EXTRA is set ")
}

func TestWaitingEndsWithTheProcessAndShowsItsLog(t *testing.T) {
	p := child(t, "failing")
	_, err := p.WaitLog(within(t, time.Minute), func(line string) bool { return line == "never" })
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "the reason") {
		t.Errorf("waiting for a line returned %v", err)
	}
	err = p.Ready(within(t, time.Minute), "http://127.0.0.1:1/readyz")
	if err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("waiting for readiness returned %v", err)
	}
}

func TestReadyWaitsForTheServerAlsoAfterKill9(t *testing.T) {
	ports, err := env.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	p := child(t, "serving", "ADDRESS="+address)
	if err := p.Ready(within(t, time.Minute), "http://"+address+"/readyz"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Again(); err == nil {
		t.Error("a running process was started again")
	}
	if err := p.Kill9(); err != nil {
		t.Fatal(err)
	}
	again, err := p.Again()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Kill9() })
	if err := again.Ready(within(t, time.Minute), "http://"+address+"/readyz"); err != nil {
		t.Fatal(err)
	}
}

func TestEventuallyReturnsTheLastErrorWhenTimeIsUp(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	want, over := errors.New("not yet"), errors.New("time is up")
	calls := 0
	err := env.Eventually(ctx, func(context.Context) error {
		if calls++; calls == 3 {
			defer cancel(over)
		}
		return want
	})
	if !errors.Is(err, want) || !errors.Is(err, over) {
		t.Errorf("eventually returned %v", err)
	}
}

// Fails when two callers can get one port, or when the kernel also gives a port to connections: it may be taken
// between two programs on it.
func TestFreePortsStayWithTheProcessThatAskedForThem(t *testing.T) {
	ports, err := env.FreePorts(50)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(slices.Compact(slices.Sorted(slices.Values(ports)))); got != 50 {
		t.Errorf("got %d different ports, want 50", got)
	}
	runtime.GC()
	for _, port := range ports {
		claim, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = claim.Close()
			t.Fatalf("port %d can be chosen again", port)
		}
		if port >= 32768 {
			t.Errorf("port %d is one of the kernel's", port)
		}
	}
}
