#include "parallel.h"

#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace hedgerow {

namespace {

std::size_t this_thread() { return std::hash<std::thread::id>{}(std::this_thread::get_id()); }

}  // namespace

Watch::Watch(std::function<void(double)> poll)
    : poll_(std::move(poll)), owner_(this_thread()), last_(std::chrono::steady_clock::now()) {}

bool Watch::on_owning_thread() const noexcept { return this_thread() == owner_; }

void Watch::check() {
  if (cancelled()) throw Cancelled();
  if (!poll_ || !on_owning_thread()) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  poll_(planned_ > 0 ? std::min(1.0, done_.load(std::memory_order_relaxed) / planned_) : 0.0);
}

void Watch::advance(double work) noexcept { done_.fetch_add(work, std::memory_order_relaxed); }

int resolve_threads(int asked) {
  if (asked > 0) return asked;
#ifdef __linux__
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::int64_t even_block(std::int64_t items, std::int64_t most, int threads) {
  most = std::max<std::int64_t>(most, 1);
  const std::int64_t rounds = (items + most * threads - 1) / (most * threads);
  const std::int64_t blocks = std::max<std::int64_t>(rounds * threads, 1);
  return std::max<std::int64_t>((items + blocks - 1) / blocks, 1);
}

void parallel_for(std::size_t tasks, int threads, Watch& watch, const std::function<void(std::size_t, int)>& body) {
  const int workers = static_cast<int>(std::min<std::size_t>(tasks, static_cast<std::size_t>(std::max(1, threads))));
  if (workers <= 1) {
    for (std::size_t task = 0; task < tasks; ++task) {
      watch.check();
      body(task, 0);
    }
    return;
  }

  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::condition_variable finished;
  std::exception_ptr failure;
  int running = workers - 1;

  const auto work = [&](int worker) {
    try {
      for (std::size_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) {
        watch.check();
        body(task, worker);
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      // What made the others stop is the cause; their Cancelled is only its echo.
      if (!watch.cancelled()) failure = std::current_exception();
      watch.cancel();
    }
  };

  std::vector<std::thread> pool;
  pool.reserve(static_cast<std::size_t>(workers - 1));
  for (int worker = 1; worker < workers; ++worker) {
    try {
      pool.emplace_back([&, worker] {
        work(worker);
        const std::lock_guard lock(mutex);
        --running;
        finished.notify_one();
      });
    } catch (...) {
      // The system has no more threads to give, or no memory for them; those that run share the work.
      const std::lock_guard lock(mutex);
      running -= workers - worker;
      break;
    }
  }
  work(0);
  {
    std::unique_lock lock(mutex);
    while (running > 0) {
      finished.wait_for(lock, std::chrono::milliseconds(50));
      if (watch.cancelled()) continue;
      lock.unlock();
      try {
        watch.check();
      } catch (...) {
        const std::lock_guard again(mutex);
        if (!watch.cancelled()) failure = std::current_exception();
        watch.cancel();
      }
      lock.lock();
    }
  }
  for (auto& thread : pool) thread.join();
  if (failure) std::rethrow_exception(failure);
  if (watch.cancelled()) throw Cancelled();
}

}  // namespace hedgerow
