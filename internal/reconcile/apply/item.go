package apply

// item is work on one object, or with a job the resolution of that job's target.
type item struct {
	namespace string
	job       string
	object    object
}

// object names an object within a namespace, whatever the version of its API.
type object struct{ group, kind, name string }

// namespaceOf is whose turn an item waits for.
func namespaceOf(it item) string { return it.namespace }
