// Package control is the language between the lab on the host and the agent in a guest: JSON values, one per line,
// over a virtio serial port. The lab sends requests; the agent sends events that carry the request's ID.
package control

// PortName is the name of the virtio serial port that carries the conversation.
const PortName = "softrdma.agent"

// Op says what a request wants.
type Op string

const (
	// OpStart starts a program. Events: one Started or Failed, any number of Stdout and Stderr, one Exit.
	OpStart Op = "start"
	// OpSignal sends a signal to the process group of the program whose OpStart had the same ID. No events.
	OpSignal Op = "signal"
)

// Request is what the lab sends.
type Request struct {
	ID     uint64   `json:"id"`
	Op     Op       `json:"op"`
	Argv   []string `json:"argv,omitempty"`
	Env    []string `json:"env,omitempty"` // added to the guest's environment, "NAME=value"
	Stdin  []byte   `json:"stdin,omitempty"`
	Signal int      `json:"signal,omitempty"`
}

// Kind is the kind of an event.
type Kind string

const (
	// KindReady is sent once, with ID 0, when the guest is set up and takes requests.
	KindReady Kind = "ready"
	// KindStarted says that the program runs.
	KindStarted Kind = "started"
	// KindFailed says that the program could not be started; Error says why. Nothing follows it.
	KindFailed Kind = "failed"
	// KindStdout carries what the program wrote to its standard output.
	KindStdout Kind = "stdout"
	// KindStderr carries what the program wrote to its standard error.
	KindStderr Kind = "stderr"
	// KindExit is a program's last event. Status is its exit status, or 128 and the signal that ended it.
	KindExit Kind = "exit"
)

// Event is what the agent sends.
type Event struct {
	ID     uint64 `json:"id"`
	Kind   Kind   `json:"kind"`
	Data   []byte `json:"data,omitempty"`
	Status int    `json:"status,omitempty"`
	Error  string `json:"error,omitempty"`
}
