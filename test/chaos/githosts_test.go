package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"notifier/test/env"
)

// gitHost keeps the statuses and comments of one repository, for any host: a request's path identifies its API. It
// refuses every third write, and carries out every fifth without an answer.
type gitHost struct {
	providerType string
	// path is that of the Provider's address, which is complete if there is a host.
	path string
	// host is that of the API if it is not the address's.
	host string

	mu       sync.Mutex
	writes   int
	statuses []map[string]any
	comments []map[string]any
}

func gitHosts() []*gitHost {
	return []*gitHost{
		{providerType: "github", path: "/o/r"},
		{providerType: "githubpullrequestcomment", path: "/o/r"},
		{providerType: "gitlab", path: "/o/r"},
		{providerType: "gitlabmergerequestcomment", path: "/o/r"},
		{providerType: "gitea", path: "/o/r"},
		{providerType: "giteapullrequestcomment", path: "/o/r"},
		{providerType: "bitbucket", host: "api.bitbucket.org", path: "https://bitbucket.org/o/r"},
		{providerType: "bitbucketserver", path: "/scm/o/r"},
		{providerType: "azuredevops", path: "/o/p/_git/r"},
	}
}

// alert starts the host and makes the tenant's events be sent there.
func (g *gitHost) alert(ctx context.Context, t *testing.T, tenant *env.Tenant) {
	t.Helper()
	name := "to-" + g.providerType
	if g.host != "" {
		far, err := env.NewFar(g.host)
		must(t, err)
		t.Cleanup(func() { _ = far.Close() })
		far.AnswerWith(g.answer)
		must(t, far.Alert(ctx, tenant, name, env.FarProvider{
			Type: g.providerType, Secret: map[string]string{"address": g.path, "token": "t"},
		}))
		return
	}
	sink, err := env.NewSink()
	must(t, err)
	t.Cleanup(func() { _ = sink.Down() })
	sink.AnswerWith(g.answer)
	must(t, tenant.Alert(ctx, name, g.providerType, sink.URL(g.path), env.AnyKustomization))
}

func (g *gitHost) answer(r env.Received) env.Answer {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.Method == http.MethodGet {
		return g.read(r)
	}
	g.writes++
	if g.writes%3 == 1 {
		return env.Answer{Status: http.StatusServiceUnavailable}
	}
	var body map[string]any
	if json.Unmarshal(r.Body, &body) != nil {
		return env.Answer{Status: http.StatusBadRequest}
	}
	if strings.HasSuffix(g.providerType, "comment") {
		g.comment(r, body)
	} else {
		g.statuses = append(g.statuses, body)
	}
	return env.Answer{Status: http.StatusCreated, Body: string(r.Body), Drop: g.writes%5 == 0}
}

func (g *gitHost) read(r env.Received) env.Answer {
	var out any
	switch {
	case strings.HasSuffix(r.Path, "/user"):
		out = map[string]string{"login": "bot", "username": "bot"}
	case strings.HasSuffix(g.providerType, "comment"):
		out = g.comments
		if strings.Contains(r.Query, "page=") && !strings.Contains(r.Query, "page=1") {
			out = []any{}
		}
	case strings.HasPrefix(g.providerType, "bitbucket"):
		if len(g.statuses) == 0 {
			return env.Answer{Status: http.StatusNotFound}
		}
		out = g.statuses[len(g.statuses)-1]
	default:
		list := make([]map[string]any, 0, len(g.statuses))
		for i, s := range slices.Backward(g.statuses) {
			list = append(list, map[string]any{
				"id": i + 1, "state": s["state"], "status": s["state"], "name": s["name"], "context": s["context"], "description": s["description"],
			})
		}
		out = list
		switch g.providerType {
		case "azuredevops":
			out = map[string]any{"value": list, "count": len(list)}
		case "gitea":
			out = map[string]any{"statuses": list}
		}
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return env.Answer{Status: http.StatusInternalServerError}
	}
	return env.Answer{Body: string(raw)}
}

func (g *gitHost) comment(r env.Received, body map[string]any) {
	for _, c := range g.comments {
		if r.Method != http.MethodPost && strings.HasSuffix(r.Path, fmt.Sprintf("/%v", c["id"])) {
			c["body"] = body["body"]
			return
		}
	}
	author := map[string]string{"login": "bot", "username": "bot"}
	g.comments = append(g.comments, map[string]any{"id": len(g.comments) + 1, "body": body["body"], "user": author, "author": author})
}

// shows returns nil if the last status, or the one comment, is that of the last event.
func (g *gitHost) shows(failed bool, message string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if strings.HasSuffix(g.providerType, "comment") {
		if len(g.comments) != 1 || !strings.Contains(fmt.Sprint(g.comments[0]["body"]), message) {
			return fmt.Errorf("%s: comments are %v, want one that says %q", g.providerType, g.comments, message)
		}
		return nil
	}
	if len(g.statuses) == 0 {
		return fmt.Errorf("%s: no status", g.providerType)
	}
	state := strings.ToLower(fmt.Sprint(g.statuses[len(g.statuses)-1]["state"]))
	if fails := strings.HasPrefix(state, "fail") || state == "error"; fails != failed {
		return fmt.Errorf("%s: the last status is %q", g.providerType, state)
	}
	return nil
}
