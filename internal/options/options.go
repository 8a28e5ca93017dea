// Package options checks the options of constructors.
package options

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Missing returns an error that names, in order, the required options that are missing.
func Missing(missing map[string]bool) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		if missing[name] {
			errs = append(errs, fmt.Errorf("%s is missing", name))
		}
	}
	return errors.Join(errs...)
}
