// How far members follow an input down their trees, for `VoteSearcher`.
#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>

#include "vote_search.h"

namespace hedgerow {

namespace {

[[noreturn]] void throw_not_finite() {
  throw std::invalid_argument("scores of an input are not finite; scale X and train again");
}

// ln(1 + e^z) for the logit z that alone would give a probability, known by its logarithm.
double energy(double log, Transform transform) {
  // Where float arithmetic ends: no probability is quite 0, nor quite 1.
  constexpr double kLowest = -87.336544750553109, kHighest = -1.0000000500000033e-07;
  log = std::clamp(log, kLowest, kHighest);
  if (transform == Transform::sigmoid) return -std::log(-std::expm1(log));
  return std::log1p(std::exp(1 - std::cbrt(-log)));
}

}  // namespace

void VoteSearcher::look(const SparseRows& X, std::int64_t begin, std::int64_t end, const VoteOptions& options,
                        Watch& watch) {
  prepare(X, begin, end, options, watch);
  for (int tree = 0; tree < forest_->trees(); ++tree) {
    for (Visits& visits : found_[static_cast<std::size_t>(tree)].layers) {
      visits.clear(0, 0);
      visits.begins.resize(static_cast<std::size_t>(inputs_.size()) + 1, 0);
    }
    follow(tree);
  }
}

// Goes down the narrow beam, over what the search visited, and scores only what it did not.
void VoteSearcher::follow(int tree) {
  Found& found = found_[static_cast<std::size_t>(tree)];
  const std::size_t voices = static_cast<std::size_t>(forest_->voices(tree));
  const int depth = std::min(options_.followed, forest_->model(tree).tree().depth());
  found.followed.resize(found.layers.size());
  for (int layer = 0; layer < depth; ++layer) {
    Followed& here = found.followed[static_cast<std::size_t>(layer)];
    here.begins.assign(1, 0);
    here.nodes.clear();
    here.logs.clear();
    here.unvisited.clear(voices, forest_->paths(tree).widest(layer));
    for (std::int64_t input = 0; input < inputs_.size(); ++input) {
      if (layer == 0) {
        root_.assign(voices, 0.0f);
        enter(tree, layer, input, 0, root_.data(), 1);
      } else {
        choose_followed(tree, layer, input);
      }
      here.begins.push_back(static_cast<std::int64_t>(here.nodes.size()));
    }
    if (here.unvisited.nodes.empty()) continue;
    score(tree, layer, here.unvisited);
    std::int64_t scored = 0;
    for (const float*& logs : here.logs)
      if (logs == nullptr) logs = here.unvisited.children(scored++);
  }
}

// Chooses as the search does, with the narrow beam and no tolerance.
void VoteSearcher::choose_followed(int tree, int layer, std::int64_t input) {
  const LabelTree& labels = forest_->model(tree).tree();
  const Followed& above = found_[static_cast<std::size_t>(tree)].followed[static_cast<std::size_t>(layer) - 1];
  const std::size_t voices = above.unvisited.voices, stride = above.unvisited.stride;
  const std::int64_t begin = above.begins[static_cast<std::size_t>(input)];
  const std::int64_t end = above.begins[static_cast<std::size_t>(input) + 1];
  std::int64_t scored = 0;
  means_.resize(stride);
  best_.reset(std::min(kReachBeam, labels.nodes(layer)));
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int32_t node = above.nodes[static_cast<std::size_t>(i)];
    const std::int32_t first = labels.child_begin(layer - 1, node);
    const std::int32_t children = labels.child_begin(layer - 1, node + 1) - first;
    const float* logs = above.logs[static_cast<std::size_t>(i)];
    if (voices > 1) {
      kernels().log_means(logs, stride, static_cast<int>(voices), children, means_.data());
      logs = means_.data();
    }
    best_.offer(logs, children, first);
    scored += children;
  }
  const auto& best = best_.finish();
  if (static_cast<std::int64_t>(best.size()) < std::min<std::int64_t>(kReachBeam, scored)) throw_not_finite();
  chosen_.clear();
  for (const Ranked& ranked : best) chosen_.push_back(ranked.node());
  std::sort(chosen_.begin(), chosen_.end());
  std::int64_t parent = begin;
  for (const std::int32_t node : chosen_) {
    while (labels.child_begin(layer - 1, above.nodes[static_cast<std::size_t>(parent)] + 1) <= node) ++parent;
    const std::int32_t child = node - labels.child_begin(layer - 1, above.nodes[static_cast<std::size_t>(parent)]);
    enter(tree, layer, input, node, above.logs[static_cast<std::size_t>(parent)] + child, stride);
  }
}

// Adds a node to the narrow beam; `path` has its log-probabilities, a voice every `apart` numbers.
void VoteSearcher::enter(int tree, int layer, std::int64_t input, std::int32_t node, const float* path,
                         std::size_t apart) {
  Found& found = found_[static_cast<std::size_t>(tree)];
  Followed& here = found.followed[static_cast<std::size_t>(layer)];
  const Visits& visits = found.layers[static_cast<std::size_t>(layer)];
  const std::int64_t visit = visits.find(input, node);
  here.nodes.push_back(node);
  here.logs.push_back(visit < 0 ? nullptr : visits.children(visit));
  if (visit >= 0) return;
  here.unvisited.add(node, static_cast<std::int32_t>(input));
  for (std::size_t voice = 0; voice < here.unvisited.voices; ++voice)
    here.unvisited.paths.push_back(path[voice * apart]);
}

double VoteSearcher::reach(std::int64_t input, const ReachOf& of) {
  double sum = 0;
  for (int tree = 0; tree < forest_->trees(); ++tree) {
    const LabelTree& labels = forest_->model(tree).tree();
    const int above = std::min(of.layer, labels.depth()) - 1;
    const Followed& followed = found_[static_cast<std::size_t>(tree)].followed[static_cast<std::size_t>(above)];
    for (std::size_t voice = 0; voice < followed.unvisited.voices; ++voice) {
      highest_.clear();
      for (std::int64_t i = followed.begins[static_cast<std::size_t>(input)];
           i < followed.begins[static_cast<std::size_t>(input) + 1]; ++i) {
        const std::int32_t node = followed.nodes[static_cast<std::size_t>(i)];
        const float* logs = followed.logs[static_cast<std::size_t>(i)] + voice * followed.unvisited.stride;
        highest_.insert(highest_.end(), logs,
                        logs + (labels.child_begin(above, node + 1) - labels.child_begin(above, node)));
      }
      if (std::any_of(highest_.begin(), highest_.end(), [](float log) { return std::isnan(log); })) throw_not_finite();
      const std::size_t kept = std::min(of.nodes, highest_.size());
      std::partial_sort(highest_.begin(), highest_.begin() + static_cast<std::ptrdiff_t>(kept), highest_.end(),
                        std::greater<>());
      for (std::size_t i = 0; i < kept; ++i) sum += energy(highest_[i], forest_->model(tree).transform());
    }
  }
  return sum / forest_->members();
}

}  // namespace hedgerow
