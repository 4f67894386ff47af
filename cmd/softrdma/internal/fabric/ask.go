package fabric

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/fabric/control"
)

// An asker asks a fabric that runs.
type asker struct {
	name string
	json bool
}

// flags adds the flags of commands that ask.
func (a *asker) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.name, "name", "", "ask the fabric of this `NAME` (default: the only one that runs)")
	if err := cmd.RegisterFlagCompletionFunc("name", completeFabrics); err != nil {
		panic(err) // registered twice
	}
}

// jsonFlag adds --json.
func (a *asker) jsonFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON")
}

// ask asks the fabric. The name is known afterwards.
func (a *asker) ask(ctx context.Context, r control.Request) (*control.Reply, error) {
	if err := a.find(ctx); err != nil {
		return nil, err
	}
	return cli.AskFabric(ctx, a.name, r)
}

// find sets the name of the fabric if there is no flag.
func (a *asker) find(ctx context.Context) (err error) {
	if a.name == "" {
		a.name, err = only(ctx)
	}
	return err
}

// only returns the name of the fabric that runs, if there is one only.
func only(ctx context.Context) (string, error) {
	names, err := running(ctx)
	switch {
	case len(names) == 0 && err != nil:
		return "", err
	case len(names) == 0:
		return "", errors.New("no fabric runs: start one in another terminal, for example with \"softrdma fabric up --topology star:4\"")
	case len(names) > 1:
		return "", cli.UsageErrorf("%d fabrics run: expected --name with one of %s", len(names), strings.Join(names, ", "))
	}
	return names[0], nil
}

// running returns the names of the fabrics that answer.
func running(ctx context.Context) (names []string, err error) {
	all, err := cli.Fabrics(ctx, control.Request{Verb: control.VerbFaults})
	for i := range all {
		names = append(names, all[i].Name)
	}
	return names, err
}

// completeFabrics offers the names of the fabrics that run.
func completeFabrics(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	names, _ := running(cmd.Context())
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeNodes returns a completion of up to most arguments with nodes of one kind, or of
// any.
func (a *asker) completeNodes(kind string, most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) (names []string, d cobra.ShellCompDirective) {
		d = cobra.ShellCompDirectiveNoFileComp
		if len(args) >= most {
			return nil, d
		}
		reply, err := a.ask(cmd.Context(), control.Request{Verb: control.VerbStatus})
		if err != nil {
			return nil, d
		}
		for _, n := range reply.Status.Nodes {
			if kind == "" || n.Kind == kind {
				names = append(names, n.Name+"\t"+n.Kind)
			}
		}
		return names, d
	}
}

// completeHosts offers adapters, or the hosts of an Ethernet.
func (a *asker) completeHosts(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	adapters, d := a.completeNodes("adapter", cli.AnyNumber)(cmd, args, text)
	hosts, _ := a.completeNodes("host", cli.AnyNumber)(cmd, args, text)
	return append(adapters, hosts...), d
}

// completePorts offers the ports with a cable, with what is at the other end.
func (a *asker) completePorts(cmd *cobra.Command, _ []string, _ string) (names []string, d cobra.ShellCompDirective) {
	d = cobra.ShellCompDirectiveNoFileComp
	reply, err := a.ask(cmd.Context(), control.Request{Verb: control.VerbLinks})
	if err != nil {
		return nil, d
	}
	for i := range reply.Links {
		ends := &reply.Links[i].Ends
		names = append(names, ends[0].Name+"\tto "+ends[1].Name, ends[1].Name+"\tto "+ends[0].Name)
	}
	return names, d
}
