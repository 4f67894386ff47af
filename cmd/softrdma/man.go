//go:build man

package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"softrdma/cmd/softrdma/internal/cli"
)

// The tag man adds a command that writes manual pages. The released command is built
// without it and the packages that it needs.
func init() {
	extraCommands = append(extraCommands, func() *cobra.Command {
		return &cobra.Command{
			Use: "man DIRECTORY", Short: "Write the manual pages of all commands into a directory",
			Args: cli.Args(1, 1, "DIRECTORY"), Hidden: true,
			RunE: func(cmd *cobra.Command, args []string) error {
				root := cmd.Root()
				root.DisableAutoGenTag = true // it contains the date
				return doc.GenManTree(root, &doc.GenManHeader{
					Section: "1", Manual: "softrdma", Source: "softrdma " + newVersionInfo().Version,
				}, args[0])
			},
		}
	})
}
