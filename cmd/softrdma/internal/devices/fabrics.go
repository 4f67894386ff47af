package devices

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/fabric/control"
	"softrdma/internal/fabric/hostport"
	"softrdma/verbs"
)

// fewPorts is how many ports of a fabric are listed without -v.
const fewPorts = 32

// fabrics returns the fabrics of this machine that answer. Most machines run none.
func fabrics(ctx context.Context) []cli.Fabric {
	all, _ := cli.Fabrics(ctx, control.Request{Verb: control.VerbPorts})
	return all
}

// printFabrics lists the ports of fabrics by the names that -d takes.
func printFabrics(out io.Writer, all []cli.Fabric, verbose bool) error {
	for i := range all {
		f := &all[i]
		network, print := "InfiniBand", printPorts
		if onEthernet(f) {
			network, print = "Ethernet", printHosts
		}
		fmt.Fprintf(out, "\nThe %s fabric %s has the ports:\n", network, f.Name)
		if verbose {
			fmt.Fprintf(out, "   (its socket is %s)\n", f.Path)
		}
		if err := print(out, f, verbose); err != nil {
			return err
		}
	}
	return nil
}

// printPorts lists the ports of a fabric. Of a large one it lists those in use, unless all are
// asked for.
func printPorts(out io.Writer, f *cli.Fabric, all bool) error {
	t := cli.NewTable("DEVICE", "STATE", "LID", "MANAGER", "MTU", "SPEED", "GUID", "PROCESS")
	return printUsed(out, f, all, t, func(p *control.Port) {
		t.Row(f.Device(p), strings.ToUpper(p.State), lidName(p.LID), lidName(p.Manager), p.MTU, strings.TrimSpace(p.Width+" "+p.Speed), guidName(p.GUID), holderName(f, p, 0))
		for i := 1; i < len(p.Programs); i++ {
			t.Row("", "", "", "", "", "", "", holderName(f, p, i))
		}
	})
}

func onEthernet(f *cli.Fabric) bool { return len(f.Reply.Ports) > 0 && len(f.Reply.Ports[0].IPs) > 0 }

// printHosts is printPorts for an Ethernet.
func printHosts(out io.Writer, f *cli.Fabric, all bool) error {
	t := cli.NewTable("DEVICE", "STATE", "ADDRESS", "MTU", "SPEED", "PROCESS")
	return printUsed(out, f, all, t, func(p *control.Port) {
		t.Row(f.Device(p), strings.ToUpper(p.State), strings.Join(p.IPs, ", "), p.MTU, p.Speed, holderName(f, p, 0))
		for i := 1; i < len(p.Programs); i++ {
			t.Row("", "", "", "", "", holderName(f, p, i))
		}
	})
}

// printUsed prints a table with a row for each port, or for those in use.
func printUsed(out io.Writer, f *cli.Fabric, all bool, t *cli.Table, row func(p *control.Port)) error {
	all = all || len(f.Reply.Ports) <= fewPorts
	t.Indent = "   "
	left := 0
	for i := range f.Reply.Ports {
		p := &f.Reply.Ports[i]
		if !all && len(p.Programs) == 0 && i > 0 {
			left++
			continue
		}
		row(p)
	}
	if err := t.Print(out); err != nil {
		return err
	}
	if left > 0 {
		fmt.Fprintf(out, "   and %d ports that no process has opened; softrdma devices -v lists them\n", left)
	}
	return nil
}

func lidName(lid uint16) string {
	if lid == 0 {
		return "-"
	}
	return strconv.Itoa(int(lid))
}

// guidName writes a GUID as the list of devices does.
func guidName(guid uint64) string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", guid>>48, guid>>32&0xffff, guid>>16&0xffff, guid&0xffff)
}

// holderName is the i-th process that has a port, or the address of a program on another host, and the
// device that it has if that is not the one that the list names.
func holderName(f *cli.Fabric, p *control.Port, i int) string {
	if i >= len(p.Programs) {
		return "-"
	}
	x := &p.Programs[i]
	text := x.Remote
	if text == "" {
		text = processName(x.Process)
	}
	if d := strings.TrimSuffix(x.Device, ":1"); d != "" && d != strings.TrimSuffix(f.Device(p), ":1") {
		text += " (" + d + ")"
	}
	return text
}

// processName is the number of a process with the name of its program, if that is known.
func processName(pid int) string {
	return strings.TrimSpace(strconv.Itoa(pid) + " " + programName(pid))
}

// A portRecord is a port of a fabric in JSON.
type portRecord struct {
	Device    string             `json:"device"` // as -d takes it
	Fabric    string             `json:"fabric"`
	Socket    string             `json:"socket"`
	Node      string             `json:"node"`
	Port      int                `json:"port"`
	Protocol  string             `json:"protocol"`
	GUID      string             `json:"guid"`
	Active    bool               `json:"active"`
	State     string             `json:"state"`
	Address   string             `json:"address,omitempty"` // of a port of an Ethernet, the first one
	Addresses []string           `json:"addresses,omitempty"`
	LID       uint16             `json:"lid"`
	Manager   uint16             `json:"sm_lid"`
	ActiveMTU int                `json:"active_mtu"`
	Width     string             `json:"width,omitempty"`
	Speed     string             `json:"speed,omitempty"`
	Process   int                `json:"process,omitempty"` // that has opened it, the first one
	Remote    string             `json:"remote,omitempty"`  // address of that program if it is on another host
	Programs  []hostport.Program `json:"programs,omitempty"`
}

// protocolOf is what devices at a port speak.
func protocolOf(p *control.Port) string {
	if len(p.IPs) > 0 {
		return verbs.RoCE.String()
	}
	return verbs.InfiniBand.String()
}

func portRecords(all []cli.Fabric) (records []any) {
	for i := range all {
		f := &all[i]
		for k := range f.Reply.Ports {
			p := &f.Reply.Ports[k]
			r := portRecord{
				Device: f.Device(p), Fabric: f.Name, Socket: f.Path, Node: p.Node, Port: p.Port, Protocol: protocolOf(p), Addresses: p.IPs, GUID: guidName(p.GUID),
				Active: p.State == "active", State: p.State, LID: p.LID, Manager: p.Manager, ActiveMTU: p.MTU, Width: p.Width, Speed: p.Speed, Programs: p.Programs,
			}
			if len(p.IPs) > 0 {
				r.Address = p.IPs[0]
			}
			if len(p.Programs) > 0 {
				r.Process, r.Remote = p.Programs[0].Process, p.Programs[0].Remote
			}
			records = append(records, r)
		}
	}
	return records
}
