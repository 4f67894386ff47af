// Package wire is the parent of the packages with the formats of NVMe over Fabrics on the RDMA
// transport, and has their tests:
//
//   - capsule: commands, completions, data descriptors, opcodes
//   - status: how commands end
//   - fabrics: private data of connections, the connect command, properties
//   - identify, logpage: structures that commands return
//   - format: what all of them share
package wire
