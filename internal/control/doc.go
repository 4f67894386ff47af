// Package control is how the processes of one user ask each other about their RDMA devices and fabrics. A
// process that has some answers on a Unix socket in the user's runtime directory ([Directory]), with HTTP
// and JSON, so that any language and curl can ask:
//
//	curl --unix-socket /run/softrdma/control/4711 http://process/v1/devices
//
// It owns the directory, the sockets, the routes of version 1 and their JSON. It knows no device: a
// [Device] describes itself. Peers of another user, root excepted, are refused. An idle process
// waits in the system's accept.
//
// # Routes
//
//	GET    /v1/process                    the process, its devices and the names of its fabrics
//	GET    /v1/devices                    the devices
//	GET    /v1/devices/DEVICE             one of them: attributes, counters, traffic
//	GET    /v1/devices/DEVICE/objects     queue pairs, queues, regions and domains
//	GET    /v1/devices/DEVICE/sample      round trips, windows and latencies of some requests since the last sample
//	GET    /v1/devices/DEVICE/record      the flight recorder as text, or with ?format=pcapng
//	GET    /v1/devices/DEVICE/events      what happens from now on, an object on a line, until the client goes
//	GET    /v1/devices/DEVICE/faults      the rules of faults, how often each has hit, and hits
//	PUT    /v1/devices/DEVICE/faults      replaces the rules
//	POST   /v1/devices/DEVICE/faults      adds rules
//	DELETE /v1/devices/DEVICE/faults      removes all rules
//	POST   /v1/fabrics/FABRIC             answers a question: package fabric/control has Request and Reply
//
// Events are changes of state, refusals and failed completions ([Event]). They are read from the flight
// recorder a few times a second while a client reads, and end when the device closes. The recorder keeps a
// bounded number, so a client that is slow, or too much at once, loses some: then an event says how many.
//
// DEVICE is a name of the list of devices, or "all" where something is changed. Rules are JSON
// (package faults). An error is {"error": "…"} with a status of HTTP.
package control
