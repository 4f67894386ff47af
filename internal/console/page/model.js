// What the page knows: the last snapshot, and how its parts belong together.

// The printed URL has the token, and may name a view behind it: #token=…/objects. It leaves the address, so
// that a copy of the address, or a look over the shoulder, does not give it away.
const given = /^#token=([^/]+)(?:\/(.*))?$/.exec(location.hash);
if (given) {
  sessionStorage.setItem("token", given[1]);
  globalThis.history.replaceState(null, "", "#" + (given[2] || "map"));
}

// ask asks the server, and returns the reply or throws an Error with one line.
export async function ask(path, options = {}) {
  let r;
  try {
    r = await fetch("/api/" + path, { ...options, headers: { "Softrdma-Token": sessionStorage.getItem("token") ?? "" } });
  } catch {
    throw new Error("The console has ended. Start softrdma console again, and open the URL that it prints.");
  }
  if (r.ok) return options.raw ? r.blob() : r.json();
  let text = r.statusText;
  try { text = (await r.json()).error; } catch { /* no reason was given */ }
  if (r.status === 401) text = "Open the URL that softrdma console has printed: its token is missing or is of another console.";
  throw new Error(text);
}

// path returns the route of a device.
export const path = (d, what) => `processes/${d.pid}/devices/${encodeURIComponent(d.name)}/${what}`;

// model is what the last snapshot says. Its maps are by keys.
export const model = { at: 0, devices: [], qps: [], byDevice: new Map(), byQP: new Map(), fabrics: [], errors: [] };

const kept = 180; // samples of a queue pair
const most = 400; // queue pairs of which the page keeps samples
const histories = new Map();

export const deviceKey = (pid, name) => pid + "/" + name;
export const qpKey = (d, n) => d.key + "/" + n;

const native = (d) => d.protocol === "InfiniBand";

// named returns the address of a peer as people write it: that of InfiniBand is a LID.
const named = (peer) => peer.replace(/^\[100::\]:(\d+)$/, "LID $1");

// take takes a snapshot into the model.
export function take(s) {
  const devices = [], qps = [], byQP = new Map(), byDevice = new Map(), ends = new Map();
  for (const p of s.processes) {
    for (const d of p.devices) {
      d.pid = p.pid;
      d.program = p.program;
      if (p.program === "softrdma" && p.args?.[1]) d.program += " " + p.args[1]; // the command says more
      d.key = deviceKey(p.pid, d.name);
      devices.push(d);
      byDevice.set(d.key, d);
      for (const q of d.queue_pairs) {
        q.device = d;
        q.key = qpKey(d, q.qpn);
        qps.push(q);
        byQP.set(q.key, q);
        q.peer &&= named(q.peer);
        ends.set((native(d) ? "InfiniBand" : d.address) + "#" + q.qpn, q);
      }
    }
  }
  for (const q of qps) {
    const other = q.peer ? ends.get((native(q.device) ? "InfiniBand" : q.peer) + "#" + q.peer_qpn) : null;
    q.other = other && (!native(q.device) || other.peer_qpn === q.qpn) ? other : null; // which LID is whose is not known here
  }
  Object.assign(model, { at: Date.parse(s.time), devices, qps, byDevice, byQP, fabrics: s.fabrics, errors: s.errors ?? [] });
  remember(qps);
}

// remember keeps a sample of each queue pair.
function remember(qps) {
  for (const key of histories.keys()) if (!model.byQP.has(key)) histories.delete(key);
  for (const q of qps) {
    if (!q.measured || (!histories.has(q.key) && histories.size >= most)) continue;
    const all = histories.get(q.key) ?? [];
    all.push({
      at: model.at, sent: q.rates?.sent_bytes ?? null, received: q.rates?.received_bytes ?? null, trip: q.measured.round_trip_ns || null,
      window: q.measured.lossless ? null : q.measured.window ?? 0, flight: (q.measured.in_flight ?? 0) * (q.path_mtu ?? 0), state: q.state,
      again: q.rates?.retransmissions ?? null,
    });
    if (all.length > kept) all.shift();
    histories.set(q.key, all);
  }
}

// history returns the samples of a queue pair, the oldest first.
export const history = (key) => histories.get(key) ?? [];

// carried returns the bytes a second that a queue pair sends. If its other end is known, they are what that has
// received: it knows what a READ has brought.
export const carried = (q) => (q.other ? q.other.rates?.received_bytes : q.rates?.sent_bytes) ?? 0;

// matches reports whether a search finds a queue pair or a device.
export function matches(text, ...fields) {
  text = text.trim().toLowerCase();
  return text === "" || fields.some((f) => String(f).toLowerCase().includes(text));
}
export const findsDevice = (text, d) => matches(text, d.name, d.program, d.pid, d.address, d.interface, d.protocol, d.state);
