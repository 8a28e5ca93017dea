package kube

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/validation"

	"notifier/internal/fair"
)

// Older reports whether one resource version is known to come before another. Versions that do not compare, as an empty one, are not.
func Older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// ParseAPIVersion reads the group and version of a kind, and reports whether they are plain names: they come from a tenant and
// become part of a path.
func ParseAPIVersion(apiVersion string) (schema.GroupVersion, bool) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil || len(validation.IsDNS1035Label(gv.Version)) > 0 ||
		gv.Group != "" && len(validation.IsDNS1123Subdomain(gv.Group)) > 0 {
		return schema.GroupVersion{}, false
	}
	return gv, true
}

// Await waits until done closes, but no longer than a time. It reports whether ctx is still there.
func Await(ctx context.Context, done <-chan struct{}, atMost time.Duration) bool {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Sleep is fair.Sleep, and reports whether the time passed before ctx ended.
func Sleep(ctx context.Context, d time.Duration) bool { return fair.Sleep(ctx, d) == nil }
