#include "label_tree.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>

#include "aligned.h"
#include "kernels.h"
#include "local_rows.h"
#include "random.h"

namespace hedgerow {

LabelTree::LabelTree(std::vector<std::vector<std::int32_t>> begins, std::vector<std::int32_t> labels)
    : begins_(std::move(begins)), labels_(std::move(labels)) {
  const auto fail = [](const std::string& what) { throw std::invalid_argument("label tree: " + what); };
  if (begins_.empty()) fail("no layers");
  if (begins_[0].size() != 2) fail("the first layer must be the root alone");
  chunk_starts_.assign(1, 0);
  for (std::size_t t = 0; t < begins_.size(); ++t) {
    const auto& layer = begins_[t];
    if (layer.size() < 2) fail("layer " + std::to_string(t) + " has no nodes");
    if (layer[0] != 0) fail("layer " + std::to_string(t) + " does not start at 0");
    for (std::size_t i = 0; i + 1 < layer.size(); ++i)
      if (layer[i + 1] <= layer[i])
        fail("node " + std::to_string(i) + " of layer " + std::to_string(t) + " has no children");
    const std::size_t below = t + 1 < begins_.size() ? begins_[t + 1].size() - 1 : labels_.size();
    if (static_cast<std::size_t>(layer.back()) != below)
      fail("layer " + std::to_string(t) + " has " + std::to_string(layer.back()) +
           " children, but the layer below has " + std::to_string(below) + " nodes");
    chunk_starts_.push_back(chunk_starts_.back() + static_cast<std::int64_t>(layer.size()) - 1);
  }
  std::vector<std::int32_t> sorted = labels_;
  std::sort(sorted.begin(), sorted.end());
  if (!sorted.empty() && sorted.front() < 0) fail("label " + std::to_string(sorted.front()) + " is negative");
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) fail("label " + std::to_string(*twice) + " stands in two places");

  const auto& last = begins_.back();
  for (std::size_t i = 0; i + 1 < last.size(); ++i) smallest_.push_back(last[i + 1] - last[i]);
  std::sort(smallest_.begin(), smallest_.end());
  std::partial_sum(smallest_.begin(), smallest_.end(), smallest_.begin());
}

std::int32_t LabelTree::nodes_for(std::int32_t k) const {
  const auto enough = std::lower_bound(smallest_.begin(), smallest_.end(), static_cast<std::int64_t>(k));
  return static_cast<std::int32_t>(
      std::min<std::ptrdiff_t>(enough - smallest_.begin() + 1, static_cast<std::ptrdiff_t>(smallest_.size())));
}

