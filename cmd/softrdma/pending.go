package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func pending(name string) *cobra.Command {
	return &cobra.Command{Use: name, Hidden: true, RunE: func(*cobra.Command, []string) error { return errors.ErrUnsupported }}
}
