package main

import (
	"bytes"
	"os"
	"reflect"
	"testing"
)

// program has the linker put the whole program into the binary of these tests.
var program = main

// called has a method that is called, and uncalled one that nothing calls.
type (
	called   struct{}
	uncalled struct{}
)

//go:noinline
func (called) Exported() {}

func (uncalled) Exported() {}

// TestTheLinkerDropsMethodsThatNothingCalls fails when the program, or what it imports, looks methods up by names that are known only at
// run time, as Execute of html/template and text/template does: the linker then keeps every exported method of every type, 23 MB of them.
//
//	go build -ldflags=-dumpdep -o /dev/null ./cmd/notifier 2>&1 | grep ReflectMethod
//
// names the functions that do it.
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
		t.Error("the binary has a method that nothing calls")
	}
}

// hasMethod reports whether the method Exported of a value's type is in a binary, which has the name of each function, ended by a zero. The
// name is put together here, so that it is there for the function alone.
func hasMethod(binary []byte, value any) bool {
	t := reflect.TypeOf(value)
	return bytes.Contains(binary, []byte(t.PkgPath()+"."+t.Name()+".Exported\x00"))
}
