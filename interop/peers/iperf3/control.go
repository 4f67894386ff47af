package iperf3

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"time"
)

// A state is sent as one byte on the control connection.
type state int8

const (
	testStart       state = 1
	testRunning     state = 2
	testEnd         state = 4
	paramExchange   state = 9
	createStreams   state = 10
	serverTerminate state = 11
	clientTerminate state = 12
	exchangeResults state = 13
	displayResults  state = 14
	iperfDone       state = 16
	accessDenied    state = -1
	serverError     state = -2
)

var stateNames = map[state]string{
	testStart: "TEST_START", testRunning: "TEST_RUNNING", testEnd: "TEST_END", paramExchange: "PARAM_EXCHANGE",
	createStreams: "CREATE_STREAMS", serverTerminate: "SERVER_TERMINATE", clientTerminate: "CLIENT_TERMINATE",
	exchangeResults: "EXCHANGE_RESULTS", displayResults: "DISPLAY_RESULTS", iperfDone: "IPERF_DONE",
	accessDenied: "ACCESS_DENIED", serverError: "SERVER_ERROR",
}

func (s state) String() string {
	if name, ok := stateNames[s]; ok {
		return name
	}
	return fmt.Sprintf("state %d", int8(s))
}

// timeLimit bounds the wait for a message, in addition to the time of the test itself.
const timeLimit = 15 * time.Second

// maxText bounds the size of parameters and results.
const maxText = 1 << 16

const cookieLength = 37 // 36 characters and a zero

type cookie [cookieLength]byte

// parameters are the client's parameters that this package supports.
type parameters struct {
	TCP           bool   `json:"tcp"`
	UDP           bool   `json:"udp,omitempty"`
	Omit          int    `json:"omit"`
	Time          int    `json:"time"`
	Parallel      int    `json:"parallel"`
	Reverse       bool   `json:"reverse,omitempty"`
	Bidirectional bool   `json:"bidirectional,omitempty"`
	Len           int    `json:"len"`
	PacingTimer   int    `json:"pacing_timer"`
	ClientVersion string `json:"client_version"`
}

// results are the counts of one end. Retransmissions are not counted; iperf3 encodes its -1 for
// that as 2^64 - 1.
type results struct {
	CPUTotal       float64        `json:"cpu_util_total"`
	CPUUser        float64        `json:"cpu_util_user"`
	CPUSystem      float64        `json:"cpu_util_system"`
	HasRetransmits json.Number    `json:"sender_has_retransmits"`
	Streams        []streamResult `json:"streams"`
}

type streamResult struct {
	ID             int         `json:"id"`
	Bytes          int64       `json:"bytes"`
	Retransmits    json.Number `json:"retransmits"`
	Jitter         float64     `json:"jitter"`
	Errors         int64       `json:"errors"`
	OmittedErrors  int64       `json:"omitted_errors"`
	Packets        int64       `json:"packets"`
	OmittedPackets int64       `json:"omitted_packets"`
	Start          float64     `json:"start_time"`
	End            float64     `json:"end_time"`
}

// streamID returns the number of the i-th stream in the results: 1, 3, 4, 5, …
func streamID(i int) int {
	if i == 0 {
		return 1
	}
	return i + 2
}

// control is the control connection.
type control struct{ net.Conn }

func (c control) sendState(s state) error {
	c.SetWriteDeadline(time.Now().Add(timeLimit))
	_, err := c.Write([]byte{byte(s)})
	return wrap(err, "send "+s.String())
}

// state waits for the peer's next state for timeLimit + beyond.
func (c control) state(beyond time.Duration) (state, error) {
	c.SetReadDeadline(time.Now().Add(timeLimit + beyond))
	var b [1]byte
	_, err := io.ReadFull(c, b[:])
	return state(int8(b[0])), wrap(err, "wait for a state")
}

// expect waits for the peer's next state, which must be want.
func (c control) expect(want state, beyond time.Duration) error {
	got, err := c.state(beyond)
	if err == nil && got != want {
		err = fmt.Errorf("iperf3: the peer says %v, expected %v", got, want)
	}
	return err
}

func (c control) sendJSON(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.SetWriteDeadline(time.Now().Add(timeLimit))
	_, err = c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return wrap(err, "send JSON")
}

func (c control) receiveJSON(v any) error {
	c.SetReadDeadline(time.Now().Add(timeLimit))
	var length [4]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return wrap(err, "receive JSON's length")
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxText {
		return fmt.Errorf("iperf3: the peer announces a text of %d bytes, at most %d are taken", n, maxText)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(c, text); err != nil {
		return wrap(err, "receive JSON")
	}
	return wrap(json.Unmarshal(text, v), "read JSON")
}

func wrap(err error, doing string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("iperf3: %s: %w", doing, err)
}
