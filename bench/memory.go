package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"softrdma/bench/loop"
)

// newMemoryCommand returns the hidden command that bench starts for a loop of
// compare.RawMemory.
func newMemoryCommand() *cobra.Command {
	return &cobra.Command{
		Use: "memory CONFIG", Short: "A loop over memory or between two processes, which bench starts", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := loop.ParseMemoryConfig(args[0])
			if err != nil {
				return fmt.Errorf("%w", err)
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			return loop.RunMemory(cmd.Context(), self, c, json.NewEncoder(cmd.OutOrStdout()).Encode)
		},
	}
}
