// Parallel loops that can be watched and stopped.
//
// Threads are started for each loop and joined at its end. A pool that outlives the loop (libgomp's, say) deadlocks
// in a forked child and hides its synchronisation from ThreadSanitizer; starting a thread costs some 20 µs, which
// only loops of milliseconds pay.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>

namespace hedgerow {

// Thrown in workers once another thread failed or the user asked to stop.
struct Cancelled : std::runtime_error {
  Cancelled() : std::runtime_error("cancelled") {}
};

// Carries "please stop" from the thread that owns the call into all workers, and progress the other way.
class Watch {
 public:
  // `poll` runs on the owning thread some ten times a second; what it throws ends the work.
  explicit Watch(std::function<void(double)> poll = {});

  // Cheap enough to be called every few thousand operations, from any thread. Throws Cancelled.
  void check();
  void cancel() noexcept { stop_.store(true, std::memory_order_relaxed); }
  bool cancelled() const noexcept { return stop_.load(std::memory_order_relaxed); }

  // Work done so far, in units the caller of the loop chose.
  void plan(double work) noexcept { planned_ = work; }
  void advance(double work) noexcept;

 private:
  bool on_owning_thread() const noexcept;

  std::function<void(double)> poll_;
  std::atomic<bool> stop_{false};
  std::atomic<double> done_{0};
  double planned_ = 0;
  std::size_t owner_;
  std::chrono::steady_clock::time_point last_;
};

// How many threads `asked` means: itself if positive, else all processors this process may use.
int resolve_threads(int asked);

// Into blocks of how many items to cut a loop over `items`: at most `most`, and all threads get the same number of
// them.
std::int64_t even_block(std::int64_t items, std::int64_t most, int threads);

// Calls body(task, worker) for every task in [0, tasks), tasks handed out in order, worker in [0, threads).
// The first exception is rethrown on the calling thread after all workers have stopped.
void parallel_for(std::size_t tasks, int threads, Watch& watch,
                  const std::function<void(std::size_t task, int worker)>& body);

}  // namespace hedgerow
