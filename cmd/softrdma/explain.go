package main

import "github.com/spf13/cobra"

func newExplainCommand() *cobra.Command { return pending("explain") }
func newCaptureCommand() *cobra.Command { return pending("capture") }
func newDevicesCommand() *cobra.Command { return pending("devices") }
func newPingpongCommand() *cobra.Command { return pending("pingpong") }
