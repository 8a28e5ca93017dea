package bus

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// powerDisk records the files of a bus that a loss of power would leave. Of each file that is its state at the last sync. Of the
// directories it is either their state at the last sync or (a file system may be ahead there) their present one.
type powerDisk struct {
	dir string

	mu     sync.RWMutex // locked for writing while power is cut
	stated sync.Mutex
	sizes  map[uint64]int64             // of the inodes that were synced
	kept   map[uint64]string            // links to them
	names  map[string]map[string]uint64 // of the directories of blocks that were synced
}

// ahead tells of which directories the present names are on disk: those of the server's blocks, those of the kept blocks.
type ahead struct{ blocks, kept bool }

// of reports whether dir has its present names on disk.
func (a ahead) of(dir string) bool {
	switch {
	case filepath.Base(dir) == blocksDir:
		return a.blocks
	case filepath.Base(filepath.Dir(dir)) == guardDir:
		return a.kept
	default:
		return true
	}
}

func newPowerDisk(t *testing.T) *powerDisk {
	d := &powerDisk{
		dir: t.TempDir(), sizes: map[uint64]int64{}, kept: map[uint64]string{}, names: map[string]map[string]uint64{},
	}
	must(t, os.Mkdir(d.inodes(), 0o700))
	must(t, os.Mkdir(d.data(), 0o700))
	return d
}

func (d *powerDisk) inodes() string { return filepath.Join(d.dir, "inodes") }
func (d *powerDisk) data() string   { return filepath.Join(d.dir, "data") }

func inode(info fs.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }

// The layout of a data directory, as package embedded documents it.
const (
	serverDir   = "jetstream"
	blocksDir   = "msgs"
	blockSuffix = ".blk"
	guardDir    = "synced"
	bootFile    = "boot"
)

func streamDir(dataDir, stream string) string {
	return filepath.Join(dataDir, serverDir, "$G/streams", stream)
}

func isBlock(path string) bool { return filepath.Ext(path) == blockSuffix }

// fsync records the synced state. Files that are replaced by renaming keep their content by a link.
func (d *powerDisk) fsync(f *os.File) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	d.stated.Lock()
	defer d.stated.Unlock()
	if !info.IsDir() {
		link := filepath.Join(d.inodes(), strconv.FormatUint(inode(info), 10))
		if _, known := d.kept[inode(info)]; !known {
			err := os.Link(f.Name(), link)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			d.kept[inode(info)] = link
		}
		d.sizes[inode(info)] = info.Size()
		return nil
	}
	names := map[string]uint64{}
	entries, err := os.ReadDir(f.Name())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			names[e.Name()] = inode(info)
		}
	}
	d.names[f.Name()] = names
	return nil
}

// cut copies the files that a loss of power would leave to a new directory, after meanwhile has run without any sync.
func (d *powerDisk) cut(t *testing.T, a ahead, meanwhile func()) (dir string) {
	t.Helper()
	dir = t.TempDir()
	d.mu.Lock()
	defer d.mu.Unlock()
	meanwhile()
	copies := map[uint64]string{}
	copyDir := func(from string) {
		must(t, filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			must(t, err)
			rel, err := filepath.Rel(d.data(), path)
			must(t, err)
			to := filepath.Join(dir, rel)
			if e.IsDir() {
				must(t, os.MkdirAll(to, 0o700))
				if !a.of(path) {
					for name, inode := range d.names[path] {
						if isBlock(name) {
							d.copyInode(t, copies, inode, filepath.Join(to, name))
						}
					}
				}
				return nil
			}
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) || !a.of(filepath.Dir(path)) && isBlock(path) {
				return nil
			}
			must(t, err)
			d.copyInode(t, copies, inode(info), to)
			return nil
		}))
	}
	copyDir(filepath.Join(d.data(), serverDir))
	copyDir(filepath.Join(d.data(), guardDir)) // after the blocks, as the server removes them meanwhile
	must(t, os.WriteFile(filepath.Join(dir, guardDir, bootFile), []byte("another boot"), 0o600))
	return dir
}

// copyInode copies the synced state of a file. A file that was never synced is there, and empty. Links in the new directory stay links.
func (d *powerDisk) copyInode(t *testing.T, copies map[uint64]string, inode uint64, to string) {
	t.Helper()
	if other, copied := copies[inode]; copied {
		must(t, os.Link(other, to))
		return
	}
	copies[inode] = to
	var content []byte
	if link, known := d.kept[inode]; known {
		whole, err := os.ReadFile(link)
		must(t, err)
		content = whole[:min(int64(len(whole)), d.sizes[inode])]
	}
	must(t, os.WriteFile(to, content, 0o600))
}
