// Package umad executes the calls on the device files of management datagrams
// (rdma/ib_user_mad.h): umadN, by which programs register agents and send and receive
// datagrams, and issmN, whose being open says that the port has a subnet manager.
//
// It owns the agents of the ports: which method of which management class is whose, the
// transaction IDs, the requests that wait for a response, with their time-outs, and the
// multi-packet transfers of agents that leave them to the port. Below it stands a [Port],
// which carries datagrams and knows nothing of agents. Package umad knows no attribute of
// any class, and answers nothing by itself.
package umad
