package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// narrator prints the progress: a numbered title a step, indented lines of observations, and signs of life while it
// waits.
type narrator struct {
	out   io.Writer
	color bool
	step  int
	start time.Time
}

func newNarrator(out *os.File) *narrator {
	info, err := out.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &narrator{out: out, color: terminal && os.Getenv("NO_COLOR") == "", start: time.Now()}
}

func (n *narrator) paint(code, text string) string {
	if !n.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (n *narrator) title(format string, args ...any) {
	n.step++
	fmt.Fprintf(n.out, "\n%s\n", n.paint("1", fmt.Sprintf("%d. %s", n.step, fmt.Sprintf(format, args...))))
}

func (n *narrator) say(format string, args ...any) {
	for line := range strings.SplitSeq(fmt.Sprintf(format, args...), "\n") {
		fmt.Fprintln(n.out, "   "+line)
	}
}

func (n *narrator) seen(format string, args ...any) {
	n.say("%s %s", n.paint("32", "✓"), fmt.Sprintf(format, args...))
}

// quote prints received text, set off from the narration.
func (n *narrator) quote(text string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		fmt.Fprintln(n.out, "     "+n.paint("36", "│ ")+line)
	}
}

func (n *narrator) failed(err error) {
	fmt.Fprintf(n.out, "\n%s\n", n.paint("31", fmt.Sprintf("The demo failed: %v", err)))
}

func (n *narrator) done() {
	fmt.Fprintf(n.out, "\n%s\n", n.paint("1", fmt.Sprintf("Every step held (%s).", time.Since(n.start).Round(time.Second))))
}

// while runs f and prints what every few seconds until f returns.
func (n *narrator) while(ctx context.Context, what string, f func(context.Context) error) error {
	begin := time.Now()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	ticker := time.NewTicker(3 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			return nil
		case <-ticker.C:
			n.say("… %s (%s)", what, time.Since(begin).Round(time.Second))
		}
	}
}

func lastLines(text string, count int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}
