package gitops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"notifier/test/env"
)

// GitServer serves bare repositories over HTTP on loopback, as long as this process lives.
type GitServer struct {
	url, root string
}

// Repository is one of them, with a work tree to push from.
type Repository struct {
	// URL is the address for a GitRepository.
	URL  string
	work string
}

// ServeGit starts a server without repositories.
func ServeGit(ctx context.Context) (*GitServer, error) {
	root, err := env.TempDir("git")
	if err != nil {
		return nil, err
	}
	programs, err := git(ctx, root, "--exec-path")
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: 30 * time.Second, Handler: &cgi.Handler{
		Path: filepath.Join(programs, "git-http-backend"),
		Env:  append([]string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"}, gitEnvironment...),
	}}
	go func() { _ = server.Serve(listener) }()
	return &GitServer{url: "http://" + listener.Addr().String(), root: root}, nil
}

// Repository makes an empty repository.
func (g *GitServer) Repository(ctx context.Context, name string) (*Repository, error) {
	bare := filepath.Join(g.root, name+".git")
	if _, err := git(ctx, g.root, "init", "--quiet", "--bare", "--initial-branch=main", bare); err != nil {
		return nil, err
	}
	work := filepath.Join(g.root, name)
	_, err := git(ctx, g.root, "clone", "--quiet", bare, work)
	return &Repository{URL: g.url + "/" + name + ".git", work: work}, err
}

// Push commits a file's new content, pushes it to the branch main and returns the revision as Flux writes it.
func (r *Repository) Push(ctx context.Context, message, file, content string) (revision string, err error) {
	name := filepath.Join(r.work, file)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(content), 0o600)); err != nil {
		return "", err
	}
	for _, args := range [][]string{{"add", "--all"}, {"commit", "--quiet", "--message", message}, {"push", "--quiet", "origin", "HEAD:main"}} {
		if _, err := git(ctx, r.work, args...); err != nil {
			return "", err
		}
	}
	commit, err := git(ctx, r.work, "rev-parse", "HEAD")
	return "main@sha1:" + commit, err
}

// gitEnvironment hides the configuration of this machine from git.
var gitEnvironment = []string{
	"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
	"GIT_AUTHOR_NAME=dev", "GIT_AUTHOR_EMAIL=dev@example.com", "GIT_COMMITTER_NAME=dev", "GIT_COMMITTER_EMAIL=dev@example.com",
}

// git runs a command in dir and returns its output.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, gitEnvironment...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w\n%s", args[0], err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}
