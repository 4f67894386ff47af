package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func newDemoCommand() *cobra.Command { return pending("demo") }
func newPerfCommand() *cobra.Command { return pending("perf") }

func pending(name string) *cobra.Command {
	return &cobra.Command{Use: name, Hidden: true, RunE: func(*cobra.Command, []string) error { return errors.ErrUnsupported }}
}
