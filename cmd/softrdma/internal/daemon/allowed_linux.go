package daemon

import (
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/reason"
)

// allowedUsers are the users that a daemon serves: its own, root, and those of --allow.
type allowedUsers struct {
	text          []string
	all           bool
	users, groups []uint32
}

func newAllowedUsers(names []string) (*allowedUsers, error) {
	a := &allowedUsers{text: names, users: []uint32{0, uint32(os.Geteuid())}}
	for _, name := range names {
		if err := a.add(name); err != nil {
			return nil, err
		}
	}
	if others := a.all || len(a.groups) > 0 || slices.ContainsFunc(a.users, func(u uint32) bool {
		return u != 0 && u != uint32(os.Geteuid())
	}); others && !hasCapability(unix.CAP_SYS_PTRACE) {
		return nil, cli.UsageErrorf("--allow %s: only root, with CAP_SYS_PTRACE, may access the memory of other users' programs (%v)",
			strings.Join(names, ","), reason.ClientMemory)
	}
	return a, nil
}

func (a *allowedUsers) add(name string) error {
	if name == "all" {
		a.all = true
		return nil
	}
	list, look := &a.users, func(name string) (string, error) {
		u, err := user.Lookup(name)
		if err != nil {
			return "", err
		}
		return u.Uid, nil
	}
	who := name
	if group, ok := strings.CutPrefix(name, "@"); ok {
		who, list = group, &a.groups
		look = func(name string) (string, error) {
			g, err := user.LookupGroup(name)
			if err != nil {
				return "", err
			}
			return g.Gid, nil
		}
	}
	id, err := strconv.ParseUint(who, 10, 32)
	if err != nil {
		text, e := look(who)
		if e != nil {
			return cli.UsageErrorf("--allow %s: %v", name, e)
		}
		if id, err = strconv.ParseUint(text, 10, 32); err != nil {
			return err
		}
	}
	*list = append(*list, uint32(id))
	return nil
}

// allows reports whether programs of a user and group are served.
func (a *allowedUsers) allows(uid, gid uint32) bool {
	if a.all || slices.Contains(a.users, uid) || slices.Contains(a.groups, gid) {
		return true
	}
	if len(a.groups) == 0 {
		return false
	}
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return false
	}
	ids, err := u.GroupIds()
	return err == nil && slices.ContainsFunc(ids, func(id string) bool {
		n, err := strconv.ParseUint(id, 10, 32)
		return err == nil && slices.Contains(a.groups, uint32(n))
	})
}

func (a *allowedUsers) String() string {
	own := strconv.Itoa(os.Geteuid())
	if u, err := user.LookupId(own); err == nil {
		own = u.Username
	}
	return fmt.Sprint("programs of ", strings.Join(append([]string{own}, a.text...), ", "))
}
