package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"softrdma/internal/congestion"
	"softrdma/verbs"
)

// A completionFunc returns what a shell offers for a flag or an argument.
type completionFunc = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// flagCompletions holds the completions of flags by name. A flag means the same in
// every command. For flags that name files the shell's own completion is used.
var flagCompletions = map[string]completionFunc{
	"device":     completeDevices,
	"source":     completeDevices,
	"address":    completeDevices,
	"addr":       completeDevices,
	"protocol":   oneOf(ProtocolRoCE, ProtocolRoCEv1, ProtocolIWARP),
	"mtu":        oneOf("256", "512", "1024", "2048", "4096"),
	SameHostFlag: oneOf(string(verbs.SameHostAuto), string(verbs.SameHostOff), string(verbs.SameHostRequire)),
	"congestion": oneOf(congestion.Names()...),
	"recovery":   oneOf(string(verbs.SelectiveRepeat), string(verbs.GoBackN)),
}

// fileArguments lists the commands whose arguments may be files.
var fileArguments = []string{"capture", "rcopy", "exec"}

// AddCompletions registers completions for the flags and arguments of a command and
// its subcommands. If nothing is known the shell offers nothing, not the files of the
// directory.
func AddCompletions(cmd *cobra.Command) {
	for name, c := range flagCompletions {
		if cmd.Flags().Lookup(name) != nil {
			if err := cmd.RegisterFlagCompletionFunc(name, c); err != nil {
				panic(err) // registered twice
			}
		}
	}
	if cmd.ValidArgsFunction == nil && !cmd.HasSubCommands() && !slices.Contains(fileArguments, cmd.Name()) {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range cmd.Commands() {
		AddCompletions(sub)
	}
}

// CompleteFlag registers the values that a shell offers for a flag.
func CompleteFlag(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, oneOf(values...)); err != nil {
		panic(err) // no such flag, or registered twice
	}
}

func oneOf(names ...string) completionFunc {
	return cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)
}

// completeDevices offers interfaces and addresses, with the prefix of a
// protocol if the user typed one, and the ports of fabrics.
func completeDevices(cmd *cobra.Command, _ []string, toComplete string) (names []string, d cobra.ShellCompDirective) {
	d = cobra.ShellCompDirectiveNoFileComp
	list, err := verbs.Devices()
	if err != nil {
		return nil, d
	}
	prefix, _ := SplitProtocol(toComplete)
	if OnFabric(toComplete) {
		return fabricPorts(cmd.Context()), d
	}
	for i := range list {
		about := fmt.Sprintf("%s, MTU %s", StateName(list[i].Up), MTUName(list[i].ActiveMTU))
		if name := prefix + list[i].Interface + "\t" + about; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for i := range list {
		names = append(names, fmt.Sprintf("%s%v\ton %s", prefix, list[i].Addr, list[i].Interface))
	}
	if strings.HasPrefix(InfiniBandPrefix, toComplete) || strings.HasPrefix(ethernetPrefix, toComplete) {
		names = append(names, fabricPorts(cmd.Context())...)
	}
	return names, d
}
