module github.com/openucx/ucx/bindings/go/src/ucx

go 1.26.3

require softrdma v0.0.0

require (
	github.com/google/btree v1.1.2 // indirect
	github.com/gopacket/gopacket v1.7.7 // indirect
	github.com/quic-go/quic-go v0.65.0 // indirect
	github.com/vishvananda/netlink v1.3.1 // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
	golang.org/x/crypto v0.57.0 // indirect
	golang.org/x/exp v0.0.0-20250711185948-6ae5c78190dc // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/time v0.15.0 // indirect
	gvisor.dev/gvisor v0.0.0-20260905035102-160fafc42237 // indirect
)

replace softrdma => ..
