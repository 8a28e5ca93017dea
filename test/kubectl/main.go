// Command kubectl is kubectl as its own repository builds it, for the tests that run the command lines of the
// documentation. It is a module of its own so that its dependencies and ours do not affect each other.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		os.Exit(1)
	}
}
