package app

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Fails when a page is given back that differs from the file, of which the kernel would then read the file's, or a page of another file.
func TestOnlyWhatTheFileHasIsGivenBack(t *testing.T) {
	const smaps = `00400000-01d40000 r-xp 00000000 fe:00 1 /usr/bin/notifier
Rss:               20672 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
01d40000-03810000 r--p 01940000 fe:00 1 /usr/bin/notifier
Anonymous:             0 kB
03810000-03820000 r--p 03410000 fe:00 1 /usr/bin/notifier
Anonymous:             8 kB
03820000-038ea000 rw-p 03420000 fe:00 1 /usr/bin/notifier
Anonymous:             0 kB
7f0000000000-7f0000010000 r-xp 00000000 fe:00 2 /usr/lib/libc.so.6
Anonymous:             0 kB
7f0000020000-7f0000030000 r--p 00000000 00:00 0
Anonymous:             0 kB
`
	got := unchanged(strings.NewReader(smaps), "/usr/bin/notifier")
	if want := []mapping{{0x400000, 0x1d40000}, {0x1d40000, 0x3810000}}; !slices.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

// Fails when the kernel writes what is not understood, so that nothing is given back.
func TestTheProgramGoesOnWithoutThePagesOfItsStart(t *testing.T) {
	before := textResident(t)
	forgetText()
	if after := textResident(t); after >= before {
		t.Errorf("%d kB of the program's file are resident, before %d", after, before)
	}
}

// textResident is how much of the program's file is in memory, in kB.
func textResident(t *testing.T) (sum int) {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	own := false
	for line := range strings.Lines(string(smaps)) {
		if _, _, _, path, ok := parseMapping(line); ok {
			own = path == program
		}
		if value, ok := strings.CutPrefix(line, "Rss:"); ok && own {
			n, err := strconv.Atoi(strings.Fields(value)[0])
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}