OwnedRows aggregate_labels(const SparseRows& X, const SparseRows& rows_of_label, const float* scales,
                           const float* costs, int threads, Watch& watch) {
  const std::int64_t labels = rows_of_label.rows;
  struct Worker {
    std::vector<float> sums;
    std::vector<std::int32_t> touched;
  };
  struct Block {
    std::vector<std::int64_t> sizes;
    std::vector<std::int32_t> indices;
    std::vector<float> values;
  };
  constexpr std::int64_t kBlock = 256, kFeaturesPerNote = 8;
  std::vector<Worker> workers(static_cast<std::size_t>(threads));
  std::vector<Block> blocks(static_cast<std::size_t>((labels + kBlock - 1) / kBlock));
  parallel_for(blocks.size(), threads, watch, [&](std::size_t task, int worker) {
    Worker& mine = workers[static_cast<std::size_t>(worker)];
    mine.sums.resize(static_cast<std::size_t>(X.columns), 0.0f);
    Block& block = blocks[task];
    const std::int64_t begin = static_cast<std::int64_t>(task) * kBlock;
    for (std::int64_t label = begin; label < std::min(labels, begin + kBlock); ++label) {
      mine.touched.clear();
      const SparseRow members = rows_of_label[label];
      std::int64_t entries = 0;
      for (std::int64_t i = 0; i < members.size; ++i) entries += X[members.indices[i]].size;
      // Of a label with many entries, looking at all features is faster than noting and sorting those it has.
      const bool many = entries * kFeaturesPerNote >= X.columns;
      for (std::int64_t i = 0; i < members.size; ++i) {
        const std::int32_t row = members.indices[i];
        const float weight = (scales ? scales[row] : 1.0f) * (costs ? costs[row] : 1.0f);
        const SparseRow x = X[row];
        for (std::int64_t j = 0; j < x.size; ++j) {
          float& sum = mine.sums[static_cast<std::size_t>(x.indices[j])];
          if (!many && sum == 0.0f) mine.touched.push_back(x.indices[j]);
          sum += x.values[j] * weight;
        }
      }
      if (many) {
        for (std::int32_t f = 0; f < X.columns; ++f)
          if (mine.sums[static_cast<std::size_t>(f)] != 0.0f) mine.touched.push_back(f);
      } else {
        // A sum that passed through 0 was touched twice, and one that ended there is no feature.
        std::sort(mine.touched.begin(), mine.touched.end());
        mine.touched.erase(std::unique(mine.touched.begin(), mine.touched.end()), mine.touched.end());
        std::erase_if(mine.touched, [&](std::int32_t f) { return mine.sums[static_cast<std::size_t>(f)] == 0.0f; });
      }
      double square = 0;
      for (const std::int32_t f : mine.touched) square += double{mine.sums[f]} * mine.sums[f];
      const float scale = square > 0 ? static_cast<float>(1.0 / std::sqrt(square)) : 0.0f;
      for (const std::int32_t f : mine.touched) {
        block.indices.push_back(f);
        block.values.push_back(mine.sums[f] * scale);
        mine.sums[f] = 0.0f;
      }
      block.sizes.push_back(static_cast<std::int64_t>(mine.touched.size()));
    }
  });

  OwnedRows out;
  out.columns = X.columns;
  out.indptr.assign(1, 0);
  std::size_t total = 0;
  for (const Block& block : blocks) total += block.indices.size();
  out.indices.reserve(total);
  out.values.reserve(total);
  for (Block& block : blocks) {
    for (const std::int64_t size : block.sizes) out.indptr.push_back(out.indptr.back() + size);
    out.indices.insert(out.indices.end(), block.indices.begin(), block.indices.end());
    out.values.insert(out.values.end(), block.values.begin(), block.values.end());
    block = {};
  }
  return out;
}

namespace {

// K-means ends when the mean cosine between labels and centroids grows by less than this.
constexpr double kLeastGain = 1e-4;

// Splits one cluster of labels into `parts` of equal size (to within one) by spherical k-means.
class Splitter {
 public:
  Splitter(int branching, const Scratch& scratch) : width_(branching <= 8 ? 8 : 16), panels_((branching + 15) / 16) {
    rows_.spill_to(scratch);
  }

  // Reorders `members` so that the parts are consecutive; returns where each part begins.
  std::vector<std::int32_t> split(const SparseRows& label_features, const float* scales,
                                  std::span<std::int32_t> members, int parts, int max_iterations, std::uint64_t seed,
                                  std::uint64_t place, int threads, Watch& watch) {
    const std::size_t n = members.size();
    rows_.gather(label_features, members, scales);
    const SparseRows rows = rows_.view();
    const std::size_t stride = static_cast<std::size_t>(width_ * panels_);
    scores_.resize(n * stride);
    std::vector<std::int32_t> assigned(n, -1);

    RandomStream random(seed, place);
    std::vector<std::int32_t> shuffled(n);
    std::iota(shuffled.begin(), shuffled.end(), 0);
    for (int part = 0; part < parts; ++part)
      std::swap(shuffled[static_cast<std::size_t>(part)],
                shuffled[static_cast<std::size_t>(part) +
                         random.below(static_cast<std::uint32_t>(n) - static_cast<std::uint32_t>(part))]);

    centroids_.assign(static_cast<std::size_t>(rows.columns) * stride, 0.0f);
    for (int part = 0; part < parts; ++part) add(rows, shuffled[static_cast<std::size_t>(part)], part);

    double previous = -2;
    for (int iteration = 0; iteration < max_iterations; ++iteration) {
      watch.check();
      score(rows, threads, watch);
      const double similarity = balance(assigned, parts);
      if (similarity < previous + kLeastGain || iteration + 1 == max_iterations) break;
      previous = similarity;
      std::fill(centroids_.begin(), centroids_.end(), 0.0f);
      for (std::size_t i = 0; i < n; ++i) add(rows, static_cast<std::int32_t>(i), assigned[i]);
      normalise(rows.columns);
    }

    std::vector<std::int32_t> begins(1, 0);
    std::vector<std::int32_t> ordered;
    ordered.reserve(n);
    for (int part = 0; part < parts; ++part) {
      for (std::size_t i = 0; i < n; ++i)
        if (assigned[i] == part) ordered.push_back(members[i]);
      begins.push_back(static_cast<std::int32_t>(ordered.size()));
    }
    std::copy(ordered.begin(), ordered.end(), members.begin());
    return begins;
  }

