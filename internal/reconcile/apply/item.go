package apply

// item is work on one object, or with a job the resolution of that job's target.
type item struct {
	namespace string
	job       string
	object    object
}

// object names an object within a namespace, for any version of its API.
type object struct{ group, kind, name string }

// parts returns the namespace, whose turn an item waits for, and the object or trigger that the item is about.
func (it item) parts() (namespace, name string) {
	if it.job != "" {
		return it.namespace, "trigger " + it.job
	}
	return it.namespace, it.object.kind + "/" + it.object.name
}
