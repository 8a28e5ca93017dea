package azuredevops

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/githost"
)

const (
	service   = "https://dev.azure.com"
	ownDomain = ".visualstudio.com" // where the organization is a part of the host's name
	// collection is the default collection of organizations and servers.
	collection = "DefaultCollection"
)

// sshHosts are the service's hosts whose addresses have the form host:v3/organization/project/repository.
var sshHosts = []string{"ssh.dev.azure.com", "vs-ssh.visualstudio.com"}

// errAddress describes the form of an address.
var errAddress = errors.New("address is no repository of Azure DevOps; " +
	"it has the form dev.azure.com/organization/project/_git/repository, with https before it")

// locate returns the repository of cfg.Address and replaces that address by the one of its organization or collection.
func locate(cfg *provider.Config) (host, error) {
	at, err := githost.ParseRepository(cfg.Address)
	if err != nil {
		return host{}, err
	}
	base, path := at.Base(), at.Segments()
	if slices.Contains(sshHosts, at.Host) {
		if len(path) != 4 || path[0] != "v3" {
			return host{}, errAddress
		}
		base, path = service, []string{path[1], path[2], "_git", path[3]}
	}
	mark := len(path) - 2
	if mark < 0 || path[mark] != "_git" {
		return host{}, errAddress
	}
	organization, repo := path[:mark], path[mark+1]
	project, shortest := repo, 1 // a project's first repository has its name, and its address may omit the project
	if strings.HasSuffix(at.Host, ownDomain) {
		shortest = 0
	}
	if len(organization) < shortest {
		return host{}, errAddress
	}
	if last := len(organization) - 1; last >= shortest && !strings.EqualFold(organization[last], collection) {
		organization, project = organization[:last], organization[last]
	}
	cfg.Address = githost.Below(base, organization)
	return host{project: project, repo: repo}, nil
}

// isService reports whether an address is on Azure DevOps Services, to which the tokens of Entra ID may be sent.
func isService(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "https" && (u.Hostname() == "dev.azure.com" || strings.HasSuffix(u.Hostname(), ownDomain))
}
