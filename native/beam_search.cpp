#include "beam_search.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <queue>
#include <stdexcept>
#include <string>

#include "kept_searcher.h"

namespace hedgerow {

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Inputs of a block see the same chunk one after the other, while it is in cache.
constexpr std::int64_t kBlock = 6144;

constexpr int kVisitsBetweenChecks = 64;

constexpr std::int64_t kOfferedAtOnce = 256;

// Features to look up in all nodes of a layer together, for each thread that is worth its start.
constexpr std::int64_t kLookupsPerThread = 4000;
constexpr std::size_t kVisitsPerTask = 4;

}  // namespace

void Best::reset(std::int32_t limit) {
  limit_ = limit;
  threshold_ = kMinusInfinity;
  items_.clear();
}

template <class NodeAt>
void Best::offer_nodes(const float* log_probabilities, std::int64_t count, NodeAt node_at) {
  positions_.resize(kOfferedAtOnce);
  // In pieces: after the first, the threshold keeps nearly all out.
  for (std::int64_t first = 0; first < count; first += kOfferedAtOnce) {
    const std::int64_t size = std::min(kOfferedAtOnce, count - first);
    const float* here = log_probabilities + first;
    const std::int64_t found = kernels().select_at_least(here, size, threshold_, positions_.data());
    for (std::int64_t i = 0; i < found; ++i) {
      const std::uint32_t position = positions_[static_cast<std::size_t>(i)];
      items_.emplace_back(here[position], node_at(static_cast<std::uint32_t>(first) + position));
    }
    if (items_.size() >= 2 * static_cast<std::size_t>(limit_) + 64) prune();
  }
}

void Best::offer(const float* log_probabilities, std::int64_t count, std::int32_t first_node) {
  offer_nodes(log_probabilities, count,
              [=](std::uint32_t position) { return first_node + static_cast<std::int32_t>(position); });
}

void Best::offer(const float* log_probabilities, std::int64_t count, const std::int32_t* nodes) {
  offer_nodes(log_probabilities, count, [=](std::uint32_t position) { return nodes[position]; });
}

void Best::offer(const Best& other) {
  items_.insert(items_.end(), other.items_.begin(), other.items_.end());
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

const float* Searcher::score(int layer, std::int32_t node, float log_probability, std::int64_t input) {
  std::size_t stride;
  float* logits = inputs_.score(*model_, layer, node, input, nullptr, stride);
  kernels().log_probabilities(logits, children(layer, node), log_probability, model_->transform(), logits);
  return logits;
}

void Searcher::descend(int layer, const SearchOptions& options, Watch& watch) {
  const LabelTree& tree = model_->tree();
  const std::int64_t inputs = inputs_.size();
  if (best_.size() < static_cast<std::size_t>(inputs)) best_.resize(static_cast<std::size_t>(inputs));
  const std::int32_t beam = std::max(options.beam, subset_ ? subset_->nodes_for(options.k) : tree.nodes_for(options.k));
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
    const std::int64_t worth =
        threads_ == 1 ? 1 : static_cast<std::int64_t>(pairs_.size()) * inputs_.features(0) / kLookupsPerThread;
    if (worth > 1)
      visit_together(t, static_cast<int>(std::min<std::int64_t>(worth, threads_)), options.normalise, watch);
    else
      visit(t, *visits, watch);
    if (t + 1 == layer) break;
    pairs_.clear();
    for (std::int64_t input = 0; input < inputs; ++input)
      for (const Ranked& ranked : best_[static_cast<std::size_t>(input)].finish())
        pairs_.push_back({ranked.node(), static_cast<std::int32_t>(input), ranked.log_probability()});
  }
}

void Searcher::visit(int layer, const std::vector<Pair>& visits, Watch& watch) {
  const Leaving leaving(inputs_);
  for (std::size_t i = 0; i < visits.size(); ++i) {
    const Pair& pair = visits[i];
    if (++visited_ % kVisitsBetweenChecks == 0) watch.check();
    if (i == 0 || visits[i - 1].node != pair.node) {
      std::int64_t lookups = 0;
      for (std::size_t j = i; j < visits.size() && visits[j].node == pair.node; ++j)
        lookups += inputs_.features(visits[j].input);
      inputs_.approach(model_->chunk(layer, pair.node), lookups);
    }
    offer_children(layer, pair);
  }
}

void Searcher::offer_children(int layer, const Pair& pair) {
  const float* logs = score(layer, pair.node, pair.log_probability, pair.input);
  offer(best_[static_cast<std::size_t>(pair.input)], layer, pair.node, logs);
}

void Searcher::offer(Best& best, int layer, std::int32_t node, const float* logs) {
  const LabelTree& tree = model_->tree();
  const std::int32_t first = tree.child_begin(layer, node);
  if (subset_) {
    allowed_.pick(*subset_, layer + 1, {first, first + children(layer, node)}, logs);
    best.offer(allowed_.logs(), allowed_.size(), allowed_.nodes());
  } else if (layer + 1 == tree.depth())
    best.offer(logs, children(layer, node), tree.labels().data() + first);
  else
    best.offer(logs, children(layer, node), first);
}

