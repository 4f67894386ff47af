package kubernetes

import (
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
)

func TestResourcesHaveNamesAndCounts(t *testing.T) {
	all, err := parseResources([]string{"softrdma/rdma", "rdma/hca_shared_devices_a=7", "nvidia.com/rdma-x=10000"})
	if err != nil || len(all) != 3 || all[0].count != defaultCount || all[1] != (resource{"rdma/hca_shared_devices_a", 7}) || all[2].count != 10000 {
		t.Errorf("unexpected resources %v, %v", all, err)
	}
	for _, text := range []string{
		"", "rdma", "softrdma/", "/rdma", "softrdma/rdma/x", "Soft/rdma", "softrdma/-x", "softrdma/x-", "softrdma/" + strings.Repeat("x", 64),
		"kubernetes.io/rdma", "x.kubernetes.io/rdma", "softrdma/rdma=", "softrdma/rdma=0", "softrdma/rdma=-1", "softrdma/rdma=x",
		"softrdma/rdma=10001", "softrdma/rdma=1=2", "../rdma", "softrdma/..", "a..b/x", strings.Repeat("x", 64) + "/x",
	} {
		if all, err := parseResources([]string{text}); cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("%q: expected a usage error, found %v, %v", text, all, err)
		}
	}
	if _, err := parseResources([]string{"softrdma/rdma", "softrdma/rdma=2"}); err == nil || !strings.Contains(err.Error(), "once") {
		t.Errorf("a name twice: expected an error, found %v", err)
	}
}
