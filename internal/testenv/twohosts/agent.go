package twohosts

import (
	"fmt"
	"os"
	"strings"
)

// agentScript starts a command on a host as ssh would. Options stand before the host's name.
const agentScript = `#!/bin/sh
while :; do
	case $1 in
	-*) shift ;;
	*) break ;;
	esac
done
host=$1
shift
[ "$host" != '%s' ] || exec sh -c "$*"
exec %s sh -c "$*"
`

// WriteAgent writes a script that stands in for ssh where launchers start daemons on two hosts. It
// runs the command for the host own as it is, and every other command behind the words of other.
func WriteAgent(file, own string, other []string) error {
	return os.WriteFile(file, fmt.Appendf(nil, agentScript, own, strings.Join(other, " ")), 0o755)
}
