package main

import (
	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
)

// addHelp adds cobra's commands for help and completion scripts. They refuse wrong arguments as the
// others do, and have examples.
func addHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = namesCommand
			c.Example = "  softrdma help pingpong\n  softrdma help fabric up"
		case "completion":
			c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
			c.Example = "  source <(softrdma completion bash)"
			for _, shell := range c.Commands() {
				shell.Args = cli.NoArgs
			}
		}
	}
}

// namesCommand accepts the path of a command.
func namesCommand(help *cobra.Command, args []string) error {
	found, rest, _ := help.Root().Find(args) // its error has no suggestions
	return knownCommand(found, rest)
}
