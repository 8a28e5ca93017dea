package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// row is one line of the table.
type row struct {
	name     string
	measured string
	baseline string
	// value must be at least bound, or with atMost at most bound.
	value, bound float64
	atMost       bool
	unit         string
	// reported says that there is no bound.
	reported bool
}

func (r row) held() bool {
	switch {
	case r.reported:
		return true
	case r.atMost:
		return r.value <= r.bound
	}
	return r.value >= r.bound
}

// printTable prints the rows and reports whether all are within their bounds.
func printTable(w io.Writer, rows []row) bool {
	held := true
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nWHAT\tMEASURED\tBASELINE\tVALUE\tBOUND\t")
	for _, r := range rows {
		relation, verdict := "≥", "ok"
		switch {
		case r.reported:
			fmt.Fprintf(t, "%s\t%s\t%s\t%.2f%s\t\treported\n", r.name, r.measured, r.baseline, r.value, r.unit)
			continue
		case r.atMost:
			relation = "≤"
		}
		if !r.held() {
			verdict, held = "NOT HELD", false
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%.2f%s\t%s %g%s\t%s\n", r.name, r.measured, r.baseline, r.value, r.unit, relation, r.bound, r.unit, verdict)
	}
	t.Flush()
	return held
}
