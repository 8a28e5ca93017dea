package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"notifier/test/scale"
)

// scaleNamespaces is the size of the row's cluster. Command scale makes larger ones.
const scaleNamespaces = 200

// scale adds the figure of a full cluster that takes the largest share of its bound.
func (b *bench) scale(ctx context.Context) error {
	figures, err := scale.Measure(ctx, scale.Size{
		Namespaces: scaleNamespaces, Quiet: 5 * time.Second, Say: func(what string) { fmt.Fprintln(os.Stderr, "bench: …", what) },
	})
	if err != nil {
		return err
	}
	worst := figures[0]
	for _, f := range figures {
		if f.Strain() > worst.Strain() {
			worst = f
		}
	}
	b.add(row{
		name:     fmt.Sprintf("the worst figure of %d namespaces, in parts of its bound", scaleNamespaces),
		measured: fmt.Sprintf("%s: %.3g %s", worst.Name, worst.Value, worst.Unit), baseline: "make scale",
		value: worst.Strain(), bound: 1, atMost: true,
	})
	return nil
}
