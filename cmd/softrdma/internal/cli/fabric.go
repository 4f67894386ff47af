package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/control"
)

// AskFabric queries a fabric of a process on this machine.
func AskFabric(ctx context.Context, name string, r control.Request) (*control.Reply, error) {
	question, err := json.Marshal(&r)
	if err != nil {
		return nil, err
	}
	answer, err := attach.Do(ctx, name, question)
	if err != nil {
		return nil, err
	}
	reply := new(control.Reply)
	if err := json.Unmarshal(answer, reply); err != nil {
		return nil, fmt.Errorf("answer of fabric %s: %w", name, err)
	}
	return reply, nil
}

// askTime limits the wait for one of several fabrics.
const askTime = 5 * time.Second

// Fabrics returns the fabrics of this machine that answer a question, with their answers. The
// error names those that refuse this user, and those that do not answer.
func Fabrics(ctx context.Context, r control.Request) (all []Fabric, err error) {
	sockets, err := attach.Sockets()
	for _, s := range sockets {
		one, cancel := context.WithTimeout(ctx, askTime)
		reply, e := AskFabric(one, s.Name, r)
		cancel()
		if e == nil {
			all = append(all, Fabric{s, reply})
		} else if errors.Is(e, fs.ErrPermission) || errors.Is(e, context.DeadlineExceeded) {
			err = errors.Join(err, e)
		}
	}
	return all, err
}

// A Fabric is a fabric that has answered.
type Fabric struct {
	attach.Socket
	Reply *control.Reply
}

// fabricPorts returns the names of the ports of all fabrics, with descriptions.
func fabricPorts(ctx context.Context) (names []string) {
	all, _ := Fabrics(ctx, control.Request{Verb: control.VerbPorts})
	for i := range all {
		for k := range all[i].Reply.Ports {
			p := &all[i].Reply.Ports[k]
			address := strings.Join(p.IPs, ", ")
			if address == "" {
				address = fmt.Sprintf("LID %d", p.LID)
			}
			names = append(names, fmt.Sprintf("%s\t%s, %s", all[i].Device(p), address, p.State))
		}
	}
	return names
}

// Device returns the name of a port for -d.
func (f *Fabric) Device(p *control.Port) string {
	prefix := InfiniBandPrefix
	if len(p.IPs) > 0 {
		prefix = ethernetPrefix
	}
	name := prefix + f.Name + "/" + p.Node
	if p.Port != 1 || strings.Contains(p.Node, ":") {
		name += ":" + strconv.Itoa(p.Port)
	}
	return name
}