 private:
  // Centroids lie panel by panel; one panel's table has rows of `width_` lanes.
  float* panel(std::int64_t features, int part) {
    return centroids_.data() + static_cast<std::size_t>(part / width_) * static_cast<std::size_t>(features * width_);
  }

  void add(const SparseRows& rows, std::int32_t row, int part) {
    const SparseRow entries = rows[row];
    float* table = panel(rows.columns, part) + part % width_;
    for (std::int64_t i = 0; i < entries.size; ++i)
      table[std::int64_t{entries.indices[i]} * width_] += entries.values[i];
  }

  void normalise(std::int64_t features) {
    for (int first = 0; first < width_ * panels_; first += width_) {
      float* table = panel(features, first);
      double squares[kLanes] = {};
      for (std::int64_t f = 0; f < features; ++f)
        for (int lane = 0; lane < width_; ++lane)
          squares[lane] += double{table[f * width_ + lane]} * table[f * width_ + lane];
      float scales[kLanes];
      for (int lane = 0; lane < width_; ++lane)
        scales[lane] = squares[lane] > 0 ? static_cast<float>(1.0 / std::sqrt(squares[lane])) : 0.0f;
      for (std::int64_t f = 0; f < features; ++f)
        for (int lane = 0; lane < width_; ++lane) table[f * width_ + lane] *= scales[lane];
    }
  }

  void score(const SparseRows& rows, int threads, Watch& watch) {
    const Kernels& simd = kernels();
    constexpr std::int64_t kBlock = 256;
    const std::size_t panel_size = static_cast<std::size_t>(rows.columns) * static_cast<std::size_t>(width_);
    parallel_for(
        static_cast<std::size_t>((rows.rows + kBlock - 1) / kBlock), threads, watch, [&](std::size_t task, int) {
          const std::int64_t begin = static_cast<std::int64_t>(task) * kBlock;
          for (std::int64_t i = begin; i < std::min(rows.rows, begin + kBlock); ++i) {
            const SparseRow x = rows[i];
            for (int panel = 0; panel < panels_; ++panel)
              simd.dot_panel(
                  x.indices, x.values, x.size, &centroids_[static_cast<std::size_t>(panel) * panel_size], width_,
                  &scores_[static_cast<std::size_t>(i * panels_ + panel) * static_cast<std::size_t>(width_)]);
          }
        });
  }

  // Labels choose in order of how much they would lose by not getting their favourite; a full part sends them on to
  // the next best.
  // Returns the mean similarity of labels and centroids.
  double balance(std::vector<std::int32_t>& assigned, int parts) {
    const std::size_t n = assigned.size();
    const std::size_t stride = static_cast<std::size_t>(width_ * panels_);
    std::vector<std::pair<float, std::int32_t>> queue(n);
    for (std::size_t i = 0; i < n; ++i) {
      const float* row = &scores_[i * stride];
      float best = -2, second = -2;
      for (int part = 0; part < parts; ++part) {
        if (row[part] > best) {
          second = best;
          best = row[part];
        } else {
          second = std::max(second, row[part]);
        }
      }
      queue[i] = {second - best, static_cast<std::int32_t>(i)};
    }
    std::sort(queue.begin(), queue.end());
    std::vector<std::int32_t> room(static_cast<std::size_t>(parts));
    for (int part = 0; part < parts; ++part)
      room[static_cast<std::size_t>(part)] = static_cast<std::int32_t>(
          n / static_cast<std::size_t>(parts) + (static_cast<std::size_t>(part) < n % static_cast<std::size_t>(parts)));
    double similarity = 0;
    for (const auto& [loss, i] : queue) {
      const float* row = &scores_[static_cast<std::size_t>(i) * stride];
      int choice = -1;
      for (int part = 0; part < parts; ++part)
        if (room[static_cast<std::size_t>(part)] > 0 && (choice < 0 || row[part] > row[choice])) choice = part;
      assigned[static_cast<std::size_t>(i)] = choice;
      --room[static_cast<std::size_t>(choice)];
      similarity += row[choice];
    }
    return similarity / static_cast<double>(n);
  }

