package embedded

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// testFiles are the files of a stream whose server is the test.
type testFiles struct {
	*streamFiles
	t       *testing.T
	dataDir string
	// onSync is called before each sync.
	onSync func(path string)
}

func newTestFiles(t *testing.T) *testFiles {
	t.Helper()
	f := &testFiles{t: t, dataDir: t.TempDir(), onSync: func(string) {}}
	f.streamFiles = newStreamFiles(f.dataDir, "S", func(file *os.File) error { f.onSync(file.Name()); return nil })
	for _, d := range []string{f.msgs.path, f.consumers.path, f.guard.dir} {
		f.must(os.MkdirAll(d, 0o700))
	}
	t.Cleanup(f.close)
	return f
}

func (f *testFiles) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// rewrite writes a block to a new file and renames that, as the server does.
func (f *testFiles) rewrite(index int, content string) {
	f.t.Helper()
	fresh := filepath.Join(f.msgs.path, strconv.Itoa(index)+".new")
	f.must(os.WriteFile(fresh, []byte(content), 0o600))
	f.must(os.Rename(fresh, f.path(index)))
}

// extend appends to a block, which is made if it is not there.
func (f *testFiles) extend(index int, content string) {
	f.t.Helper()
	file, err := os.OpenFile(f.path(index), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	f.must(err)
	_, err = file.WriteString(content)
	f.must(err)
	f.must(file.Close())
}

func (f *testFiles) kept(index int) string {
	f.t.Helper()
	content, err := os.ReadFile(f.guard.link(index))
	f.must(err)
	return string(content)
}

// Invariants T3 and E2. Fails when a rewritten block is kept in place of the earlier one before the sync of a block that may have what
// replaces the messages of the earlier one.
func TestABlockIsKeptUntilAllOthersAreSynced(t *testing.T) {
	const last = 9
	f := newTestFiles(t)
	for i := range last {
		f.extend(i+1, "old")
	}
	f.must(f.sync())
	for i := range last - 1 {
		f.rewrite(i+1, "new")
	}
	f.extend(last, "replacements")
	f.onSync = func(path string) {
		if filepath.Dir(path) != f.guard.dir && path != f.msgs.path {
			return
		}
		for i := range last - 1 {
			if got := f.kept(i + 1); got != "old" && path != f.guard.dir {
				t.Errorf("%q of block %d is kept at the sync of %s", got, i+1, filepath.Base(path))
			}
		}
	}
	f.must(f.sync())
	for i := range last - 1 {
		if got := f.kept(i + 1); got != "new" {
			t.Errorf("%q of block %d is kept in the end", got, i+1)
		}
	}
}

// Invariants T3 and E2. Fails when a block that the server removes during a round is left out of it: what replaces its messages is in a block
// of the next round, and a block of acknowledged messages that they had replaced is released in this one.
func TestABlockThatIsRemovedDuringARoundIsKept(t *testing.T) {
	f := newTestFiles(t)
	f.extend(1, "acknowledged")
	f.extend(2, "other")
	f.must(f.sync())
	f.extend(3, "replaces what 1 has")
	f.must(os.Remove(f.path(1)))
	f.onSync = func(string) {
		f.onSync = func(string) {}
		f.extend(4, "replaces what 3 has")
		f.must(os.Remove(f.path(3)))
	}
	f.must(f.sync())
	if got := f.kept(3); got != "replaces what 1 has" {
		t.Errorf("%q is kept", got)
	}
	f.must(f.sync())
	for _, index := range []int{1, 3} {
		if _, err := os.Lstat(f.guard.link(index)); !os.IsNotExist(err) {
			t.Errorf("block %d is not released: %v", index, err)
		}
	}
}

// Invariants T3 and E2. Fails when sync returns before the names of the kept blocks are on disk: the server may then remove a block whose
// link a loss of power takes away.
func TestTheNamesOfKeptBlocksAreSynced(t *testing.T) {
	f := newTestFiles(t)
	onDisk := map[string]fs.FileInfo{}
	f.onSync = func(path string) {
		if path != f.guard.dir {
			return
		}
		entries, err := os.ReadDir(path)
		f.must(err)
		for _, e := range entries {
			onDisk[e.Name()], err = e.Info()
			f.must(err)
		}
	}
	for round := range 4 {
		f.extend(2*round+1, "x")
		f.extend(2*round+2, "x")
		if round > 0 {
			f.rewrite(round, "rewritten")
		}
		f.must(f.sync())
		for i := range 2*round + 2 {
			now, err := os.Lstat(f.path(i + 1))
			f.must(err)
			if kept := onDisk[filepath.Base(f.guard.link(i+1))]; kept == nil || !os.SameFile(kept, now) {
				t.Errorf("round %d: the link to block %d is not on disk", round, i+1)
			}
		}
	}
}

// Fails when a link that is there already ends the syncs of a stream.
func TestABlockMayChangeInPlace(t *testing.T) {
	f := newTestFiles(t)
	f.extend(1, "x")
	f.extend(2, "x")
	for range 3 {
		f.must(f.sync())
		f.extend(1, "more")
	}
}

// Invariants T3 and E2. A process that crashed may have written what replaces the messages of a kept block without a sync. Fails when the next
// start removes the links before it.
func TestAStartSyncsBlocksBeforeItReleasesThem(t *testing.T) {
	f := newTestFiles(t)
	discard := slog.New(slog.DiscardHandler)
	f.must(restoreBlocks(f.dataDir, []string{"S"}, f.fsync, discard)) // this boot
	f.extend(1, "acknowledged")
	f.extend(2, "x")
	f.must(f.sync())
	f.extend(2, "replaces what 1 has")
	f.must(os.Remove(f.path(1)))
	synced := false
	f.onSync = func(path string) {
		if path == f.path(2) {
			synced = f.kept(1) == "acknowledged"
		}
	}
	f.must(restoreBlocks(f.dataDir, []string{"S"}, f.fsync, discard))
	if _, err := os.Lstat(f.guard.link(1)); !synced || !os.IsNotExist(err) {
		t.Errorf("synced while the link was there: %t; the link: %v", synced, err)
	}
}
