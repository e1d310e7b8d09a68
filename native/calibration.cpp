#include "calibration.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>

#include "vote_lanes.h"

namespace hedgerow {

namespace {

constexpr int kShift = 17;  // of a float's bits: 64 bins an octave
constexpr std::uint32_t kLowestBits = std::bit_cast<std::uint32_t>(kLowestBin) >> kShift;
constexpr std::uint32_t kHighestBits = std::bit_cast<std::uint32_t>(kHighestBin) >> kShift;
constexpr std::uint32_t kMiddleBits = std::bit_cast<std::uint32_t>(0.5f) >> kShift;
constexpr int kBelow = static_cast<int>(kMiddleBits - kLowestBits) + 1;
constexpr int kAbove = static_cast<int>(kMiddleBits - kHighestBits) + 1;
constexpr int kBins = kBelow + kAbove;
constexpr int kEdges = kBins + 1;

constexpr std::int64_t kRows = 64;          // that a worker counts at once
constexpr std::int64_t kEntries = 1 << 14;  // that a worker moves at once

int bin_of(float p) {
  if (!(p > 0.0f)) return 0;  // also -0, whose bits are large
  if (p < 0.5f) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(p) >> kShift;
    return bits < kLowestBits ? 0 : static_cast<int>(bits - kLowestBits) + 1;
  }
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(1.0f - p) >> kShift;  // exact
  if (bits < kHighestBits) return kBins - 1;
  return kBins - 2 - static_cast<int>(std::min(bits, kMiddleBits - 1) - kHighestBits);
}

double edge(int bin) {
  const auto value = [](std::uint32_t bits) { return static_cast<double>(std::bit_cast<float>(bits << kShift)); };
  if (bin == 0) return 0.0;
  if (bin < kBelow) return value(kLowestBits + static_cast<std::uint32_t>(bin - 1));
  if (bin == kBins) return 1.0;
  return 1.0 - value(kHighestBits + static_cast<std::uint32_t>(kBins - 1 - bin));
}

// What a map makes of a probability.
class Scale {
 public:
  Scale() {
    for (int bin = 0; bin < kEdges; ++bin) edges_[bin] = edge(bin);
    for (int bin = 0; bin < kBins; ++bin) per_width_[bin] = 1.0 / (edges_[bin + 1] - edges_[bin]);
  }
  double read(const double* values, float p) const {
    const int bin = bin_of(p);
    const double share = (static_cast<double>(p) - edges_[bin]) * per_width_[bin];
    return values[bin] + share * (values[bin + 1] - values[bin]);
  }

 private:
  double edges_[kEdges];
  double per_width_[kBins];
};

// What a worker has counted, and its room for one row.
struct Counter {
  std::vector<std::int64_t> counts;
  std::vector<float> values, sorted;  // probabilities of the candidates
  std::vector<char> right;            // whether each is true

  void find_true(const std::int32_t* candidates, std::int64_t size, const SparseRow& truth) {
    right.assign(static_cast<std::size_t>(size), 0);
    for (std::int64_t i = 0, next = 0; i < size; ++i) {
      while (next < truth.size && truth.indices[next] < candidates[i]) ++next;
      right[static_cast<std::size_t>(i)] = next < truth.size && truth.indices[next] == candidates[i];
    }
  }

  void count(const std::int32_t* candidates, const CountOptions& options, std::size_t slot) {
    float least = 0;
    const std::size_t best = static_cast<std::size_t>(options.best);
    if (best < values.size()) {
      sorted = values;
      std::nth_element(sorted.begin(), sorted.begin() + options.best - 1, sorted.end(), std::greater<>());
      least = sorted[best - 1];
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t group = options.group ? options.group[candidates[i]] : 0;
      const std::size_t place = (slot * static_cast<std::size_t>(options.groups) + group) * kBins;
      std::int64_t* at = counts.data() + (place + static_cast<std::size_t>(bin_of(values[i]))) * 4;
      if (values[i] < least) at += 2;
      ++at[0];
      at[1] += right[i];
    }
  }
};

const Scale& scale() {
  static const Scale made;
  return made;
}

}  // namespace

int calibration_bins() { return kBins; }

std::vector<double> calibration_edges() {
  std::vector<double> edges;
  for (int bin = 0; bin < kEdges; ++bin) edges.push_back(edge(bin));
  return edges;
}

