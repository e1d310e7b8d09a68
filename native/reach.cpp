// How far members follow an input down their trees: the narrow beam of a `Descent`.
#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>

#include "descent.h"

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

void Descent::forget_visits(int tree) {
  for (Visits& visits : found_[tree].layers) {
    visits.clear(0, 0);
    visits.begins.resize(inputs_.size() + 1, 0);
  }
}

void Descent::follow(int tree) {
  const int depth = std::min(options_.followed, forest_->model(tree).tree().depth());
  root_.assign(forest_->voices(tree), 0.0f);
  for (int layer = 0; layer < depth; ++layer) {
    Followed& here = found_[tree].followed[layer];
    here.begins.assign(1, 0);
    here.nodes.clear();
    here.logs.clear();
    here.unvisited.clear(forest_->voices(tree), forest_->paths(tree).widest(layer));
    for (std::int64_t input = 0; input < inputs_.size(); ++input) {
      if (layer == 0)
        enter(tree, layer, input, 0, root_.data(), 1);
      else
        choose_followed(tree, layer, input);
      here.begins.push_back(std::ssize(here.nodes));
    }
    if (here.unvisited.nodes.empty()) continue;
    score(tree, layer, here.unvisited);
    std::int64_t scored = 0;
    for (const float*& logs : here.logs)
      if (logs == nullptr) logs = here.unvisited.children(scored++);
  }
}

// Chooses as the search does, with the narrow beam and no tolerance.
void Descent::choose_followed(int tree, int layer, std::int64_t input) {
  const LabelTree& labels = forest_->model(tree).tree();
  const Followed& above = found_[tree].followed[layer - 1];
  const std::int64_t voices = above.unvisited.voices, stride = above.unvisited.stride;
  std::int64_t scored = 0;
  means_.resize(stride);
  best_.reset(std::min(kReachBeam, labels.nodes(layer)));
  for (const std::int64_t i : part_of(above.begins, input)) {
    const Range<std::int32_t> children = children_of(labels, layer - 1, above.nodes[i]);
    const float* logs = above.logs[i];
    if (voices > 1) {
      kernels().log_means(logs, stride, static_cast<int>(voices), children.size(), means_.data());
      logs = means_.data();
    }
    best_.offer(logs, children.size(), children.first);
    scored += children.size();
  }
  const auto& best = best_.finish();
  if (std::ssize(best) < std::min<std::int64_t>(kReachBeam, scored)) throw_not_finite();
  chosen_.clear();
  for (const Ranked& ranked : best) chosen_.push_back(ranked.node());
  std::sort(chosen_.begin(), chosen_.end());
  std::int64_t parent = above.begins[input];
  for (const std::int32_t node : chosen_) {
    while (labels.child_begin(layer - 1, above.nodes[parent] + 1) <= node) ++parent;
    const std::int32_t child = node - labels.child_begin(layer - 1, above.nodes[parent]);
    enter(tree, layer, input, node, above.logs[parent] + child, stride);
  }
}

// Adds a node to the narrow beam; `path` has its log-probabilities, a voice every `apart` numbers.
void Descent::enter(int tree, int layer, std::int64_t input, std::int32_t node, const float* path, std::int64_t apart) {
  Followed& here = found_[tree].followed[layer];
  const Visits& visits = found_[tree].layers[layer];
  const std::int64_t visit = visits.find(input, node);
  here.nodes.push_back(node);
  here.logs.push_back(visit < 0 ? nullptr : visits.children(visit));
  if (visit >= 0) return;
  here.unvisited.add(node, input);
  for (std::int64_t voice = 0; voice < here.unvisited.voices; ++voice)
    here.unvisited.paths.push_back(path[voice * apart]);
}

double Descent::reach(std::int64_t input, const ReachOf& of) {
  double sum = 0;
  for (int tree = 0; tree < forest_->trees(); ++tree) {
    const LabelTree& labels = forest_->model(tree).tree();
    const int above = std::min(of.layer, labels.depth()) - 1;
    const Followed& followed = found_[tree].followed[above];
    for (std::int64_t voice = 0; voice < followed.unvisited.voices; ++voice) {
      highest_.clear();
      for (const std::int64_t i : part_of(followed.begins, input)) {
        const float* logs = followed.logs[i] + voice * followed.unvisited.stride;
        highest_.insert(highest_.end(), logs, logs + children_of(labels, above, followed.nodes[i]).size());
      }
      if (std::any_of(highest_.begin(), highest_.end(), [](float log) { return std::isnan(log); })) throw_not_finite();
      const auto end = highest_.begin() + static_cast<std::ptrdiff_t>(std::min(of.nodes, highest_.size()));
      std::partial_sort(highest_.begin(), end, highest_.end(), std::greater<>());
      for (auto log = highest_.begin(); log != end; ++log) sum += energy(*log, forest_->model(tree).transform());
    }
  }
  return sum / forest_->members();
}

}  // namespace hedgerow
