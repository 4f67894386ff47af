package reason

// The reasons of RoCE v2 in PSP packets.
const (
	PSPClear = pspRoom*roomSize + iota
	PSPPacket
	PSPSPI
	PSPSource
	PSPIntegrity
	PSPReplay
	PSPNoKey
	PSPOffer
	PSPPeer
	PSPSilent
	PSPPeers
	PSPBehind
	PSPMoved
	PSPEarly
)

const pspRoom Reason = 13

var _ = register(pspRoom, []row{
	{PSPClear, "PSP_CLEAR", "packet in the clear for a device that encrypts: expected one to UDP port %d, found one from port %d"},
	{PSPPacket, "PSP_PACKET", "not a PSP packet with an encrypted UDP datagram: expected %d, found %d"},
	{PSPSPI, "PSP_SPI", "PSP packet with an SPI that this device has not given to any peer, or no more: %d are in use, found %#08x"},
	{PSPSource, "PSP_SOURCE", "PSP packet not from the peer that has its SPI: expected address ...%08x, found ...%08x"},
	{PSPIntegrity, "PSP_INTEGRITY", "PSP packet was changed on its way or made with another key: SPI %#08x, IV %d"},
	{PSPReplay, "PSP_REPLAY", "PSP packet came before, or is too old to tell: SPI %#08x, IV %d"},
	{PSPNoKey, "PSP_NO_KEY", "no key to send to the peer with: expected %d, found %d"},
	{PSPOffer, "PSP_OFFER", "peer offers a key that this version cannot use: expected %#08x, found %#08x"},
	{PSPPeer, "PSP_PEER", "no device that encrypts at the peer's address: UDP port %d, errno %v"},
	{PSPSilent, "PSP_SILENT", "peer did not agree on keys in time: UDP port %d, waited %d ms"},
	{PSPPeers, "PSP_PEERS", "too many peers have keys of this device: at most %d, found %d"},
	{PSPBehind, "PSP_BEHIND_NAT", "peer is behind an address translator, so only it can call: its address ...%08x, calls from ...%08x"},
	{PSPMoved, "PSP_MOVED", "address translator of the peer has given it another address or port, which it has confirmed: port %d before, %d now"},
	{PSPEarly, "PSP_EARLY", "packets of a peer that has not proved who it is yet: at most %d are held, found %d"},
}, kinds{
	PSPPeer: {0, NumErrno},
})