  int width_;
  int panels_;
  LocalRows rows_;
  Aligned<float> centroids_;
  Aligned<float> scores_;
};

}  // namespace

LabelTree grow_tree(const SparseRows& label_features, const std::vector<std::int32_t>& labels,
                    const GrowOptions& options, int threads, Watch& watch) {
  const auto require = [](bool holds, const char* name, int value, int least) {
    if (!holds)
      throw std::invalid_argument(std::string(name) + " is " + std::to_string(value) + ", but must be at least " +
                                  std::to_string(least));
  };
  require(options.branching >= 2, "branching", options.branching, 2);
  require(options.leaf_size >= 1, "leaf_size", options.leaf_size, 1);
  require(options.max_iterations >= 1, "iterations", options.max_iterations, 1);
  const std::size_t count = labels.size();
  int layers = 0;
  for (double size = static_cast<double>(count); size > options.leaf_size; size /= options.branching) ++layers;

  // Only the direction of a label's vector counts.
  std::vector<float> scales(count);
  for (std::size_t i = 0; i < count; ++i) scales[i] = unit_scale(label_features[static_cast<std::int64_t>(i)]);
  std::vector<std::int32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::vector<std::int32_t>> begins;
  std::vector<std::int32_t> bounds = {0, static_cast<std::int32_t>(count)};  // of the current layer's nodes, in `order`
  std::vector<std::unique_ptr<Splitter>> splitters(static_cast<std::size_t>(threads));
  watch.plan(layers);
  for (int layer = 0; layer < layers; ++layer) {
    const std::size_t nodes = bounds.size() - 1;
    std::vector<std::vector<std::int32_t>> inner(nodes);
    // Few large nodes: all threads work on one. Many: a node each.
    const bool together = nodes < static_cast<std::size_t>(2 * threads);
    const auto split = [&](std::size_t node, int worker) {
      auto& splitter = splitters[static_cast<std::size_t>(worker)];
      if (!splitter) splitter = std::make_unique<Splitter>(options.branching, options.scratch);
      const std::span members(order.data() + bounds[node], static_cast<std::size_t>(bounds[node + 1] - bounds[node]));
      const int parts = std::min(options.branching, static_cast<int>(members.size()));
      const std::uint64_t place = static_cast<std::uint64_t>(layer) << 40 | node;
      inner[node] = splitter->split(label_features, scales.data(), members, parts, options.max_iterations, options.seed,
                                    place, together ? threads : 1, watch);
      watch.advance(1.0 / static_cast<double>(nodes));
    };
    if (together)
      for (std::size_t node = 0; node < nodes; ++node) split(node, 0);
    else
      parallel_for(nodes, threads, watch, split);

    std::vector<std::int32_t> next_bounds(1, 0), first_child(1, 0);
    for (std::size_t node = 0; node < nodes; ++node) {
      for (std::size_t part = 1; part < inner[node].size(); ++part)
        next_bounds.push_back(bounds[node] + inner[node][part]);
      first_child.push_back(static_cast<std::int32_t>(next_bounds.size()) - 1);
    }
    begins.push_back(std::move(first_child));
    bounds = std::move(next_bounds);
  }
  begins.push_back(bounds);
  std::vector<std::int32_t> placed(count);
  for (std::size_t i = 0; i < count; ++i) placed[i] = labels[static_cast<std::size_t>(order[i])];
  return LabelTree(std::move(begins), std::move(placed));
}

}  // namespace hedgerow
