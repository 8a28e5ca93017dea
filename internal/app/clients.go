package app

import (
	"errors"
	"fmt"
	"log/slog"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"notifier/internal/api/access"
	"notifier/internal/builtin"
	"notifier/internal/reconcile"
	"notifier/internal/reconcile/apply"
	"notifier/internal/reconcile/kube"
	"notifier/internal/reconcile/watch"
)

// clients are the clients of the API server. Each has the budget that its work needs, so that none waits for another's.
type clients struct {
	kinds    reconcile.Clients // --kube-api-qps, Secrets by --secret-read-qps
	events   rest.Interface    // Kubernetes Events, within --kube-api-qps
	accounts rest.Interface    // service accounts of Providers and their tokens, a budget as large as --kube-api-qps
	// tokens, rights and namespaces are for the API, within the budgets of internal/api/access.
	tokens     access.Reviewer[*authenticationv1.TokenReview]
	rights     access.Reviewer[*authorizationv1.SubjectAccessReview]
	namespaces access.Namespaces
	server     *watch.Server
	apply      *apply.Client // --trigger-qps
	access     *apply.Access
	// catalogue has the kinds that the cluster serves, by requests of server.
	catalogue *kube.Catalogue
}

func newClients(o Options, log *slog.Logger) (clients, error) {
	config, err := kubeConfig(o.Kubeconfig)
	if err != nil {
		return clients{}, err
	}
	config.UserAgent = "notifier/" + o.Version
	config.QPS, config.Burst = o.KubeAPIQPS, o.KubeAPIBurst
	// Compressing a list takes the API server, and this process, more time than its way over a cluster's network.
	config.DisableCompression = true
	// Reads by watch and discovery are few, and bounded by the kinds that the cluster serves.
	unlimited := rest.CopyConfig(config)
	unlimited.QPS = -1

	var c clients
	var errs [4]error
	c.kinds, errs[0] = reconcile.NewClients(config, log)
	c.server, errs[1] = watch.NewServer(unlimited, log)
	c.apply, errs[2] = apply.NewClient(unlimited)
	c.access, errs[3] = apply.NewAccess(unlimited)
	err = errors.Join(errs[:]...)
	client := func(config *rest.Config, gv schema.GroupVersion) rest.Interface {
		client, failure := builtin.NewClient(config, gv)
		err = errors.Join(err, failure)
		return client
	}
	c.events, c.accounts = client(config, corev1.SchemeGroupVersion), client(config, corev1.SchemeGroupVersion)
	c.namespaces = builtin.In[corev1.Namespace](client(unlimited, corev1.SchemeGroupVersion), "namespaces", "")
	c.tokens = builtin.In[authenticationv1.TokenReview](client(unlimited, authenticationv1.SchemeGroupVersion), "tokenreviews", "")
	c.rights = builtin.In[authorizationv1.SubjectAccessReview](
		client(unlimited, authorizationv1.SchemeGroupVersion), "subjectaccessreviews", "",
	)
	if err != nil {
		return clients{}, fmt.Errorf("kubernetes clients: %w", err)
	}
	c.catalogue = kube.NewCatalogue(c.server)
	return c, nil
}

// kubeConfig returns the configuration of the API server: from file, else from the cluster of this process, else from KUBECONFIG.
func kubeConfig(file string) (*rest.Config, error) {
	if file == "" {
		config, err := rest.InClusterConfig()
		if err == nil {
			return config, nil
		}
		if !errors.Is(err, rest.ErrNotInCluster) {
			return nil, fmt.Errorf("in-cluster configuration: %w", err)
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w; outside a cluster give a file, or set KUBECONFIG", err)
	}
	return config, nil
}
