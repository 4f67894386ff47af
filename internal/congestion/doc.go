// Package congestion decides how much and how fast one queue pair sends: by a congestion
// window of bytes in flight, a rate, or both. Its inputs are acknowledges, losses, round trips
// and congestion notifications (annex A17.9.3, RFC 3168).
//
// The kinds of control are in window.go, dcqcn.go, delay.go, path.go, timely.go, swift.go, bounded.go
// and hpcc.go; automatic.go chooses between the first and path.go; dcqcn.Notified applies a notification to a rate. machine.Notifier sends the
// notifications, one per NotifyInterval.
//
// A Control belongs to one queue pair and is driven by its protocol machine; the time is an
// argument. The package sends nothing, keeps no timer (each call catches up with what would
// have expired) and never decides which packets are lost: the machine does.
package congestion
