// Package away lets programs drive the streams of their queue pairs on the address of a server's
// iWARP device. The server has the listeners and the ids of the connection manager. When an id
// connects a queue pair of a program, the program dials, or continues the accepted stream; from then
// on the server only hears of events.
//
// A program of any device also says where the server is to write its flight recorder if it crashes.
//
// A Client is the server's side, Serve the program's. Both trust each other as two programs of one
// user do.
package away
