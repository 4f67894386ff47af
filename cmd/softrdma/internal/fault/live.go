package fault

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/control"
)

// askTime is how long the programs of a user have to answer.
const askTime = 5 * time.Second

// A target chooses devices of programs that run.
type target struct {
	pid    int
	device string
	asJSON bool
}

func (t *target) flags(cmd *cobra.Command) *cobra.Command {
	f := cmd.Flags()
	f.IntVar(&t.pid, "pid", 0, "only the process with this `NUMBER`")
	f.StringVarP(&t.device, "device", "d", "", "only devices of this `NAME`, as \"softrdma fault list\" prints it")
	return cmd
}

func newAdd() *cobra.Command {
	var t target
	return t.flags(&cobra.Command{
		Use: "add SCENARIO|FILE", Short: "Add rules to devices of programs that run",
		Long: `Adds the rules of a scenario or of a file to the devices of this user's programs that run
at the moment. Rules that the devices have continue, and keep their counts. Programs that start later have
those of the device of their softrdma exec or daemon.

Programs are those with devices of softrdma: Go programs, those of softrdma exec and
softrdma env, and daemons.`,
		Example: "  softrdma fault add lossy-link\n  softrdma fault add --pid 4711 -d 127.0.0.1 faults.yaml",
		Args:    cli.Args(1, 1, "the name of one SCENARIO or FILE"), ValidArgsFunction: completeScenarios,
		RunE: func(cmd *cobra.Command, args []string) error {
			rules, err := load(args[0])
			if err != nil {
				return err
			}
			b, err := json.Marshal(rules)
			if err != nil {
				return err
			}
			return t.each(cmd, http.MethodPost, b)
		},
	})
}

func newList() *cobra.Command {
	var t target
	cmd := t.flags(&cobra.Command{
		Use: "list", Short: "List the rules of programs that run, and how often each has hit",
		Long:    "Lists the devices of this user's programs that run, their rules, and how often each rule has hit.",
		Example: "  softrdma fault list\n  softrdma fault list --json | jq '.[].hits'", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return t.each(cmd, http.MethodGet, nil) },
	})
	cmd.Flags().BoolVar(&t.asJSON, "json", false, "print a JSON array")
	return cmd
}

func newClear() *cobra.Command {
	var t target
	return t.flags(&cobra.Command{
		Use: "clear", Short: "Remove the rules of programs that run",
		Long:    "Removes all rules, also those of --faults, from the devices of this user's programs that run.",
		Example: "  softrdma fault clear", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return t.each(cmd, http.MethodDelete, nil) },
	})
}

// A result is what a device of a program has then.
type result struct {
	PID     int    `json:"pid"`
	Program string `json:"program"`
	control.Faults
}

// each sends a request to the chosen devices and prints what they have then.
func (t *target) each(cmd *cobra.Command, method string, body []byte) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), askTime)
	defer cancel()
	processes, failed := control.Processes(ctx)
	results := []result{}
	for _, p := range processes {
		if t.pid != 0 && p.Socket.PID != t.pid {
			continue
		}
		for _, d := range p.Devices {
			if t.device != "" && d.Name != t.device || d.Unused && method == http.MethodGet {
				continue // rules of unused ones are for programs that open them later
			}
			all, err := ask(ctx, p.Socket, method, control.DevicePath(d.Name, "faults"), body)
			if err != nil {
				failed = errors.Join(failed, err)
			}
			for _, f := range all {
				results = append(results, result{p.Socket.PID, p.Program, f})
			}
		}
	}
	if t.asJSON {
		return errors.Join(failed, cli.WriteJSON(cmd.OutOrStdout(), results))
	}
	if len(results) == 0 && failed == nil {
		return t.missing()
	}
	return errors.Join(failed, printResults(cmd, results))
}

func ask(ctx context.Context, s control.Socket, method, path string, body []byte) (all []control.Faults, err error) {
	if method == http.MethodGet {
		var one control.Faults
		if err := s.Ask(ctx, method, path, nil, &one); err != nil {
			return nil, err
		}
		return []control.Faults{one}, nil
	}
	err = s.Ask(ctx, method, path, body, &all)
	return all, err
}

// missing is the error of a choice that nothing matches.
func (t *target) missing() error {
	dir := control.Directory()
	if dir == "" {
		return errors.New("SOFTRDMA_CONTROL_DIR is off, so no program can be asked")
	}
	what := "device of a program of this user that runs"
	if t.device != "" {
		what = fmt.Sprintf("device %q", t.device)
	}
	if t.pid != 0 {
		what += fmt.Sprintf(" of process %d", t.pid)
	}
	return fmt.Errorf("found no %s (programs answer in %s)", what, dir)
}

func printResults(cmd *cobra.Command, results []result) error {
	t := cli.NewTable()
	for _, r := range results {
		who := fmt.Sprintf("%s (%d)", r.Program, r.PID)
		if len(r.Rules) == 0 {
			t.Row(who, r.Device, "no rules")
		}
		for _, rule := range r.Rules {
			t.Row(who, r.Device, cmp.Or(rule.Name, "rule")+": "+string(rule.Action), cli.Plural(int(rule.Hits), "hit"))
		}
	}
	return t.Print(cmd.OutOrStdout())
}
