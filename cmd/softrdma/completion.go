package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"softrdma/internal/explain"
	"softrdma/verbs"
)

// A completion is what a shell offers for a flag or an argument.
type completion = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// flagCompletions are the completions of flags by name; a flag means the same with
// every command. For flags that name files the shell's own completion is used.
var flagCompletions = map[string]completion{
	"device":     completeDevices,
	"source":     completeDevices,
	"address":    completeDevices,
	"addr":       completeDevices,
	"protocol":   oneOf(protocolRoCE, protocolIWARP),
	"type":       oneOf(pingpongKinds...),
	"mtu":        oneOf("256", "512", "1024", "2048", "4096"),
	"congestion": oneOf("window", "dcqcn", "delay", "none"),
	"recovery":   oneOf(string(verbs.SelectiveRepeat), string(verbs.GoBackN)),
	"paths":      oneOf("loopback", "veth1500", "veth9000", "guest"),
}

// takesFiles are the commands whose arguments may be files.
var takesFiles = []string{"capture", "rcopy", "exec"}

// addCompletions registers completions for the flags and arguments of a command and
// its subcommands. If nothing is known the shell offers nothing, not the files of the
// directory.
func addCompletions(cmd *cobra.Command) {
	for name, c := range flagCompletions {
		if cmd.Flags().Lookup(name) != nil {
			if err := cmd.RegisterFlagCompletionFunc(name, c); err != nil {
				panic(err) // registered twice
			}
		}
	}
	if cmd.ValidArgsFunction == nil && !cmd.HasSubCommands() && !slices.Contains(takesFiles, cmd.Name()) {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range cmd.Commands() {
		addCompletions(sub)
	}
}

func oneOf(names ...string) completion {
	return cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)
}

// completeDevices offers interfaces and addresses, prefixed by "iwarp:" if the user
// typed that.
func completeDevices(_ *cobra.Command, _ []string, toComplete string) (names []string, d cobra.ShellCompDirective) {
	d = cobra.ShellCompDirectiveNoFileComp
	list, err := verbs.Devices()
	if err != nil {
		return nil, d
	}
	prefix := ""
	if strings.HasPrefix(toComplete, iwarpPrefix) {
		prefix = iwarpPrefix
	}
	for i := range list {
		about := fmt.Sprintf("%s, MTU %s", stateName(list[i].Up), mtuName(list[i].ActiveMTU))
		if name := prefix + list[i].Interface + "\t" + about; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for i := range list {
		names = append(names, fmt.Sprintf("%s%v\ton %s", prefix, list[i].Addr, list[i].Interface))
	}
	return names, d
}

// completeExplained offers the names that explain knows, in lower case if the user
// types lower case.
func completeExplained(_ *cobra.Command, _ []string, toComplete string) (names []string, d cobra.ShellCompDirective) {
	for _, e := range explain.All() {
		name := e.Name
		if !strings.HasPrefix(name, strings.ToUpper(toComplete)) {
			continue
		}
		if toComplete != strings.ToUpper(toComplete) {
			name = strings.ToLower(name)
		}
		names = append(names, name+"\t"+string(e.Kind))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
