/*
 * A program of gloo's collective operations on its transport ibverbs. Ranks
 * all-reduce, broadcast and meet at barriers, with arrays of several sizes, and
 * check every element that they get. A rank ends with status 1 at the first wrong
 * one. At the end rank 0 tells how many bytes the ranks have sent each other.
 *
 *	gloo RANK RANKS FOLDER
 *
 * The ranks find each other by files in the folder, which must be empty.
 */
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/barrier_all_to_one.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/ibverbs/device.h>

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

// How often an operation runs. It registers its memory once.
constexpr int kRuns = 2;

// A Group is the ranks, connected with each other, as one of them sees them.
class Group {
 public:
  Group(int rank, int ranks, const std::string& folder, const std::string& name)
      : folder_(folder + "/" + name + "-"), files_(folder), store_(name, files_) {
    context_ = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
    gloo::transport::ibverbs::attr a;
    a.port = 1;
    a.index = 0;
    auto device = gloo::transport::ibverbs::CreateDevice(a);
    context_->connectFullMesh(store_, device);
  }

  int rank() const { return context_->rank; }
  int ranks() const { return context_->size; }
  const std::shared_ptr<gloo::rendezvous::Context>& context() const { return context_; }

  // poll makes the ranks wait by polling. Otherwise a thread waits for completion events.
  void poll() {
    for (int i = 0; i < ranks(); i++)
      if (i != rank())
        context_->getPair(i)->setSync(true, true);
  }

  // meet returns when all ranks have called it. It does not use the device.
  void meet(const std::string& where) {
    std::vector<std::string> all;
    for (int i = 0; i < ranks(); i++)
      all.push_back(where + std::to_string(i));
    store_.set(all[rank()], {1});
    store_.wait(all);
  }

  // drain sends each other rank a last message and waits until it is complete, and so all before it.
  // The operations do not wait for that, and gloo aborts where memory of a send is freed too early.
  void drain() {
    std::vector<int> out(ranks()), in(ranks());
    std::vector<std::unique_ptr<gloo::transport::Buffer>> sends, receives;
    const int slot = context_->nextSlot();
    for (int i = 0; i < ranks(); i++) {
      if (i == rank())
        continue;
      auto& pair = context_->getPair(i);
      sends.push_back(pair->createSendBuffer(slot, &out[i], sizeof(int)));
      receives.push_back(pair->createRecvBuffer(slot, &in[i], sizeof(int)));
    }
    for (auto& b : sends)
      b->send();
    for (auto& b : receives)
      b->waitRecv();
    for (auto& b : sends)
      b->waitSend();
  }

  // sign returns the file by which a rank shows that it has come to a barrier.
  std::string sign(int barrier, int rank) const {
    return folder_ + std::to_string(barrier) + "-" + std::to_string(rank);
  }

  // keep keeps an operation and its memory until the end. What it has sent may not be complete before.
  template <typename T>
  T* keep(std::shared_ptr<T> what) {
    kept_.push_back(what);
    return what.get();
  }

  int64_t sent = 0;  // bytes, by all ranks

 private:
  std::string folder_;
  gloo::rendezvous::FileStore files_;
  gloo::rendezvous::PrefixStore store_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<std::shared_ptr<void>> kept_;
};

template <typename T>
void check(const char* what, const std::vector<T>& got, size_t i, T want) {
  if (got[i] == want)
    return;
  std::ostringstream s;
  s << what << " of " << got.size() << " elements of " << sizeof(T) << " bytes: element " << i << " is "
    << +got[i] << ", expected " << +want;
  throw std::runtime_error(s.str());
}

// value is what a rank has as an element before a run. Sums of all ranks are exact in a float.
template <typename T>
T value(int rank, size_t i, int run) {
  return static_cast<T>((i * 7 + i / 251 + rank * 31 + run * 101) % 1009);
}

template <typename T>
void fill(std::vector<T>& a, int rank, int run) {
  for (size_t i = 0; i < a.size(); i++)
    a[i] = value<T>(rank, i, run);
}

