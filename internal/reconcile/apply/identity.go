package apply

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
)

// errIdentity is the refusal to write as an account that cannot be named.
var errIdentity = errors.New("no service account to write as")

// Identity returns the user name of a service account. It fails closed (invariant T2): an empty or malformed part is an error, because
// a request with an empty or ambiguous impersonation header would run as another user.
func Identity(namespace, name string) (string, error) {
	if faults := validation.IsDNS1123Label(namespace); len(faults) > 0 {
		return "", fmt.Errorf("%w: namespace is not valid", errIdentity)
	}
	if faults := validation.IsDNS1123Subdomain(name); len(faults) > 0 {
		return "", fmt.Errorf("%w: name is not valid", errIdentity)
	}
	return "system:serviceaccount:" + namespace + ":" + name, nil
}
