package env

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// natsNodes is the size of a cluster: two are a quorum of it, so one may be down.
const natsNodes = 3

// NATSCluster is a cluster of three nats-servers with JetStream, each in a process of its own.
type NATSCluster struct {
	// URL for clients: the addresses of all nodes.
	URL   string
	Nodes []*NATSServer
}

// StartNATSCluster builds and starts the nodes and waits until JetStream serves on all of them. The options are those of each node.
func StartNATSCluster(ctx context.Context, o NATSOptions) (*NATSCluster, error) {
	ports, err := FreePorts(natsNodes)
	if err != nil {
		return nil, err
	}
	var routes []string
	for _, port := range ports {
		routes = append(routes, fmt.Sprintf("\"nats://127.0.0.1:%d\"", port))
	}
	c := &NATSCluster{}
	var urls []string
	for i, port := range ports {
		node := o
		node.Config += fmt.Sprintf("\nserver_name: %s\ncluster { name: test, listen: \"127.0.0.1:%d\", routes: [%s] }\n",
			nodeName(i), port, strings.Join(routes, ", "))
		s, err := launchNATS(ctx, node)
		if err != nil {
			return nil, errors.Join(err, c.Stop())
		}
		c.Nodes = append(c.Nodes, s)
		urls = append(urls, s.URL)
	}
	c.URL = strings.Join(urls, ",")
	for _, node := range c.Nodes { // none is ready before there is a quorum
		if err := node.ready(ctx); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
	}
	return c, nil
}

func nodeName(i int) string { return fmt.Sprint("nats-", i) }

// Leader waits until the stream has a leader and returns that node; without a name, the node that leads the cluster
// itself (the meta leader). All nodes must run.
func (c *NATSCluster) Leader(ctx context.Context, stream string) (*NATSServer, error) {
	var leader *NATSServer
	err := Eventually(ctx, func(ctx context.Context) error {
		name, err := c.Nodes[0].leaderName(ctx, stream)
		if err != nil {
			return err
		}
		for i, node := range c.Nodes {
			if name == nodeName(i) {
				leader = node
				return nil
			}
		}
		return fmt.Errorf("%q is led by %q", stream, name)
	})
	return leader, err
}

// Stop ends all nodes.
func (c *NATSCluster) Stop() error {
	var errs []error
	for _, node := range c.Nodes {
		errs = append(errs, node.Stop())
	}
	return errors.Join(errs...)
}

// jetStreamState is the part of /jsz about leaders.
type jetStreamState struct {
	Meta struct {
		Leader string `json:"leader"`
	} `json:"meta_cluster"`
	Accounts []struct {
		Streams []struct {
			Name    string `json:"name"`
			Cluster struct {
				Leader string `json:"leader"`
			} `json:"cluster"`
		} `json:"stream_detail"`
	} `json:"account_details"`
}

// leaderName returns the name of the node that leads the stream, or the cluster, as this node sees it; "" when there is
// none.
func (s *NATSServer) leaderName(ctx context.Context, stream string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.monitor+"/jsz?accounts=true&streams=true", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var state jetStreamState
	if err := json.NewDecoder(resp.Body).Decode(&state); err != nil {
		return "", fmt.Errorf("/jsz: %w", err)
	}
	if stream == "" {
		return state.Meta.Leader, nil
	}
	for _, account := range state.Accounts {
		for _, s := range account.Streams {
			if s.Name == stream {
				return s.Cluster.Leader, nil
			}
		}
	}
	return "", nil
}