template <typename T, template <typename> class Allreduce>
void reduce(Group& g, const char* what, size_t n, const gloo::ReductionFunction<T>* f) {
  auto& a = *g.keep(std::make_shared<std::vector<T>>(n));
  auto op = g.keep(std::make_shared<Allreduce<T>>(g.context(), std::vector<T*>{a.data()}, n, f));
  for (int run = 0; run < kRuns; run++) {
    fill(a, g.rank(), run);
    op->run();
    for (size_t i = 0; i < n; i++) {
      T want = value<T>(0, i, run), next;
      for (int r = 1; r < g.ranks(); r++) {
        next = value<T>(r, i, run);
        f->call(&want, &next, 1);
      }
      check(what, a, i, want);
    }
  }
}

template <typename T>
void broadcast(Group& g, size_t n, int root) {
  auto& a = *g.keep(std::make_shared<std::vector<T>>(n));
  auto op = g.keep(std::make_shared<gloo::BroadcastOneToAll<T>>(g.context(), std::vector<T*>{a.data()}, n, root));
  for (int run = 0; run < kRuns; run++) {
    fill(a, g.rank(), run);
    op->run();
    for (size_t i = 0; i < n; i++)
      check("broadcast_one_to_all", a, i, value<T>(root, i, run));
  }
}

// barriers checks that every rank has come to a barrier before one goes on.
void barriers(Group& g) {
  for (int b = 0; b < 2 * g.ranks(); b++) {
    auto op = g.keep(std::make_shared<gloo::BarrierAllToOne>(g.context(), b % g.ranks()));
    FILE* f = fopen(g.sign(b, g.rank()).c_str(), "w");
    if (!f || fclose(f))
      throw std::runtime_error("cannot write " + g.sign(b, g.rank()));
    op->run();
    for (int r = 0; r < g.ranks(); r++)
      if (access(g.sign(b, r).c_str(), F_OK))
        throw std::runtime_error("barrier " + std::to_string(b) + " did not wait for rank " + std::to_string(r));
  }
}

template <typename T>
void all(Group& g, size_t n) {
  const int64_t others = g.ranks() - 1, bytes = kRuns * n * sizeof(T);

  // Each rank sends all of the array on, once for every other.
  reduce<T, gloo::AllreduceRing>(g, "allreduce_ring", n, gloo::ReductionFunction<T>::sum);
  g.sent += g.ranks() * others * bytes;

  // Every other rank gives its part of a sum away and gets the result.
  reduce<T, gloo::AllreduceHalvingDoubling>(g, "allreduce_halving_doubling", n, gloo::ReductionFunction<T>::sum);
  reduce<T, gloo::AllreduceHalvingDoubling>(g, "allreduce_halving_doubling", n, gloo::ReductionFunction<T>::max);
  g.sent += 2 * 2 * others * bytes;

  for (int root = 0; root < g.ranks(); root++)
    broadcast<T>(g, n, root);
  g.sent += g.ranks() * others * bytes;
}

// exchange does all of it in a new group. Only a group that polls is destroyed: gloo's thread may still
// handle an event of a pair that is gone. A rank that fails destroys none, because gloo aborts where
// memory of a send is freed too early.
int64_t exchange(int rank, int ranks, const std::string& folder, bool poll) {
  Group& g = *new Group(rank, ranks, folder, poll ? "polling" : "events");
  if (poll)
    g.poll();
  g.meet("begin");
  for (size_t n : {1, 5, 1000, 65537}) {
    all<float>(g, n);
    all<int64_t>(g, n);
  }
  all<float>(g, 1 << 20);
  barriers(g);
  g.drain();
  g.meet("end");
  const int64_t sent = g.sent;
  if (poll)
    delete &g;
  return sent;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: gloo RANK RANKS FOLDER\n");
    return 2;
  }
  const int rank = atoi(argv[1]), ranks = atoi(argv[2]);
  try {
    int64_t sent = exchange(rank, ranks, argv[3], false);
    sent += exchange(rank, ranks, argv[3], true);
    if (rank == 0)
      printf("%d ranks exchanged everything right: %lld bytes\n", ranks, static_cast<long long>(sent));
  } catch (const std::exception& e) {
    fprintf(stderr, "rank %d: %s\n", rank, e.what());
    return 1;
  }
  return 0;
}
