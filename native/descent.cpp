#include "descent.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace hedgerow {

namespace {

constexpr std::int64_t kVisitsBetweenChecks = 64;

}  // namespace

void Visits::clear(int voices_of_tree, std::int32_t widest) {
  voices = voices_of_tree;
  stride = widest;
  begins.assign(1, 0);
  nodes.clear();
  inputs.clear();
  paths.clear();
}

std::int64_t Visits::find(std::int64_t input, std::int32_t node) const {
  const auto first = nodes.begin() + begins[input], last = nodes.begin() + begins[input + 1];
  const auto at = std::lower_bound(first, last, node);
  return at != last && *at == node ? at - nodes.begin() : -1;
}

void Descent::use(const Forest& forest) {
  forest_ = &forest;
  if (serial_ == forest.serial()) return;
  serial_ = forest.serial();
  kept_.clear();
  found_.clear();
  found_.resize(forest.trees());
  for (int tree = 0; tree < forest.trees(); ++tree) {
    found_[tree].layers.resize(forest.model(tree).tree().depth());
    found_[tree].extra.resize(found_[tree].layers.size());
    found_[tree].followed.resize(found_[tree].layers.size());
  }
}

void Descent::prepare(const SparseRows& X, std::int64_t begin, std::int64_t end, const VoteOptions& options,
                      Watch& watch) {
  options_ = options;
  watch_ = &watch;
  rows_ = &X;
  begin_ = begin;
  end_ = end;
  inputs_.prepare(forest_->model(0), X, begin, end, options.normalise);
}

void Descent::descend(int tree, std::int32_t beam, std::int32_t least) {
  const int voices = forest_->voices(tree);
  Found& found = found_[tree];
  found.frontiers.assign(inputs_.size(), Frontier{});
  for (int layer = 0; layer < forest_->model(tree).tree().depth(); ++layer) {
    Visits& visits = found.layers[layer];
    visits.clear(voices, forest_->paths(tree).widest(layer));
    for (std::int64_t input = 0; input < inputs_.size(); ++input) {
      if (layer == 0) {
        visits.add(0, input);
        visits.paths.insert(visits.paths.end(), voices, 0.0f);
      } else {
        choose(tree, layer, input, beam, least);
      }
      visits.close_input();
    }
    score(tree, layer, visits);
  }
}

