package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"notifier/test/env"
)

// mostOfBarePost bounds the time of a send, in bare POSTs. A type that reads before it writes makes two or three
// requests.
const mostOfBarePost = 10

// destinationsAgainst adds a row for each type of Provider for which a sink can serve as destination: a send through it
// against a bare POST of the event, by the Go benchmark of the types.
func (b *bench) destinationsAgainst(ctx context.Context) error {
	dir, err := env.ProductDir()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkSend$", "-benchtime", "2000x",
		"./internal/alerts/provider/registry")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	took := map[string]float64{}
	var order []string
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || fields[3] != "ns/op" {
			continue
		}
		name := strings.TrimPrefix(fields[0], "BenchmarkSend/")
		if i := strings.LastIndex(name, "-"); i >= 0 {
			name = name[:i] // without the number of processors
		}
		if took[name], err = strconv.ParseFloat(fields[2], 64); err != nil {
			return err
		}
		order = append(order, name)
	}
	bare := took["bare"]
	if bare == 0 {
		return errors.New("the benchmark of the types has no bare POST")
	}
	for _, name := range order {
		if name != "bare" {
			b.add(row{
				name: "a send, type " + name, measured: fmt.Sprintf("%.0f µs", took[name]/1e3),
				baseline: fmt.Sprintf("bare POST %.0f µs", bare/1e3), value: took[name] / bare, bound: mostOfBarePost, atMost: true,
			})
		}
	}
	return nil
}
