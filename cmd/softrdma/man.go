//go:build man

package main

import (
	"strings"

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
				keepTables(root)
				addSections(root)
				return doc.GenManTree(root, &doc.GenManHeader{
					Section: "1", Manual: "softrdma", Source: "softrdma " + newVersionInfo().Version,
				}, args[0])
			},
		}
	})
}

// addSections adds what all pages have: in full to that of the root, and by name to the others.
func addSections(root *cobra.Command) {
	for _, s := range []struct{ title, text string }{
		{"EXIT STATUS", cli.ExitCodesText}, {"ENVIRONMENT", cli.EnvironmentText}, {"FILES", cli.FilesText},
	} {
		whole := &cobra.Command{Long: s.text}
		keepTables(whole)
		root.Long += "\n\n# " + s.title + "\n\n" + whole.Long
		var refer func(c *cobra.Command)
		refer = func(c *cobra.Command) {
			for _, sub := range c.Commands() {
				sub.Long += "\n\n# " + s.title + "\n\nSee **softrdma**(1).\n"
				refer(sub)
			}
		}
		refer(root)
	}
}

// keepTables lets the indented lines of long texts keep their line breaks and columns. They are read
// as Markdown, in which four spaces say so.
func keepTables(c *cobra.Command) {
	var lines []string
	inTable := false
	for line := range strings.SplitSeq(c.Long, "\n") {
		indented := strings.HasPrefix(line, "  ")
		if indented != inTable && line != "" {
			lines = append(lines, "") // a table is a paragraph of its own
			inTable = indented
		}
		if indented {
			line = "    " + strings.TrimPrefix(line, "  ")
		}
		lines = append(lines, line)
	}
	c.Long = strings.Join(lines, "\n")
	for _, sub := range c.Commands() {
		keepTables(sub)
	}
}
