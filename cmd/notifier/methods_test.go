package main

import (
	"bytes"
	"os"
	"reflect"
	"testing"
)

// program has the linker put the whole program into the binary of these tests.
var program = main

// The method of called is called, and the method of uncalled is not.
type (
	called   struct{}
	uncalled struct{}
)

//go:noinline
func (called) Exported() {}

func (uncalled) Exported() {}

// TestTheLinkerDropsMethodsThatNothingCalls fails when the program, or a package that it imports, looks methods up by names that
// are known only at run time, as Execute of html/template and text/template does. The linker then keeps every exported method of
// every type, 23 MB of them. This command lists the functions that do so:
//
//	go build -tags=grpcnotrace -ldflags=-dumpdep -o /dev/null ./cmd/notifier 2>&1 | grep ReflectMethod
//
// Traces of gRPC do so too, without the tag that the Makefile sets.
func TestTheLinkerDropsMethodsThatNothingCalls(t *testing.T) {
	if program == nil {
		t.Fatal("the program is not in the binary of the tests")
	}
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	called{}.Exported()
	if !hasMethod(binary, called{}) {
		t.Error("a method that is called is not found in the binary")
	}
	if hasMethod(binary, uncalled{}) {
		t.Error("the binary has a method that nothing calls; it has to be built with -tags=grpcnotrace")
	}
}

// hasMethod reports whether the method Exported of a value's type is in a binary. A binary has the name of each function, ended by
// a zero. The name is assembled here, so that it occurs for the function alone.
func hasMethod(binary []byte, value any) bool {
	t := reflect.TypeOf(value)
	return bytes.Contains(binary, []byte(t.PkgPath()+"."+t.Name()+".Exported\x00"))
}
