// Command controlplane runs a real Kubernetes control plane in one process for tests and the demo; see package
// controlplane for its parts.
//
// It prints one line, "ready <kubeconfig>", on standard output when it serves, and ends
// on SIGTERM, on SIGINT or, with --exit-with-stdin, when standard input is closed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"notifier/test/controlplane"
)

// gcPercent is the garbage in percent of the live heap, which is small: a cluster of a test has few objects. With Go's default the
// collector took a sixth of the processor's time. GOGC in the environment overrides it, as for any Go program.
const gcPercent = 400

func main() { os.Exit(run()) }

func run() int {
	var o controlplane.Options
	var exitWithStdin bool
	flag.StringVar(&o.Dir, "data-dir", "", "directory for data, certificates and logs, kept at exit (default: a temporary one, removed at exit)")
	flag.IntVar(&o.Port, "port", 0, "the API server's port on 127.0.0.1 (default: any free port)")
	flag.StringVar(&o.Kubeconfig, "kubeconfig-out", "", "file for the admin's kubeconfig (default: in the data directory)")
	flag.StringVar(&o.AuditLog, "audit-log", "", "file for the audit log (default: in the data directory)")
	flag.BoolVar(&exitWithStdin, "exit-with-stdin", false, "end when standard input is closed")
	flag.Func("controllers", "comma-separated controllers to run (default: "+strings.Join(controlplane.Controllers(), ",")+")", func(v string) error {
		o.Controllers = strings.FieldsFunc(v, func(r rune) bool { return r == ',' })
		return nil
	})
	flag.Func("apiserver-flag", "one more flag for kube-apiserver, as --name=value (repeatable)", func(v string) error {
		o.APIServerFlags = append(o.APIServerFlags, v)
		return nil
	})
	flag.Parse()

	// The reader of the output may have exited; the data directory must still be removed.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if exitWithStdin {
		ctx = endWith(ctx, os.Stdin)
	}

	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	start := time.Now()
	o.Progress = func(step string) {
		fmt.Fprintf(os.Stderr, "controlplane: %4.1fs %s\n", time.Since(start).Seconds(), step)
	}
	o.Ready = func(kubeconfig string) {
		o.Progress("ready")
		fmt.Println("ready", kubeconfig)
	}
	if err := serve(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		return 1
	}
	return 0
}

// serve runs the control plane in its data directory. It removes a directory that it made itself.
func serve(ctx context.Context, o controlplane.Options) (err error) {
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "controlplane-"); err != nil {
			return err
		}
		defer func() {
			err = errors.Join(err, removeAll(o.Dir))
			if o.Kubeconfig != "" {
				err = errors.Join(err, ignoreMissing(os.Remove(o.Kubeconfig)))
			}
		}()
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(o.Dir, "warnings.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	quiet(log)
	return controlplane.Run(ctx, o)
}

// quiet sends the warnings and errors of all Kubernetes code to w and drops the rest.
func quiet(w io.Writer) {
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			panic(err)
		}
	}
	// klog writes a line to the file of its severity and of every lower one.
	klog.SetOutputBySeverity("INFO", io.Discard)
	klog.SetOutputBySeverity("WARNING", w)
	klog.SetOutputBySeverity("ERROR", io.Discard)
	klog.SetOutputBySeverity("FATAL", io.Discard)
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
}

// endWith returns a context that also ends when r does.
func endWith(ctx context.Context, r io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, r)
	}()
	return ctx
}

// removeAll moves the directory before it empties it: parts that did not end in time may still make files under the old
// name.
func removeAll(dir string) error {
	away := dir + ".removed"
	if err := os.Rename(dir, away); err != nil {
		return err
	}
	return os.RemoveAll(away)
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
