package coll_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"softrdma/internal/testenv"
)

// startSlurm starts Slurm's two daemons on this host, and returns the environment of its commands.
func startSlurm(t *testing.T) []string {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	ports := [...]int{testenv.FreePort(t, "tcp"), testenv.FreePort(t, "tcp")}
	dir := t.TempDir()
	config := fmt.Sprintf(`ClusterName=test
SlurmctldHost=%[1]s(127.0.0.1)
SlurmctldPort=%[2]d
SlurmdPort=%[3]d
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SchedulerType=sched/builtin
SlurmctldPidFile=%[4]s/controller.pid
SlurmdPidFile=%[4]s/node.pid
SlurmdSpoolDir=%[4]s/spool
TmpFS=%[4]s
StateSaveLocation=%[4]s/state
SlurmctldLogFile=%[4]s/controller.log
SlurmdLogFile=%[4]s/node.log
NodeName=%[1]s NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=all Nodes=%[1]s Default=YES State=UP
`, host, ports[0], ports[1], dir)
	path := filepath.Join(dir, "slurm.conf")
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"slurmctld", "-D", "-f", path}, {"slurmd", "-D", "-f", path, "-N", host}} {
		cmd := exec.Command(args[0], args[1:]...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
			if t.Failed() {
				for _, name := range []string{"controller.log", "node.log"} {
					b, _ := os.ReadFile(filepath.Join(dir, name))
					t.Logf("%s:\n%s", name, b)
				}
			}
		})
	}
	env := append(os.Environ(), "SLURM_CONF="+path)
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		cmd := exec.CommandContext(within(t), "sinfo", "-h", "-o", "%t")
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err == nil && strings.TrimSpace(string(out)) == "idle" {
			return env
		}
		if time.Now().After(end) {
			t.Fatalf("Slurm's node is not idle: %v: %s", err, out)
		}
	}
}

// Slurm starts groups, by PMI and by PMIx.
func TestWorldUnderSlurm(t *testing.T) {
	testenv.Root(t, "Slurm's daemons")
	testenv.Programs(t, "slurmctld", "slurmd", "srun", "sinfo")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env := startSlurm(t)
	for name, line := range map[string]string{
		"pmi2":                      "--mpi=pmi2 --overcommit -n 3",
		"pmix":                      "--mpi=pmix --overcommit -n 3 env -u PMIX_SERVER_TMPDIR",
		"pmix, format of version 3": "--mpi=pmix --overcommit -n 3 env -u PMIX_SERVER_TMPDIR -u PMIX_SERVER_URI41",
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(within(t), "srun", append(strings.Fields(line), self)...)
			cmd.Env = append(env, memberOfWorld+"=1")
			out, err := cmd.CombinedOutput()
			if err != nil || strings.Count(string(out), "sum 3 of 3\n") != 3 {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
