package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"

	"notifier/test/env"
)

// mostOfFew bounds the p99 of a page of 1,000,000 deliveries, as a multiple of that of a page of 1,000.
const mostOfFew = 4

// pageFigure matches a line of BenchmarkListDeliveries: the number of kept deliveries, the list, and its p50 and p99 in
// milliseconds.
var pageFigure = regexp.MustCompile(`(?m)^BenchmarkListDeliveries/kept=(\d+)/(\w+)-\d+\s.*?([\d.]+) p50-ms\s+([\d.]+) p99-ms`)

// listing measures a tenant's wait for a page of the kept deliveries. It runs the benchmark of the bus, which alone
// writes so many.
func (b *bench) listing(ctx context.Context) error {
	dir, err := env.ProductDir()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "./internal/bus", "-run", "^$", "-bench", "ListDeliveries/kept/(pages|small)", "-benchtime", "200x")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("benchmark of the lists: %w: %s", err, out)
	}
	p50, p99 := map[string]float64{}, map[string]float64{}
	for _, line := range pageFigure.FindAllStringSubmatch(string(out), -1) {
		list := line[1] + " " + line[2]
		p50[list], _ = strconv.ParseFloat(line[3], 64) // the expression matches numbers
		p99[list], _ = strconv.ParseFloat(line[4], 64)
	}
	const many, few, small = "1000000 pages", "1000 pages", "1000000 small"
	if p99[many] == 0 || p99[few] == 0 {
		return fmt.Errorf("the benchmark of the lists has no figures: %s", out)
	}
	told := func(list string) string { return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms", p50[list], p99[list]) }
	b.add(row{
		name: "listing 50 of 1,000,000 kept deliveries, p99", measured: told(many), baseline: "of 1,000: " + told(few),
		value: p99[many] / p99[few], bound: mostOfFew, atMost: true,
	})
	b.add(row{
		name: "listing 50 of 1,000 deliveries beside 1,000,000 of another namespace", measured: told(small),
		value: p99[small], unit: " ms", reported: true,
	})
	return nil
}