void count_votes(const VoteRows& votes, const SparseRows& truth, const CountOptions& options, int threads, Watch& watch,
                 std::int64_t* counts) {
  const std::size_t members = static_cast<std::size_t>(votes.members);
  const std::size_t groups = static_cast<std::size_t>(options.groups);
  const std::size_t slots = (options.each ? members : 1) * groups;
  const std::int64_t block = even_block(votes.rows, kRows, threads);
  const std::int64_t blocks = (votes.rows + block - 1) / block;
  // Whole numbers: whatever worker counts what, the sums are the same.
  std::vector<Counter> counters(static_cast<std::size_t>(threads));
  parallel_for(static_cast<std::size_t>(blocks), threads, watch, [&](std::size_t task, int worker) {
    Counter& counter = counters[static_cast<std::size_t>(worker)];
    if (counter.counts.empty()) counter.counts.assign(slots * kBins * 4, 0);
    const std::int64_t begin = static_cast<std::int64_t>(task) * block, end = std::min(votes.rows, begin + block);
    for (std::int64_t row = begin; row < end; ++row) {
      const std::uint8_t* allowed = options.allowed ? options.allowed + row * votes.members : nullptr;
      std::size_t asked = members;
      if (allowed)
        asked = static_cast<std::size_t>(std::count_if(allowed, allowed + members, [](auto yes) { return yes != 0; }));
      if (asked == 0) continue;
      const std::int64_t first = votes.indptr[row], size = votes.indptr[row + 1] - first;
      const float* p = votes.probabilities + first * votes.members;
      counter.find_true(votes.candidates + first, size, truth[row]);
      if (options.each) {
        for (std::size_t m = 0; m < members; ++m) {
          if (allowed && !allowed[m]) continue;
          counter.values.resize(static_cast<std::size_t>(size));
          for (std::int64_t i = 0; i < size; ++i)
            counter.values[static_cast<std::size_t>(i)] = p[static_cast<std::size_t>(i) * members + m];
          counter.count(votes.candidates + first, options, m);
        }
        continue;
      }
      counter.values.resize(static_cast<std::size_t>(size));
      for (std::int64_t i = 0; i < size; ++i) {
        double sum = 0;
        for (std::size_t m = 0; m < members; ++m)
          if (!allowed || allowed[m]) sum += static_cast<double>(p[static_cast<std::size_t>(i) * members + m]);
        counter.values[static_cast<std::size_t>(i)] = static_cast<float>(sum / static_cast<double>(asked));
      }
      counter.count(votes.candidates + first, options, 0);
    }
  });
  for (const Counter& counter : counters)
    for (std::size_t i = 0; i < counter.counts.size(); ++i) counts[i] += counter.counts[i];
}

namespace {

// What the map of a candidate makes of the mean of its members.
double mapped_mean(const CalibrationMaps& maps, std::int32_t label, double mean) {
  const double* map = maps.values + (maps.group ? maps.group[label] : 0) * kEdges;
  return std::clamp(scale().read(map, static_cast<float>(mean)), 0.0, 1.0);
}

double mean_of(const float* p, int members, double share) {
  double sum = 0;
  for (int m = 0; m < members; ++m) sum += static_cast<double>(p[m]);
  return sum * share;
}

void map_each(const float* p, int members, std::size_t group, const CalibrationMaps& maps, float* q) {
  const double* map = maps.values + group * kEdges;
  for (int m = 0; m < members; ++m, map += maps.groups * kEdges)
    q[m] = static_cast<float>(std::clamp(scale().read(map, p[m]), 0.0, 1.0));
}

// Shrunk towards 0 or towards 1: all stay in [0, 1] and in their order, and their mean is what is wanted.
void move_towards_an_end(const float* p, int members, double mean, double wanted, float* q) {
  if (wanted <= mean) {
    const float factor = static_cast<float>(mean > 0 ? wanted / mean : 0.0);
    for (int m = 0; m < members; ++m) q[m] = p[m] * factor;
  } else {
    // Not 1 - (1 - p) · factor: small probabilities would lose their digits.
    const float lift = static_cast<float>((wanted - mean) / (1.0 - mean));
    for (int m = 0; m < members; ++m) q[m] = std::min(1.0f, p[m] + (1.0f - p[m]) * lift);
  }
}

}  // namespace

void apply_maps(const std::int32_t* labels, const float* probabilities, std::int64_t entries, int members,
                const CalibrationMaps& maps, int threads, Watch& watch, float* moved) {
  const double share = 1.0 / static_cast<double>(members);
  if (maps.odds && !maps.each && members > 1) {
    for_lanes(entries, threads, watch, [&] {
      return [&, wanted = std::vector<float>(kJudgedAtOnce),
              votes = std::vector<float>(static_cast<std::size_t>(members) * kJudgedAtOnce)](
                 std::int64_t first, std::int64_t size) mutable {
        read_votes(probabilities, first, size, members, votes.data());
        for (std::int64_t lane = 0; lane < kJudgedAtOnce; ++lane) {
          const std::int64_t entry = entry_of(first, lane, size);
          const double mean = mean_of(probabilities + entry * members, members, share);
          wanted[static_cast<std::size_t>(lane)] = static_cast<float>(mapped_mean(maps, labels[entry], mean));
        }
        kernels().move_means(wanted.data(), votes.data(), members);
        write_votes(votes.data(), first, size, members, moved);
      };
    });
    return;
  }
  const auto move = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t entry = begin; entry < end; ++entry) {
      const float* p = probabilities + entry * members;
      float* q = moved + entry * members;
      if (maps.each) {
        map_each(p, members, maps.group ? maps.group[labels[entry]] : 0, maps, q);
        continue;
      }
      const double mean = mean_of(p, members, share), wanted = mapped_mean(maps, labels[entry], mean);
      if (maps.odds)
        *q = static_cast<float>(wanted);  // the only member
      else
        move_towards_an_end(p, members, mean, wanted, q);
    }
  };
  const std::int64_t block = even_block(entries, kEntries, threads);
  if (block == 0) return;
  const std::int64_t blocks = (entries + block - 1) / block;
  if (blocks == 1) return move(0, entries);
  parallel_for(static_cast<std::size_t>(blocks), threads, watch, [&](std::size_t task, int) {
    const std::int64_t begin = static_cast<std::int64_t>(task) * block;
    move(begin, std::min(entries, begin + block));
  });
}

}  // namespace hedgerow
