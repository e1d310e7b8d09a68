#include "beam_search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <queue>
#include <stdexcept>
#include <string>

namespace hedgerow {

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Inputs of a block see the same chunk one after the other, while it is in cache.
constexpr std::int64_t kBlock = 4096;

constexpr int kMostTableBits = 18;
constexpr int kVisitsBetweenChecks = 64;

// Floats as unsigned integers in the same order.
std::uint32_t to_ordered(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

float from_ordered(std::uint32_t ordered) {
  return std::bit_cast<float>(ordered & 0x80000000u ? ordered & 0x7fffffffu : ~ordered);
}

// Scores of such inputs overflow, and infinity minus infinity is no answer.
void refuse_overflow(const SparseRow& x, std::int64_t row) {
  double sum = 0;
  for (std::int64_t i = 0; i < x.size; ++i) sum += std::fabs(double{x.values[i]});
  if (sum > 1e30)
    throw std::invalid_argument(
        "row " + std::to_string(row) +
        " of X has values up to 1e30 and beyond, too large to score; scale X, or use normalize=True");
}

}  // namespace

Ranked::Ranked(float log_probability, std::int32_t node)
    : key_(std::uint64_t{to_ordered(log_probability + 0.0f)} << 32 | ~static_cast<std::uint32_t>(node)) {}

float Ranked::log_probability() const { return from_ordered(static_cast<std::uint32_t>(key_ >> 32)); }

void Best::reset(std::int32_t limit) {
  limit_ = limit;
  threshold_ = kMinusInfinity;
  items_.clear();
}

void Best::offer(const float* log_probabilities, std::int64_t count, std::int32_t first_node) {
  if (positions_.size() < static_cast<std::size_t>(count)) positions_.resize(static_cast<std::size_t>(count));
  const std::int64_t found = kernels().select_at_least(log_probabilities, count, threshold_, positions_.data());
  for (std::int64_t i = 0; i < found; ++i)
    items_.emplace_back(log_probabilities[positions_[static_cast<std::size_t>(i)]],
                        first_node + static_cast<std::int32_t>(positions_[static_cast<std::size_t>(i)]));
  if (items_.size() >= 2 * static_cast<std::size_t>(limit_) + 64) prune();
}

void Best::prune() {
  const auto end = items_.begin() + limit_;
  std::nth_element(items_.begin(), end - 1, items_.end());
  items_.erase(end, items_.end());
  threshold_ = items_.back().log_probability();
}

float Best::worst() {
  if (items_.size() < static_cast<std::size_t>(limit_)) return kMinusInfinity;
  prune();
  return threshold_;
}

const std::vector<Ranked>& Best::finish() {
  if (items_.size() > static_cast<std::size_t>(limit_)) prune();
  std::sort(items_.begin(), items_.end());
  return items_;
}

void Searcher::prepare(const SparseRows& X, std::int64_t begin, std::int64_t end, bool normalise) {
  inputs_.clear();
  hashes_.clear();
  values_.clear();
  std::int64_t longest = 0;
  for (std::int64_t row = begin; row < end; ++row) {
    const SparseRow x = X[row];
    inputs_.push_back({hashes_.size(), x.size});
    longest = std::max(longest, x.size);
    const float scale = normalise ? unit_scale(x) : 1.0f;
    if (!normalise) refuse_overflow(x, row);
    for (std::int64_t i = 0; i < x.size; ++i) {
      hashes_.push_back(model_->hash()(x.indices[i]));
      values_.push_back(x.values[i] * scale);
    }
  }
  const std::size_t room = static_cast<std::size_t>(longest + kHitsSlack);
  if (codes_.size() < room) {
    codes_.resize(room);
    offsets_.resize(kNoRow * room);
    hit_values_.resize(kNoRow * room);
  }
  hits_.codes = codes_.data();
  for (std::size_t kind = 0; kind < kNoRow; ++kind) {
    hits_.offsets[kind] = offsets_.data() + kind * codes_.size();
    hits_.values[kind] = hit_values_.data() + kind * codes_.size();
  }
}

void Searcher::score(int layer, std::int32_t node, float log_probability, const Input& input,
                     const std::uint32_t* table) {
  const ChunkView& chunk = model_->chunk(layer, node);
  const std::size_t room = 32 * ((std::size_t{chunk.groups} + 1) / 2);
  if (logits_.size() < room) logits_.resize(room);
  const Kernels& simd = kernels();
  simd.score_chunk(chunk, hashes_.data() + input.begin, values_.data() + input.begin, input.size, table, hits_,
                   logits_.data());
  simd.log_probabilities(logits_.data(), chunk.lanes, log_probability, model_->transform());
}

void Searcher::descend(std::int64_t inputs, int layer, const SearchOptions& options, Watch& watch) {
  const LabelTree& tree = model_->tree();
  if (best_.size() < static_cast<std::size_t>(inputs)) best_.resize(static_cast<std::size_t>(inputs));
  const std::int32_t beam = std::max(options.beam, tree.nodes_for(options.k));
  std::int64_t scored = 0;
  pairs_.clear();
  for (std::int64_t input = 0; input < inputs; ++input) pairs_.push_back({0, static_cast<std::int32_t>(input), 0.0f});
  for (int t = 0; t < layer; ++t) {
    const std::int32_t limit = t + 1 == tree.depth() ? options.k : beam;
    for (std::int64_t input = 0; input < inputs; ++input)
      best_[static_cast<std::size_t>(input)].reset(std::min(limit, tree.nodes(t + 1)));

    // Pairs in the order of nodes, so that a chunk is hot while it is used.
    const std::vector<Pair>* visits = &pairs_;
    if (inputs > 1 && t > 0) {
      starts_.assign(static_cast<std::size_t>(tree.nodes(t)) + 1, 0);
      for (const Pair& pair : pairs_) ++starts_[static_cast<std::size_t>(pair.node) + 1];
      for (std::size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
      sorted_.resize(pairs_.size());
      for (const Pair& pair : pairs_)
        sorted_[static_cast<std::size_t>(starts_[static_cast<std::size_t>(pair.node)]++)] = pair;
      visits = &sorted_;
    }
    for (auto pair = visits->begin(); pair != visits->end();) {
      const std::int32_t node = pair->node;
      const ChunkView& chunk = model_->chunk(t, node);
      auto end = pair;
      std::int64_t lookups = 0;
      for (; end != visits->end() && end->node == node; ++end)
        lookups += inputs_[static_cast<std::size_t>(end->input)].size;
      // Many lookups in one chunk pay for a table of its rows; for few, or a table too large to stay in cache, its own
      // buckets are better.
      const bool tabulate = model_->hash().bits() <= kMostTableBits && lookups > 8 * std::int64_t{chunk.bucket_count};
      if (tabulate) {
        table_.resize(std::size_t{1} << model_->hash().bits(), kNoCode);
        fill_table(chunk, table_.data());
      }
      for (; pair != end; ++pair) {
        if (++scored % kVisitsBetweenChecks == 0) watch.check();
        score(t, node, pair->log_probability, inputs_[static_cast<std::size_t>(pair->input)],
              tabulate ? table_.data() : nullptr);
        best_[static_cast<std::size_t>(pair->input)].offer(logits_.data(), chunk.lanes, tree.child_begin(t, node));
      }
      if (tabulate) clear_table(chunk, table_.data());
    }
    if (t + 1 == layer) break;
    pairs_.clear();
    for (std::int64_t input = 0; input < inputs; ++input)
      for (const Ranked& ranked : best_[static_cast<std::size_t>(input)].finish())
        pairs_.push_back({ranked.node(), static_cast<std::int32_t>(input), ranked.log_probability()});
  }
}

const std::vector<Ranked>& Searcher::best_first(std::int64_t input, std::int32_t k, Watch& watch) {
  const LabelTree& tree = model_->tree();
  if (best_.empty()) best_.resize(1);
  Best& best = best_[0];
  best.reset(k);
  struct Open {
    float log_probability;
    int layer;
    std::int32_t node;
    bool operator<(const Open& other) const { return log_probability < other.log_probability; }
  };
  std::priority_queue<Open> queue;
  queue.push({0.0f, 0, 0});
  for (int visits = 1; !queue.empty(); ++visits) {
    if (visits % kVisitsBetweenChecks == 0) watch.check();
    const Open open = queue.top();
    queue.pop();
    // Probabilities only fall on the way down, so nothing below this node, nor below any other, can get in.
    // Equal ones still may: a tie goes to the lower number.
    if (open.log_probability < best.worst()) break;
    score(open.layer, open.node, open.log_probability, inputs_[static_cast<std::size_t>(input)], nullptr);
    const std::int32_t first = tree.child_begin(open.layer, open.node);
    const std::int32_t children = static_cast<std::int32_t>(model_->chunk(open.layer, open.node).lanes);
    if (open.layer + 1 == tree.depth()) {
      best.offer(logits_.data(), children, first);
    } else {
      for (std::int32_t child = 0; child < children; ++child)
        if (logits_[static_cast<std::size_t>(child)] >= best.threshold())
          queue.push({logits_[static_cast<std::size_t>(child)], open.layer + 1, first + child});
    }
  }
  return best.finish();
}

void top_labels(const TreeModel& model, const SparseRows& X, const SearchOptions& options, int threads, Watch& watch,
                std::int32_t* labels, float* probabilities) {
  const LabelTree& tree = model.tree();
  const std::int64_t k = options.k;
  const auto search = [&](Searcher& searcher, std::int64_t begin, std::int64_t end) {
    searcher.search(X, begin, end, tree.depth(), options, watch,
                    [&](std::int64_t row, const std::vector<Ranked>& best) {
                      if (best.size() < static_cast<std::size_t>(k))
                        throw std::invalid_argument("scores of row " + std::to_string(row) +
                                                    " of X are not finite; scale X and train anew");
                      for (std::int64_t i = 0; i < k; ++i) {
                        const Ranked& ranked = best[static_cast<std::size_t>(i)];
                        labels[row * k + i] = tree.labels()[static_cast<std::size_t>(ranked.node())];
                        probabilities[row * k + i] = ranked.log_probability();
                      }
                    });
    kernels().exponentials(probabilities + begin * k, (end - begin) * k);
  };

  if (X.rows == 1) {
    // No thread, no lock, and scratch memory that is already there.
    thread_local std::unique_ptr<Searcher> searcher;
    if (!searcher) searcher = std::make_unique<Searcher>(model);
    searcher->use(model);
    search(*searcher, 0, 1);
    return;
  }
  // All labels of all inputs of a block would be too much memory for a full beam.
  const std::int64_t widest =
      std::max<std::int64_t>(1, std::min<std::int64_t>(options.beam, tree.nodes(tree.depth() - 1)));
  const std::int64_t block = std::clamp<std::int64_t>(
      std::min((std::int64_t{1} << 24) / (widest + 4 * k), (X.rows + threads - 1) / threads), 1, kBlock);
  std::vector<Searcher> searchers(static_cast<std::size_t>(threads), Searcher(model));
  const std::int64_t blocks = (X.rows + block - 1) / block;
  watch.plan(static_cast<double>(blocks));
  parallel_for(static_cast<std::size_t>(blocks), threads, watch, [&](std::size_t task, int worker) {
    const std::int64_t begin = static_cast<std::int64_t>(task) * block;
    search(searchers[static_cast<std::size_t>(worker)], begin, std::min(X.rows, begin + block));
    watch.advance(1);
  });
}

}  // namespace hedgerow
