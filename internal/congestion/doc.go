// Package congestion decides how much and how fast one queue pair sends: a congestion
// window of bytes in flight, a rate, or both. Its inputs are acknowledges, losses, round
// trips and congestion notifications (annex A17.9.3, RFC 3168).
//
// The kinds of control are in window.go, dcqcn.go and delay.go; what a notification does to a
// rate is dcqcn.Notified. machine.Notifier sends the notifications, one per NotifyInterval.
//
// A Control belongs to one queue pair and is driven by its protocol machine; the time is
// an argument. The package sends nothing, keeps no timer (each call catches up with what
// would have expired) and never decides what is lost: the machine does.
package congestion
