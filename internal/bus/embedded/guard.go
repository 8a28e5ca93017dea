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
type guard struct{ dir string }

// keep links the block at path, which was synced with the given info, in place of an earlier one of its index. It reports false if the
// server has replaced the block meanwhile.
func (g guard) keep(index int, path string, info fs.FileInfo) (bool, error) {
	link := g.link(index)
	fresh := link + ".new"
	err := os.Link(path, fresh)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("keep synced block: %w", err)
	}
	linked, err := os.Lstat(fresh)
	if err != nil {
		return false, fmt.Errorf("keep synced block: %w", err)
	}
	if !os.SameFile(linked, info) {
		return false, os.Remove(fresh)
	}
	if err := os.Rename(fresh, link); err != nil {
		return false, fmt.Errorf("keep synced block: %w", err)
	}
	return true, nil
}

// release removes the links of blocks that are gone.
func (g guard) release(indices []int) error {
	for _, index := range indices {
		if err := os.Remove(g.link(index)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("release block: %w", err)
		}
	}
	return nil
}

func (g guard) link(index int) string { return filepath.Join(g.dir, strconv.Itoa(index)+blockSuffix) }

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
	// Restored blocks are on disk before their links are removed.
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
	if err := writeBoot(dir, boot); err != nil {
		return fmt.Errorf("make guard: %w", err)
	}
	return syncMetadata(dir, fsync)
}

func writeBoot(dir string, boot []byte) error {
	f, err := os.OpenFile(filepath.Join(dir, bootFile), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(boot)
	return errors.Join(err, f.Close())
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
	if err := os.Remove(filepath.Join(msgs, stateFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	return restored, nil
}

// clearGuards removes all links. After an orderly end there is nothing to restore.
func clearGuards(dataDir string) error {
	if err := os.RemoveAll(filepath.Join(dataDir, guardDir)); err != nil {
		return fmt.Errorf("clear guards: %w", err)
	}
	return nil
}
