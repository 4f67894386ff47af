package kubernetes

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"softrdma/cmd/softrdma/internal/cli"
)

const (
	defaultResource = "softrdma/rdma"
	defaultCount    = 1000
	mostCount       = 10000 // kubelet receives messages of 4 MB
	mostPath        = 107   // bytes of the path of a Unix socket
)

// A resource is a name by which pods ask for a device, and the number of containers that can have it
// at a time.
type resource struct {
	name  string
	count int
}

// resourceName matches the names of extended resources: DOMAIN/NAME.
var resourceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// parseResources returns the resources of --resource.
func parseResources(texts []string) (all []resource, err error) {
	for _, text := range texts {
		name, number, limited := strings.Cut(text, "=")
		r := resource{name, defaultCount}
		if limited {
			if r.count, err = strconv.Atoi(number); err != nil || r.count < 1 || r.count > mostCount {
				return nil, cli.UsageErrorf("--resource %s: expected a count from 1 to %d, found %q", text, mostCount, number)
			}
		}
		domain, _, _ := strings.Cut(name, "/")
		switch {
		case !resourceName.MatchString(name):
			return nil, cli.UsageErrorf("--resource: expected DOMAIN/NAME[=COUNT] such as %s, found %q", defaultResource, text)
		case domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io"):
			return nil, cli.UsageErrorf("--resource %s: expected a domain that is not Kubernetes' own, found %s", text, domain)
		case slices.ContainsFunc(all, func(o resource) bool { return o.name == name || o.endpoint() == r.endpoint() }):
			return nil, cli.UsageErrorf("--resource %s: expected each name once", text)
		}
		all = append(all, r)
	}
	return all, nil
}

// endpoint returns the name of the resource's socket in the directory of kubelet.
func (r resource) endpoint() string {
	return "softrdma-" + strings.ReplaceAll(r.name, "/", "_") + ".sock"
}