void Searcher::visit_together(int layer, int threads, bool normalise, Watch& watch) {
  const auto helpers = static_cast<std::size_t>(threads) - 1;
  const std::size_t tasks = (pairs_.size() + kVisitsPerTask - 1) / kVisitsPerTask;
  const std::int32_t limit = best_[0].limit();
  for (; prepared_helpers_ < helpers; ++prepared_helpers_) {
    if (helpers_.size() == prepared_helpers_) helpers_.emplace_back(*model_);
    Searcher& helper = helpers_[prepared_helpers_];
    helper.use(*model_);
    helper.subset_ = subset_;
    helper.inputs_.prepare(*model_, *rows_, row_, row_ + 1, normalise);
    helper.best_.resize(1);
  }
  for (std::size_t i = 0; i < helpers; ++i) helpers_[i].best_[0].reset(limit);
  parallel_for(tasks, threads, watch, [&](std::size_t task, int worker) {
    Searcher& own = worker == 0 ? *this : helpers_[static_cast<std::size_t>(worker) - 1];
    watch.check();
    const std::size_t end = std::min(pairs_.size(), (task + 1) * kVisitsPerTask);
    for (std::size_t i = task * kVisitsPerTask; i < end; ++i) own.offer_children(layer, pairs_[i]);
  });
  for (std::size_t i = 0; i < helpers; ++i) best_[0].offer(helpers_[i].best_[0]);
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
    const float* logs = score(open.layer, open.node, open.log_probability, input);
    const std::int32_t first = tree.child_begin(open.layer, open.node);
    const std::int32_t count = children(open.layer, open.node);
    if (open.layer + 1 == tree.depth()) {
      offer(best, open.layer, open.node, logs);
    } else {
      for (std::int32_t child = 0; child < count; ++child)
        if (logs[child] >= best.threshold() && (!subset_ || subset_->has(open.layer + 1, first + child)))
          queue.push({logs[child], open.layer + 1, first + child});
    }
  }
  return best.finish();
}

void top_labels(const TreeModel& model, const SparseRows& X, const SearchOptions& options, int threads, Watch& watch,
                std::int32_t* labels, float* probabilities) {
  const LabelTree& tree = model.tree();
  const std::int64_t k = options.k;
  const auto search = [&](Searcher& searcher, std::int64_t begin, std::int64_t end) {
    searcher.search(
        X, begin, end, tree.depth(), options, watch,
        [&](std::int64_t row, const std::vector<Ranked>& best) {
          if (best.size() < static_cast<std::size_t>(k))
            throw std::invalid_argument("scores of row " + std::to_string(row) +
                                        " of X are not finite; scale X and train again");
          for (std::int64_t i = 0; i < k; ++i) {
            const Ranked& ranked = best[static_cast<std::size_t>(i)];
            labels[row * k + i] = ranked.node();
            probabilities[row * k + i] = ranked.log_probability();
          }
        },
        X.rows == 1 ? threads : 1);
    kernels().exponentials(probabilities + begin * k, (end - begin) * k);
  };

  if (X.rows == 1) {
    // No thread unless there is much to do.
    with_kept_searcher<Searcher>(model, [&](Searcher& searcher) { search(searcher, 0, 1); });
    return;
  }
  // All labels of all inputs of a block would be too much memory for a full beam.
  const std::int64_t widest =
      std::max<std::int64_t>(1, std::min<std::int64_t>(options.beam, tree.nodes(tree.depth() - 1)));
  const std::int64_t block = even_block(X.rows, std::min((std::int64_t{1} << 24) / (widest + 4 * k), kBlock), threads);
  std::vector<Searcher> searchers(static_cast<std::size_t>(threads), Searcher(model));
  const std::int64_t blocks = (X.rows + block - 1) / block;
  watch.plan(static_cast<double>(blocks));
  parallel_for(static_cast<std::size_t>(blocks), threads, watch, [&](std::size_t task, int worker) {
    const std::int64_t begin = static_cast<std::int64_t>(task) * block;
    search(searchers[static_cast<std::size_t>(worker)], begin, std::min(X.rows, begin + block));
    watch.advance(1);
  });
}

void top_nodes(const TreeModel& model, const SparseRows& X, int layer, std::int32_t k, std::int32_t beam,
               bool normalise, int threads, Watch& watch, std::int32_t* nodes, float* logs) {
  SearchOptions options;
  options.beam = beam;
  options.k = layer == model.tree().depth() ? k : 1;
  options.normalise = normalise;
  std::vector<Searcher> searchers(static_cast<std::size_t>(threads), Searcher(model));
  const std::int64_t block = even_block(X.rows, 512, threads);
  parallel_for(
      static_cast<std::size_t>((X.rows + block - 1) / block), threads, watch, [&](std::size_t task, int worker) {
        const std::int64_t begin = static_cast<std::int64_t>(task) * block;
        searchers[static_cast<std::size_t>(worker)].search(
            X, begin, std::min(X.rows, begin + block), layer, options, watch,
            [&](std::int64_t row, const std::vector<Ranked>& best) {
              for (std::int64_t i = 0; i < k; ++i) {
                const bool found = i < static_cast<std::int64_t>(best.size());
                nodes[row * k + i] = found ? best[static_cast<std::size_t>(i)].node() : -1;
                logs[row * k + i] = found ? best[static_cast<std::size_t>(i)].log_probability() : kMinusInfinity;
              }
            });
      });
}

}  // namespace hedgerow
