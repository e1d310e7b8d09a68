#include "nearest_names.h"

#include <algorithm>
#include <vector>

#include "kernels.h"

namespace hedgerow {

namespace {

constexpr std::int64_t kNames = 256;   // that stay in the cache while they are compared with some queries
constexpr std::int64_t kQueries = 16;  // that a worker takes through all names at once

struct Near {
  float cosine;
  std::int32_t name;
};

// Heaps have what is farthest on top.
bool nearer(const Near& one, const Near& other) {
  return one.cosine != other.cosine ? one.cosine > other.cosine : one.name < other.name;
}

}  // namespace

void nearest_names(const ByteVectors& vectors, const ByteVectors& queries, std::int64_t width, std::int64_t count,
                   int threads, Watch& watch, std::int32_t* nearest, float* cosines) {
  if (queries.rows == 0 || count == 0) return;
  const auto work = [&](std::int64_t first, std::int64_t last) {
    const std::vector<std::int16_t> wide(queries.numbers + first * width, queries.numbers + last * width);
    std::vector<std::vector<Near>> best(static_cast<std::size_t>(last - first));
    std::int32_t dots[kNames];
    for (std::int64_t begin = 0; begin < vectors.rows; begin += kNames) {
      const std::int64_t names = std::min(kNames, vectors.rows - begin);
      watch.check();
      for (std::int64_t query = first; query < last; ++query) {
        kernels().dot_bytes(vectors.numbers + begin * width, names, width, wide.data() + (query - first) * width, dots);
        std::vector<Near>& own = best[static_cast<std::size_t>(query - first)];
        for (std::int64_t i = 0; i < names; ++i) {
          const double length = vectors.lengths[begin + i];
          if (length == 0) continue;
          const double product = std::max(length * queries.lengths[query], 1.0);
          const Near found{static_cast<float>(dots[i] / product), static_cast<std::int32_t>(begin + i)};
          if (static_cast<std::int64_t>(own.size()) == count) {
            if (!nearer(found, own.front())) continue;
            std::pop_heap(own.begin(), own.end(), nearer);
            own.back() = found;
          } else {
            own.push_back(found);
          }
          std::push_heap(own.begin(), own.end(), nearer);
        }
      }
    }
    for (std::int64_t query = first; query < last; ++query) {
      std::vector<Near>& own = best[static_cast<std::size_t>(query - first)];
      std::sort(own.begin(), own.end(), nearer);
      for (std::size_t i = 0; i < own.size(); ++i) {
        nearest[query * count + static_cast<std::int64_t>(i)] = own[i].name;
        cosines[query * count + static_cast<std::int64_t>(i)] = own[i].cosine;
      }
    }
  };
  const std::int64_t block = even_block(queries.rows, kQueries, threads);
  const std::int64_t blocks = (queries.rows + block - 1) / block;
  if (blocks == 1) return work(0, queries.rows);
  parallel_for(static_cast<std::size_t>(blocks), threads, watch, [&](std::size_t task, int) {
    const std::int64_t begin = static_cast<std::int64_t>(task) * block;
    work(begin, std::min(queries.rows, begin + block));
  });
}

}  // namespace hedgerow
