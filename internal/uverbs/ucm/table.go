//go:build linux

package ucm

import "softrdma/internal/wire/uapi"

// A row holds the lengths of a command and its answer, and the function that carries it
// out.
type row struct {
	in, out int
	do      func(m *channel, c *command) error
}

// commands are the commands by number.
var commands map[uint32]row

func init() {
	commands = map[uint32]row{
		uapi.CMCreateID:     {uapi.Size[uapi.CMCreate](), 4, (*channel).createID},
		uapi.CMDestroyID:    {uapi.Size[uapi.CMByID](), 4, (*channel).destroyID},
		uapi.CMBindIP:       {uapi.Size[uapi.CMBindIPCmd](), 0, (*channel).bindIP},
		uapi.CMBind:         {8, 0, (*channel).bind},
		uapi.CMResolveIP:    {uapi.Size[uapi.CMResolveIPCmd](), 0, (*channel).resolveIP},
		uapi.CMResolveAddr:  {uapi.Size[uapi.CMResolveAddrCmd](), 0, (*channel).resolveAddr},
		uapi.CMResolveRoute: {uapi.Size[uapi.CMPair](), 0, (*channel).resolveRoute},
		uapi.CMQueryRoute:   {uapi.Size[uapi.CMByID](), uapi.Size[uapi.CMRoute](), (*channel).queryRoute},
		uapi.CMQuery:        {uapi.Size[uapi.CMByID](), 0, (*channel).query},
		uapi.CMConnect:      {uapi.Size[uapi.CMConnectCmd](), 0, (*channel).connect},
		uapi.CMListen:       {uapi.Size[uapi.CMPair](), 0, (*channel).listen},
		uapi.CMAccept:       {uapi.Size[uapi.CMAcceptCmd](), 0, (*channel).accept},
		uapi.CMReject:       {uapi.Size[uapi.CMRejectCmd](), 0, (*channel).reject},
		uapi.CMDisconnect:   {4, 0, (*channel).disconnect},
		uapi.CMInitQPAttr:   {uapi.Size[uapi.CMByID](), uapi.Size[uapi.QPAttr](), (*channel).initQPAttr},
		uapi.CMGetEvent:     {8, 0, (*channel).getEvent},
		uapi.CMSetOption:    {uapi.Size[uapi.CMOption](), 0, (*channel).setOption},
		uapi.CMNotify:       {uapi.Size[uapi.CMPair](), 0, (*channel).notify},
		uapi.CMJoinIPMcast:  {uapi.Size[uapi.CMJoinIPCmd](), 4, (*channel).joinIP},
		uapi.CMJoinMcast:    {uapi.Size[uapi.CMJoinCmd](), 4, (*channel).join},
		uapi.CMLeaveMcast:   {uapi.Size[uapi.CMByID](), 4, (*channel).leave},
		uapi.CMWriteEvent:   {uapi.Size[uapi.CMWriteEventCmd](), 0, (*channel).writeEvent},
		uapi.CMMigrateID:    {uapi.Size[uapi.CMByID](), 4, (*channel).migrate},
	}
}

// Samples returns each command with all fields 0. Fuzz tests begin with them.
func Samples() (list [][]byte) {
	for number, r := range commands {
		h := uapi.CMHeader{Command: number, In: uint16(r.in), Out: uint16(r.out)}
		list = append(list, append(uapi.Bytes(&h), make([]byte, r.in)...))
	}
	return list
}
