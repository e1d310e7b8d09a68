// The way of members to candidates that only others met: the second half of a `Descent`.
#include <algorithm>
#include <cmath>

#include "descent.h"

namespace hedgerow {

void Descent::complete(int tree, const Candidates& candidates) {
  const LabelTree& labels = forest_->model(tree).tree();
  const std::int64_t voices = forest_->voices(tree);
  Found& found = found_[tree];
  for (int layer = 0; layer < labels.depth(); ++layer)
    found.extra[layer].clear(forest_->voices(tree), forest_->paths(tree).widest(layer));
  met_.assign(labels.nodes(labels.depth() - 1), 0);
  wanted_.resize(labels.depth());
  for (std::int64_t input = 0; input < inputs_.size(); ++input) {
    find_unvisited(tree, candidates, input);
    for (int layer = 0; layer < labels.depth(); ++layer) {
      for (const std::int32_t node : wanted_[layer]) found.extra[layer].add(node, input);
      found.extra[layer].close_input();
      wanted_[layer].clear();
    }
  }
  for (int layer = 0; layer < labels.depth(); ++layer) {
    if (options_.floor > 0) leave_improbable(tree, layer);
    Visits& extra = found.extra[layer];
    extra.paths.assign(extra.nodes.size() * voices, 0.0f);
    for (std::int64_t visit = 0; layer > 0 && visit < std::ssize(extra.nodes); ++visit) {
      const float* log = log_of(tree, layer, extra.nodes[visit], extra.inputs[visit]);
      for (std::int64_t voice = 0; voice < voices; ++voice)
        extra.paths[visit * voices + voice] = log[voice * found.extra[layer - 1].stride];
    }
    score(tree, layer, extra);
  }
}

// Keeps of the visits of a layer those above the floor.
void Descent::leave_improbable(int tree, int layer) {
  if (layer == 0) return;
  Visits& extra = found_[tree].extra[layer];
  const float floor = std::log(options_.floor);
  const std::int64_t apart = found_[tree].extra[layer - 1].stride;
  std::int64_t kept = 0;
  for (std::int64_t input = 0; input < inputs_.size(); ++input) {
    const Range<std::int64_t> visits = extra.of(input);
    extra.begins[input] = kept;
    for (const std::int64_t visit : visits) {
      const std::int32_t node = extra.nodes[visit];
      const float* log = log_of(tree, layer, node, input);
      bool probable = false;
      for (std::int64_t voice = 0; log && voice < extra.voices; ++voice) probable |= !(log[voice * apart] < floor);
      if (!probable) continue;
      extra.nodes[kept] = node;
      extra.inputs[kept++] = static_cast<std::int32_t>(input);
    }
  }
  extra.begins.back() = kept;
  extra.nodes.resize(kept);
  extra.inputs.resize(kept);
}

// Finds, from the leaves up, the nodes on the way to an input's candidates that it has not visited.
void Descent::find_unvisited(int tree, const Candidates& candidates, std::int64_t input) {
  const TreePaths& paths = forest_->paths(tree);
  const Found& found = found_[tree];
  const Visits& last = found.layers.back();
  std::vector<std::int32_t>& leaves = wanted_[std::ssize(found.layers) - 1];
  const auto mark = [&](unsigned char value) {
    for (const std::int64_t visit : last.of(input)) met_[last.nodes[visit]] = value;
    for (const std::int32_t leaf : leaves) met_[leaf] = value;
  };
  mark(1);
  for (const std::int64_t i : part_of(candidates.begins, input)) {
    const std::int32_t leaf = paths.leaf(candidates.labels[i]);
    if (leaf < 0 || met_[leaf]) continue;
    met_[leaf] = 1;
    leaves.push_back(leaf);
  }
  mark(0);
  std::sort(leaves.begin(), leaves.end());
  for (std::int64_t layer = std::ssize(found.layers) - 1; layer > 0; --layer) {
    std::vector<std::int32_t>& above = wanted_[layer - 1];
    for (const std::int32_t node : wanted_[layer]) {
      const std::int32_t parent = paths.parent(static_cast<int>(layer), node);
      if ((above.empty() || above.back() != parent) && found.layers[layer - 1].find(input, parent) < 0)
        above.push_back(parent);
    }
  }
}

void Descent::complete_above_floor(int tree, const Candidates& candidates) {
  const int depth = forest_->model(tree).tree().depth();
  const float floor = std::log(options_.floor);
  Found& found = found_[tree];
  sought_.resize(forest_->labels(), 0);
  for (int layer = 0; layer < depth; ++layer) {
    Visits& extra = found.extra[layer];
    extra.clear(forest_->voices(tree), forest_->paths(tree).widest(layer));
    for (std::int64_t input = 0; input < inputs_.size(); ++input) {
      // Most inputs left nothing behind that is above the floor.
      if (layer > 0 && found.frontiers[input].worst >= floor) {
        const Range<std::int64_t> own = part_of(candidates.begins, input);
        for (const std::int64_t i : own) sought_[candidates.labels[i]] = 1;
        add_unvisited(tree, layer, input);
        for (const std::int64_t i : own) sought_[candidates.labels[i]] = 0;
      }
      extra.close_input();
    }
    if (!extra.nodes.empty()) score(tree, layer, extra);
  }
}

// Adds the nodes of a layer above the floor that an input has not visited, though it visited their parents, and that
// have candidates below.
void Descent::add_unvisited(int tree, int layer, std::int64_t input) {
  const LabelTree& labels = forest_->model(tree).tree();
  Found& found = found_[tree];
  const float floor = std::log(options_.floor);
  unvisited_.clear();
  for (const Visits* above : {&found.layers[layer - 1], &found.extra[layer - 1]})
    for (const std::int64_t visit : above->of(input)) {
      const Range<std::int32_t> children = children_of(labels, layer - 1, above->nodes[visit]);
      const float* logs = above->children(visit);
      const float* means = logs;
      if (above->voices > 1) {
        means_.resize(above->stride);
        kernels().log_means(logs, above->stride, static_cast<int>(above->voices), children.size(), means_.data());
        means = means_.data();
      }
      for (std::int32_t child = 0; child < children.size(); ++child) {
        const std::int32_t node = children.first + child;
        if (means[child] >= floor && found.layers[layer].find(input, node) < 0 && has_candidate(labels, layer, node))
          unvisited_.push_back({node, logs + child});
      }
    }
  std::sort(unvisited_.begin(), unvisited_.end(),
            [](const Unvisited& a, const Unvisited& b) { return a.node < b.node; });
  Visits& extra = found.extra[layer];
  for (const Unvisited& unvisited : unvisited_) {
    extra.add(unvisited.node, input);
    for (std::int64_t voice = 0; voice < extra.voices; ++voice)
      extra.paths.push_back(unvisited.logs[voice * found.layers[layer - 1].stride]);
  }
}

bool Descent::has_candidate(const LabelTree& tree, int layer, std::int32_t node) const {
  Range<std::int32_t> below{node, node + 1};
  for (; layer < tree.depth(); ++layer)
    below = {tree.child_begin(layer, below.first), tree.child_begin(layer, below.last)};
  const auto labels = tree.labels().begin();
  return std::any_of(labels + below.first, labels + below.last, [&](std::int32_t label) { return sought_[label]; });
}

}  // namespace hedgerow
