package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The server's files of a stream (see the package's documentation).
const (
	serverDir   = "jetstream"
	accountDir  = "$G/streams"
	blocksDir   = "msgs"
	consumerDir = "obs"
	blockSuffix = ".blk"
	// stateFile is the server's index of a stream. The server rebuilds it from the blocks when it is absent.
	stateFile = "index.db"
	// mtimeGrain is longer than the time within which the system may give two changes of a directory the same time.
	mtimeGrain = 20 * time.Millisecond
)

// streamFiles syncs the files that the embedded server stores of one stream. It is not safe for concurrent use.
type streamFiles struct {
	msgs, consumers watchedDir
	guard           guard
	fsync           func(*os.File) error
	blocks          map[int]*block
	last            int
}

// block is one file of messages. The server appends to the last one, and replaces or removes the others.
type block struct {
	file   *os.File    // open while it is the last: a write error between two syncs is reported only to a file that was open
	synced fs.FileInfo // of the file as it was synced
	closed bool        // it was not the last when it was synced, so all of it is on disk
}

func streamDir(dataDir, stream string) string {
	return filepath.Join(dataDir, serverDir, accountDir, stream)
}

func newStreamFiles(dataDir, stream string, fsync func(*os.File) error) *streamFiles {
	dir := streamDir(dataDir, stream)
	return &streamFiles{
		msgs: watchedDir{path: filepath.Join(dir, blocksDir)}, consumers: watchedDir{path: filepath.Join(dir, consumerDir)},
		guard: guard{filepath.Join(dataDir, guardDir, stream), fsync}, fsync: fsync, blocks: map[int]*block{},
	}
}

// sync returns when everything that the server wrote before the call is on disk: the blocks first, then their directory.
func (f *streamFiles) sync() error {
	changed, err := f.msgs.changed()
	if err != nil {
		return err
	}
	var gone []int
	if changed {
		if gone, err = f.scan(); err != nil {
			return err
		}
	}
	var captured []int
	for index, b := range f.blocks {
		if b.closed {
			continue
		}
		if b.synced == nil {
			captured = append(captured, index)
		}
		if err := f.syncBlock(index, b); err != nil {
			return err
		}
	}
	if changed {
		if err := syncPath(f.msgs.path, f.fsync); err != nil {
			return err
		}
	}
	// The messages that replace those of a removed or rewritten block are on disk now.
	if err := f.guard.commit(captured, gone); err != nil {
		return err
	}
	if changed, err = f.consumers.changed(); err != nil || !changed {
		return err
	}
	return syncMetadata(f.consumers.path, f.fsync)
}

// scan captures the blocks that are new or were replaced since the last scan, and returns the indices of those that are gone. A listing
// during which the server began or removed a block may lack both an older message and its replacement, so it is repeated.
func (f *streamFiles) scan() (gone []int, err error) {
	for {
		before := f.last
		removed, whole, err := f.list()
		if err != nil {
			return nil, err
		}
		gone = append(gone, removed...)
		_, err = os.Lstat(f.path(f.last + 1))
		if whole && f.last == before && errors.Is(err, fs.ErrNotExist) {
			return gone, nil
		}
	}
}

// list is one listing of scan. It reports false if a block was removed before it could be captured.
func (f *streamFiles) list() (gone []int, whole bool, err error) {
	entries, err := os.ReadDir(f.msgs.path)
	if err != nil {
		return nil, false, fmt.Errorf("read blocks: %w", err)
	}
	found := map[int]bool{}
	f.last, whole = 0, true
	for _, e := range entries {
		index, err := strconv.Atoi(strings.TrimSuffix(e.Name(), blockSuffix))
		if err != nil || !strings.HasSuffix(e.Name(), blockSuffix) {
			continue
		}
		there, err := f.look(index, e)
		if err != nil {
			return nil, false, err
		}
		whole = whole && there
		found[index] = true
		f.last = max(f.last, index)
	}
	for index, b := range f.blocks {
		if !found[index] {
			b.close()
			delete(f.blocks, index)
			gone = append(gone, index)
		}
	}
	return gone, whole, nil
}

// look captures a block if it is new or was replaced. It reports false if the server has removed it.
func (f *streamFiles) look(index int, e fs.DirEntry) (there bool, err error) {
	info, err := e.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read block: %w", err)
	}
	b := f.blocks[index]
	if b != nil && b.is(info) {
		return true, nil
	}
	there, err = f.guard.capture(index, f.path(index))
	if there {
		b.close()
		f.blocks[index] = &block{}
	}
	return there, err
}

func (f *streamFiles) path(index int) string {
	return filepath.Join(f.msgs.path, strconv.Itoa(index)+blockSuffix)
}

// is reports whether info is of the file that was synced. For a closed block it must also have the same size and time.
func (b *block) is(info fs.FileInfo) bool {
	return b.synced != nil && os.SameFile(b.synced, info) && (!b.closed || b.synced.Size() == info.Size() && b.synced.ModTime().Equal(info.ModTime()))
}

// close closes the open files.
func (f *streamFiles) close() {
	for _, b := range f.blocks {
		b.close()
	}
}

func (b *block) close() {
	if b != nil && b.file != nil {
		_ = b.file.Close() // nothing is written to it
		b.file = nil
	}
}

// syncBlock syncs one block. A block that was not synced before is captured.
func (f *streamFiles) syncBlock(index int, b *block) (err error) {
	if b.file == nil {
		if b.file, err = os.Open(f.guard.captured(index)); err != nil {
			return fmt.Errorf("open block: %w", err)
		}
	}
	if err := f.fsync(b.file); err != nil {
		return fmt.Errorf("sync block: %w", err)
	}
	if b.synced, err = b.file.Stat(); err != nil {
		return fmt.Errorf("sync block: %w", err)
	}
	if index != f.last {
		b.closed = true
		b.close()
	}
	return nil
}

// syncBlocks syncs the content of all blocks of a stream.
func syncBlocks(dir string, fsync func(*os.File) error) error {
	msgs := filepath.Join(dir, blocksDir)
	entries, err := os.ReadDir(msgs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sync blocks: %w", err)
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != blockSuffix {
			continue
		}
		if err := syncPath(filepath.Join(msgs, e.Name()), fsync); err != nil {
			return err
		}
	}
	return nil
}

// watchedDir reports changes of a directory's entries.
type watchedDir struct {
	path     string
	modified time.Time
	// certain is true when every change after the last call of changed gives the directory another time.
	certain bool
}

// changed reports whether an entry may have been added, replaced or removed since the last call.
func (d *watchedDir) changed() (bool, error) {
	now := time.Now()
	info, err := os.Stat(d.path)
	if err != nil {
		return false, fmt.Errorf("look at directory: %w", err)
	}
	changed := !d.certain || !info.ModTime().Equal(d.modified)
	d.modified = info.ModTime()
	d.certain = now.Sub(d.modified) > mtimeGrain
	return changed, nil
}

// syncMetadata syncs a directory and everything below it except blocks of messages, the deepest first.
func syncMetadata(dir string, fsync func(*os.File) error) error {
	var paths []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		}
		if e.IsDir() || e.Type().IsRegular() && filepath.Ext(path) != blockSuffix {
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("sync metadata: %w", err)
	}
	for _, path := range slices.Backward(paths) {
		if err := syncPath(path, fsync); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func syncPath(path string, fsync func(*os.File) error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	defer func() { _ = file.Close() }() // nothing is written to it
	if err := fsync(file); err != nil {
		return fmt.Errorf("sync %s: %w", filepath.Base(path), err)
	}
	return nil
}