// Scores the children of all visited nodes, in the order of nodes, so that a chunk is hot while it is used.
void Descent::score(int tree, int layer, Visits& visits) {
  const TreeModel& model = forest_->model(tree);
  if (!inputs_.suit(model)) inputs_.prepare(model, *rows_, begin_, end_, options_.normalise);
  const std::int64_t voices = visits.voices, stride = visits.stride, count = std::ssize(visits.nodes);
  if (std::ssize(visits.logs) < count * voices * stride) visits.logs.resize(count * voices * stride);
  order_.resize(count);
  starts_.assign(model.tree().nodes(layer) + 1, 0);
  for (const std::int32_t node : visits.nodes) ++starts_[node + 1];
  for (std::size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
  for (std::int64_t visit = 0; visit < count; ++visit) order_[starts_[visits.nodes[visit]]++] = visit;
  const Kernels& simd = kernels();
  const Leaving leaving(inputs_);
  const bool labels = layer + 1 == model.tree().depth();
  const bool lowered = options_.headroom > 0 && labels && !options_.classifiers;
  const bool keeps_lowered = labels && options_.classifiers;
  if (keeps_lowered && std::ssize(visits.lowered) < count * voices * stride)
    visits.lowered.resize(count * voices * stride);
  lowered_.resize(stride);
  for (std::int64_t i = 0; i < count; ++i) {
    if (i % kVisitsBetweenChecks == 0) watch_->check();
    const std::int64_t visit = order_[i];
    const std::int32_t node = visits.nodes[visit];
    if (i == 0 || visits.nodes[order_[i - 1]] != node) {
      std::int64_t lookups = 0;
      for (std::int64_t j = i; j < count && visits.nodes[order_[j]] == node; ++j)
        lookups += inputs_.features(visits.inputs[order_[j]]);
      inputs_.approach(model.chunk(layer, node), lookups);
    }
    const std::int32_t children = children_of(model.tree(), layer, node).size();
    std::size_t apart;
    float* logits = inputs_.score(model, layer, node, visits.inputs[visit], forest_->dropout(), apart);
    float* logs = visits.logs.data() + visit * voices * stride;
    for (std::int64_t voice = 0; voice < voices; ++voice, logits += apart, logs += stride) {
      const float path = visits.paths[visit * voices + voice];
      if (keeps_lowered) {
        for (std::int32_t child = 0; child < children; ++child) lowered_[child] = logits[child] - options_.headroom;
        simd.log_probabilities(lowered_.data(), children, path, model.transform(),
                               visits.lowered.data() + (visit * voices + voice) * stride);
      }
      if (lowered)
        for (std::int32_t child = 0; child < children; ++child) logits[child] -= options_.headroom;
      simd.log_probabilities(logits, children, path, model.transform(), logs);
    }
  }
}

// Chooses the nodes of a layer that an input visits among the children of those it visited above: the best `beam`
// above the floor, the best `least` in any case, and whatever is above the tolerance. What is left behind is the
// frontier.
void Descent::choose(int tree, int layer, std::int64_t input, std::int32_t beam, std::int32_t least) {
  const LabelTree& labels = forest_->model(tree).tree();
  Found& found = found_[tree];
  const Visits& above = found.layers[layer - 1];
  Visits& here = found.layers[layer];
  const std::int64_t voices = above.voices;
  const Range<std::int64_t> visits = above.of(input);
  const TreeSubset* subset = options_.subset ? &options_.subset->of(tree) : nullptr;

  // Members that share a tree share the way down it: the one that is best for their mean.
  means_.resize(visits.size() * above.stride);
  float* means = means_.data();
  std::int64_t scored = 0;
  best_.reset(std::min(beam, labels.nodes(layer)));
  for (const std::int64_t visit : visits) {
    const Range<std::int32_t> children = children_of(labels, layer - 1, above.nodes[visit]);
    if (voices == 1)
      std::copy_n(above.children(visit), children.size(), means);
    else
      kernels().log_means(above.children(visit), above.stride, static_cast<int>(voices), children.size(), means);
    if (subset) {
      allowed_.pick(*subset, layer, children, means);
      best_.offer(allowed_.logs(), allowed_.size(), allowed_.nodes());
      scored += allowed_.size();
    } else {
      best_.offer(means, children.size(), children.first);
      scored += children.size();
    }
    means += above.stride;
  }
  const auto& best = best_.finish();
  if (std::ssize(best) < std::min<std::int64_t>(beam, scored))
    throw std::invalid_argument("scores of an input are not finite; scale X and train again");
  kept_.resize(labels.nodes(layer), 0);
  const float floor = std::log(options_.floor);
  for (std::size_t i = 0; i < best.size(); ++i)
    kept_[best[i].node()] = std::cmp_less(i, least) || best[i].log_probability() >= floor;

  const float tolerance = std::log(options_.tolerance);
  Frontier& frontier = found.frontiers[input];
  missed_.clear();
  counts_.clear();
  means = means_.data();
  for (const std::int64_t visit : visits) {
    const Range<std::int32_t> children = children_of(labels, layer - 1, above.nodes[visit]);
    const float* logs = above.children(visit);
    for (std::int32_t child = 0; child < children.size(); ++child) {
      const std::int32_t node = children.first + child;
      if (subset && !subset->has(layer, node)) continue;
      if (kept_[node] || means[child] > tolerance || options_.tolerance <= 0) {
        here.add(node, input);
        for (std::int64_t voice = 0; voice < voices; ++voice) here.paths.push_back(logs[voice * above.stride + child]);
      } else {
        missed_.push_back(means[child]);
        counts_.push_back(subset ? subset->labels_below(layer, node) : forest_->paths(tree).labels_below(layer, node));
        frontier.worst = std::max(frontier.worst, means[child]);
      }
    }
    means += above.stride;
  }
  kernels().add_missed(missed_.data(), counts_.data(), std::ssize(missed_), frontier.mass);
  for (const Ranked& ranked : best) kept_[ranked.node()] = 0;
}

const float* Descent::log_of(int tree, int layer, std::int32_t node, std::int64_t input) const {
  const std::int32_t parent = forest_->paths(tree).parent(layer, node);
  const std::int32_t child = node - forest_->model(tree).tree().child_begin(layer - 1, parent);
  const Visits* visits = &found_[tree].layers[layer - 1];
  std::int64_t visit = visits->find(input, parent);
  if (visit < 0 && options_.missing == Missing::exact) {
    visits = &found_[tree].extra[layer - 1];
    visit = visits->find(input, parent);
  }
  return visit < 0 ? nullptr : visits->children(visit) + child;
}

}  // namespace hedgerow
