package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// guardDir has a link to each synced block, by stream, and the file bootFile.
	guardDir = "synced"
	bootFile = "boot"
	bootID   = "/proc/sys/kernel/random/boot_id"
)

// guard keeps the synced blocks of one stream for as long as their replacements may be lost. The server removes a block when newer messages
// have replaced its own, and rewrites a mostly removed one, without a sync of the newer messages or of the rewritten file. A file
// system may make the removal durable first, and a loss of power then loses both. So each synced block has a second link. It is removed
// when a sync has covered everything that was written before the block was seen to be gone.
type guard struct {
	dir   string
	fsync func(*os.File) error
}

// capture links the block at path until commit, so that the server cannot remove or replace it before it is synced. It reports false if the
// server has removed it already.
func (g guard) capture(index int, path string) (bool, error) {
	if err := removeIfThere(g.captured(index)); err != nil {
		return false, fmt.Errorf("capture block: %w", err)
	}
	err := os.Link(path, g.captured(index))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("capture block: %w", err)
	}
	return true, nil
}

// commit keeps the captured blocks, which are synced, in place of earlier ones of their indices, and releases those that are gone. What an
// earlier block has may depend on any captured one, so the new links are on disk before an earlier link is replaced or removed, and all
// captured blocks are kept on disk when commit returns.
func (g guard) commit(captured, gone []int) error {
	if len(captured)+len(gone) == 0 {
		return nil
	}
	var added, replaced []int
	for _, index := range captured {
		_, err := os.Lstat(g.link(index))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			added = append(added, index)
		case err != nil:
			return fmt.Errorf("keep synced block: %w", err)
		default:
			replaced = append(replaced, index)
		}
	}
	if err := g.keep(added); err != nil {
		return err
	}
	if err := g.keep(replaced); err != nil {
		return err
	}
	for _, index := range gone {
		if err := errors.Join(removeIfThere(g.captured(index)), removeIfThere(g.link(index))); err != nil {
			return fmt.Errorf("release block: %w", err)
		}
	}
	return nil
}

// keep makes captured blocks the kept ones, on disk.
func (g guard) keep(captured []int) error {
	if len(captured) == 0 {
		return nil
	}
	for _, index := range captured {
		// A rename does nothing if both names are links to one file, as after a change of a block in place.
		if err := errors.Join(os.Rename(g.captured(index), g.link(index)), removeIfThere(g.captured(index))); err != nil {
			return fmt.Errorf("keep synced block: %w", err)
		}
	}
	return syncPath(g.dir, g.fsync)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (g guard) link(index int) string { return filepath.Join(g.dir, strconv.Itoa(index)+blockSuffix) }

// captured is the name of a captured block. It has another suffix, so it is not restored.
func (g guard) captured(index int) string { return g.link(index) + ".new" }

// restoreBlocks puts back the synced blocks that the server had removed or rewritten when the machine went down, and makes empty
// directories for the links. It is called before the server starts. Messages that were removed from such a block since may exist again.
//
// While the machine stays up no written data is lost, so after the end of the process alone the blocks are as the server left them.
func restoreBlocks(dataDir string, streams []string, fsync func(*os.File) error, log *slog.Logger) error {
	dir := filepath.Join(dataDir, guardDir)
	boot, err := os.ReadFile(bootID)
	if err != nil {
		boot = nil // an unreadable ID counts as another boot
	}
	before, err := os.ReadFile(filepath.Join(dir, bootFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("restore blocks: %w", err)
	}
	if len(boot) == 0 || string(before) != string(boot) {
		for _, stream := range streams {
			restored, err := restoreStream(filepath.Join(dir, stream), streamDir(dataDir, stream))
			if err != nil {
				return fmt.Errorf("restore blocks of %s: %w", stream, err)
			}
			if restored > 0 {
				log.Warn("the machine went down: blocks of messages that were about to be replaced are back", "stream", stream, "blocks", restored)
			}
		}
	}
	// Restored blocks are on disk before their links are removed, and what a process that crashed has written.
	for _, stream := range streams {
		if err := syncBlocks(streamDir(dataDir, stream), fsync); err != nil {
			return err
		}
	}
	if err := syncMetadata(dataDir, fsync); err != nil {
		return err
	}
	if err := clearGuards(dataDir); err != nil {
		return err
	}
	for _, stream := range streams {
		if err := os.MkdirAll(filepath.Join(dir, stream), 0o700); err != nil {
			return fmt.Errorf("make guard: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, bootFile), boot, 0o600); err != nil { //nolint:gosec // the directory comes from a flag
		return fmt.Errorf("make guard: %w", err)
	}
	return syncMetadata(dir, fsync)
}

// restoreStream restores one stream. If it restored a block, it removes the server's index, which the server then rebuilds.
func restoreStream(links, dir string) (restored int, err error) {
	entries, err := os.ReadDir(links)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	msgs := filepath.Join(dir, blocksDir)
	for _, e := range entries {
		link, path := filepath.Join(links, e.Name()), filepath.Join(msgs, e.Name())
		if !strings.HasSuffix(e.Name(), blockSuffix) {
			continue
		}
		kept, err := os.Lstat(link)
		if err != nil {
			return 0, err
		}
		if now, err := os.Lstat(path); err == nil && os.SameFile(kept, now) {
			continue
		}
		if err := os.Rename(link, path); err != nil {
			return 0, err
		}
		restored++
	}
	if restored == 0 {
		return 0, nil
	}
	return restored, removeIfThere(filepath.Join(msgs, stateFile))
}

// clearGuards removes all links. After an orderly end there is nothing to restore.
func clearGuards(dataDir string) error {
	if err := os.RemoveAll(filepath.Join(dataDir, guardDir)); err != nil {
		return fmt.Errorf("clear guards: %w", err)
	}
	return nil
}
