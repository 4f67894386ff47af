// Package fault is the command that shows and checks the rules of faults, and runs programs under scenarios of
// them. Packages faults, faults/file and faults/scenarios have the rules.
package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/faults"
	"softrdma/faults/file"
	"softrdma/faults/scenarios"
)

const long = `Breaks RDMA on purpose: faults by rules, to see what a program does when packets are lost,
a cable is pulled or a call fails.

A file of rules is YAML or JSON. softrdma exec, softrdma env and softrdma daemon take one
with --faults FILE. Scenarios are files of rules that come with softrdma: "fault show"
prints one, to use as it is or to change. "fault add", "fault list" and "fault clear" are
for programs that run.`

const example = `  softrdma fault scenarios
  softrdma fault show lossy-link > faults.yaml
  softrdma fault check faults.yaml
  softrdma exec -v --faults faults.yaml -- ./tests.sh
  softrdma fault run --all --junit report.xml -- ./tests.sh
  softrdma fault add --pid 4711 cable-pull`

const runLong = `Runs a program without faults, and then under each SCENARIO, and prints a table of how
it has ended:

  survived     exit code 0, and how many times as long as without faults it took
  failed       another exit code, and the status that its output names, or the event of a
               connection that was refused
  crashed      ended by a signal
  hung         still there at the timeout; it is ended with its whole process group
  wrong bytes  it has printed that its data differs

A SCENARIO is a name of "softrdma fault scenarios" or a file of rules. The program runs
under softrdma exec, with the same flags for devices, and with standard input empty. A
program that starts servers and clients, such as a test suite, is best a script. Programs
that verify their data say so in their output: rping, ibv_rc_pingpong -c, fio and
rdma-core's tests are known, and --wrong REGEXP is for others. A program that does not
verify never shows wrong bytes. Of a long output the first and the last 256 KiB are read.

HITS is how many packets, calls and objects the rules have hit: with 0 the program has
shown nothing. The same seed, rules and traffic give the same hits.

The exit code is 0 if each run has survived or failed by itself, 4 if one has printed
wrong bytes, and otherwise 1: it has hung or crashed, or has failed with --strict.`

const runExample = `  softrdma fault run lossy-link cable-pull -- ./tests.sh
  softrdma fault run --all --junit report.xml --timeout 60s -- ./tests.sh
  softrdma fault run -d 127.0.0.1 ./faults.yaml -- sh -c 'ib_write_bw & sleep 1; ib_write_bw 127.0.0.1'`

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "fault", Short: "Break RDMA on purpose: rules, scenarios, and programs under them",
		Long: long, Example: example, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "scenarios", Short: "List the scenarios", Args: cli.NoArgs,
			Long: "Lists the scenarios that come with softrdma, and what each does.",
			RunE: func(cmd *cobra.Command, _ []string) error { return list(cmd) },
		},
		newShow(),
		newCheck(), newSchema(), newRun(), newAdd(), newList(), newClear(),
	)
	return cmd
}

func newShow() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "show SCENARIO", Short: "Print the rules of a scenario",
		Long: "Prints the file of a scenario, to read it or to change it.", Example: "  softrdma fault show lossy-link > faults.yaml",
		Args: cli.Args(1, 1, "the name of one SCENARIO"), ValidArgs: scenarios.Names(),
		RunE: func(cmd *cobra.Command, args []string) error { return show(cmd, args[0], asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the rules as JSON, without comments")
	return cmd
}

func newCheck() *cobra.Command {
	return &cobra.Command{
		Use: "check FILE...", Short: "Check files of rules",
		Long: `Checks files of rules. What is wrong is named by line and column, with what was expected
and what was found.`,
		Example: "  softrdma fault check faults.yaml", Args: cli.Args(1, cli.AnyNumber, "one FILE or more"),
		ValidArgsFunction: files,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, path := range args {
				rules, err := file.Read(path)
				if err != nil {
					return cli.WithCode(cli.ExitUsage, err)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", path, cli.Plural(len(rules.Rules), "rule"))
			}
			return nil
		},
	}
}

func newSchema() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON schema of files of rules",
		Long: `Prints the JSON schema of files of rules, with which editors check and complete them. The
YAML language server, of VS Code and others, takes it from the first line of a file:

  # yaml-language-server: $schema=./faults.schema.json`,
		Example: "  softrdma fault schema > faults.schema.json", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(file.Schema())
			return err
		},
	}
}

