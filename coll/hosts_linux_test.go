package coll_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"softrdma/internal/testenv"
	"softrdma/internal/testenv/twohosts"
)

// twoHosts makes two hosts: namespaces with a cable between them, and names of their own. Both have
// an address for containers, too, the same one. It returns the cable, and the beginnings of command
// lines that run a program on either host.
func twoHosts(t *testing.T) (cable *twohosts.Hosts, at [2][]string) {
	t.Helper()
	cable, err := twohosts.Cable(1500)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cable.Close)
	for i := range at {
		argv := append(slices.Clone(cable.Inside[i]), "ip", "addr", "add", "172.17.0.1/16", "dev", "lo")
		if out, err := exec.CommandContext(within(t), argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", argv, err, out)
		}
		rename := filepath.Join(t.TempDir(), "host")
		text := fmt.Sprintf("#!/bin/sh\nhostname %s\nexec \"$@\"\n", hostNames[i])
		if err := os.WriteFile(rename, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		at[i] = append(slices.Clone(cable.Inside[i]), "unshare", "--uts", rename)
	}
	return cable, at
}

var hostNames = [2]string{"softrdma-one", "softrdma-two"}

// Launchers of others start groups on several hosts, without a word of where their devices are.
func TestWorldOnTwoHostsUnderOtherLaunchers(t *testing.T) {
	testenv.Root(t, "network namespaces")
	testenv.Programs(t, "ip", "nsenter", "unshare")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cable, at := twoHosts(t)
	hosts := [2]string{cable.Client.String(), cable.Server.String()}
	agent := filepath.Join(t.TempDir(), "agent")
	if err := twohosts.WriteAgent(agent, hosts[0], at[1]); err != nil {
		t.Fatal(err)
	}
	const format3 = "env -u PMIX_SERVER_URI41 -u PMIX_SERVER_URI4"
	openMPI := fmt.Sprintf("mpirun.openmpi --allow-run-as-root --oversubscribe -x %s --mca plm rsh --mca plm_rsh_agent %s --host %s:2,%s:2 -np 4",
		memberOfWorld, agent, hosts[0], hosts[1])
	hydra := fmt.Sprintf("mpiexec.hydra -launcher ssh -launcher-exec %s -localhost %s -hosts %s:2,%s:2 -n 4",
		agent, hosts[0], hosts[0], hosts[1])
	for _, x := range []struct{ name, line string }{
		{"PMIx", openMPI},
		{"PMIx, format of version 3", openMPI + " " + format3},
		{"PMI-1", hydra},
	} {
		t.Run(x.name, func(t *testing.T) {
			argv := append(strings.Fields(x.line), self)
			testenv.Programs(t, argv[0])
			argv = append(slices.Clone(at[0]), argv...)
			cmd := exec.CommandContext(within(t), argv[0], argv[1:]...)
			cmd.WaitDelay = 10 * time.Second // for daemons that a killed launcher leaves
			cmd.Env = append(os.Environ(), memberOfWorld+"=host")
			out, err := cmd.CombinedOutput()
			for _, h := range hostNames {
				if err != nil || strings.Count(string(out), "sum 6 of 4 on "+h+"\n") != 2 {
					t.Fatalf("not 2 sums on %s: %v: %s", h, err, out)
				}
			}
		})
	}
}