func newRun() *cobra.Command {
	var s runOptions
	cmd := &cobra.Command{
		Use: "run [flags] SCENARIO... -- PROGRAM [ARGS...]", Short: "Run a program under scenarios, and print how it ends",
		Long: runLong, Example: runExample, ValidArgsFunction: completeScenarios,
		RunE: func(cmd *cobra.Command, args []string) error {
			names, program, err := s.split(cmd, args)
			if err != nil {
				return err
			}
			return s.run(cmd, names, program)
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&s.devices, "device", "d", nil, "`INTERFACE` or address of a device; repeat for more devices")
	s.protocol.AddFlag(f, "")
	f.StringVar(&s.engine, "engine", "", "where the devices are: auto, program or daemon, as with softrdma exec")
	f.BoolVar(&s.all, "all", false, "run under all scenarios that come with softrdma")
	f.StringVar(&s.junit, "junit", "", "also write the runs to `FILE` as JUnit XML")
	f.BoolVar(&s.asJSON, "json", false, "print a JSON array")
	f.DurationVar(&s.timeout, "timeout", 0, "end a run after this `DURATION` (default ten times the run without faults, at least 30s)")
	f.Uint64Var(&s.seed, "seed", 0, "use this `NUMBER` instead of the seed of each scenario")
	f.StringVar(&s.wrong, "wrong", "", "`REGEXP` of lines by which the program says that its data is wrong")
	f.BoolVar(&s.strict, "strict", false, "a program that fails counts as failed, too")
	f.BoolVarP(&s.verbose, "verbose", "v", false, "print the output of each run")
	cli.CompleteFlag(cmd, "engine", "auto", "program", "daemon")
	return cmd
}

// split divides the arguments into scenarios and program.
func (s *runOptions) split(cmd *cobra.Command, args []string) (names, program []string, err error) {
	dash := cmd.ArgsLenAtDash()
	if dash < 0 || dash == len(args) {
		return nil, nil, cli.UsageErrorf("expected a PROGRAM after --, as in softrdma fault run lossy-link -- ./tests.sh")
	}
	names, program = args[:dash], args[dash:]
	switch {
	case s.all && len(names) > 0:
		return nil, nil, cli.UsageErrorf("--all: expected no SCENARIO, found %q", names[0])
	case s.all:
		names = scenarios.Names()
	case len(names) == 0:
		return nil, nil, cli.UsageErrorf("expected a SCENARIO or --all; softrdma fault scenarios lists them")
	}
	if s.timeout < 0 {
		return nil, nil, cli.CheckTimeout(s.timeout)
	}
	return names, program, nil
}

func files(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}

// completeScenarios offers names before --, and files after it.
func completeScenarios(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	if cmd.ArgsLenAtDash() >= 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return scenarios.Names(), cobra.ShellCompDirectiveDefault
}

// load returns the rules of a scenario or a file.
func load(name string) (faults.Rules, error) {
	text, ok := scenarios.Text(name)
	if ok {
		return file.Parse(name, text)
	}
	rules, err := file.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("expected a file or one of %s, found %q", strings.Join(scenarios.Names(), ", "), name)
	}
	if err != nil {
		return rules, cli.WithCode(cli.ExitUsage, err)
	}
	return rules, nil
}

func list(cmd *cobra.Command) error {
	t := cli.NewTable()
	for _, name := range scenarios.Names() {
		t.Row(name, scenarios.Summary(name))
	}
	return t.Print(cmd.OutOrStdout())
}

func show(cmd *cobra.Command, name string, asJSON bool) error {
	text, ok := scenarios.Text(name)
	if !ok {
		return cli.UsageErrorf("expected one of %s, found %q", strings.Join(scenarios.Names(), ", "), name)
	}
	if asJSON {
		rules, err := file.Parse(name, text)
		if err != nil {
			return err
		}
		return cli.WriteJSON(cmd.OutOrStdout(), rules)
	}
	_, err := cmd.OutOrStdout().Write(text)
	return err
}
