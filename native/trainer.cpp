#include "trainer.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <exception>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>

#include "beam_search.h"
#include "chunk_merge.h"
#include "panel_bench.h"

namespace hedgerow {

namespace {

struct Task {
  int layer;
  std::int32_t node;
  int first_panel, last_panel;
  double work;
};

// What is known of a chunk until its last panel is done.
struct Draft {
  std::vector<PanelWeights> panels;
  std::vector<float> bias;
  std::atomic<int> missing{0};
};

class Trainer {
 public:
  Trainer(const SparseRows& X, const SparseRows& Y, LabelTree tree, const float* costs, const SparseRows* negatives,
          const TrainOptions& options, int threads, Watch& watch, const Block& block, int lowest)
      : X_(X),
        costs_(costs),
        options_(options),
        threads_(threads),
        watch_(watch),
        model_(std::move(tree), X.columns, options.loss == Loss::logistic ? Transform::sigmoid : Transform::l3_hinge),
        block_(block),
        layers_(memberships(Y, model_.tree(), block, lowest)),
        hard_(negatives ? memberships(*negatives, model_.tree(), block, lowest) : std::vector<Lists>()),
        rows_of_node_(static_cast<std::size_t>(model_.tree().depth())),
        drafts_(static_cast<std::size_t>(model_.tree().chunks())),
        benches_(static_cast<std::size_t>(threads)) {
    for (PanelBench& bench : benches_) bench.rows.spill_to(options.scratch);
  }

  // Rows that are not trained on until they were asked about.
  void hold_out(const HeldOutRows& held_out) {
    held_out_ =
        std::make_unique<HeldOut>(model_.tree(), model_.transform(), held_out.rows, X_.rows, held_out.candidates);
  }
  HeldOutVotes take_votes() { return held_out_->take(); }

  TreeModel run(TrainReport& report) {
    const int depth = model_.tree().depth();
    if (options_.matcher_beam <= 0 && !held_out_) {
      std::vector<Task> tasks;
      for (int layer = 0; layer < depth; ++layer) {
        find_rows(layer);
        plan({layer, 0, model_.tree().nodes(layer)}, tasks);
      }
      train(tasks, 1.0);
    } else {
      for (int layer = 0; layer < depth; ++layer) {
        if (layer > 0 && options_.matcher_beam > 0) add_matched(layer);
        find_rows(layer);
        std::vector<Task> tasks;
        plan({layer, 0, model_.tree().nodes(layer)}, tasks);
        train(tasks, 1.0 / depth);
        if (held_out_) held_out_->descend();
      }
    }
    model_.lay_out();
    report.passes = passes_;
    report.weights = kept_;
    return std::move(model_);
  }

  TreeModel run_amended(const Amendment& amendment, TrainReport& report) {
    const LabelTree& tree = model_.tree();
    if (amendment.lost) {
      for (const Lists& lists : memberships(*amendment.lost, tree, {0, 0, 1}, tree.depth())) {
        std::vector<std::int32_t>& counts = lost_.emplace_back();
        if (lost_.size() == 1) continue;  // the root
        counts.assign(static_cast<std::size_t>(tree.nodes(static_cast<int>(lost_.size()) - 1)), 0);
        for (const std::int32_t node : lists.items) ++counts[static_cast<std::size_t>(node)];
      }
    }
    merges_.resize(benches_.size());
    for (int layer = 0; layer < tree.depth(); ++layer) {
      if (layer > 0 && options_.matcher_beam > 0) add_matched(layer);
      find_rows(layer);
      std::vector<Task> tasks;
      for (std::int32_t node = 0; node < tree.nodes(layer); ++node)
        tasks.push_back({layer, node, 0, 1, work_of(layer, node)});
      work(tasks, 1.0 / tree.depth(), [&](const Task& task, std::size_t worker) {
        amend_node(task, amendment, benches_[worker], merges_[worker]);
      });
    }
    model_.lay_out();
    report = {passes_, kept_ - weights_left_behind(amendment.old, amendment.origins), solved_};
    return std::move(model_);
  }

  TrainedBlock run_block(const SparseRows* matched) {
    take_matched(matched);
    find_rows(block_.layer);
    std::vector<Task> tasks;
    plan(block_, tasks);
    train(tasks, 1.0);
    model_.lay_out();
    TrainedBlock out;
    out.report = {passes_, kept_};
    for (std::int32_t node = block_.first; node < block_.last; ++node) {
      const auto chunk = static_cast<std::size_t>(model_.tree().chunk(block_.layer, node));
      out.shapes.push_back(model_.shapes()[chunk]);
      const unsigned char* bytes = model_.bytes(chunk);
      out.bytes.insert(out.bytes.end(), bytes, bytes + out.shapes.back().bytes);
    }
    return out;
  }

  std::vector<double> work_of_block(const SparseRows* matched) {
    take_matched(matched);
    find_rows(block_.layer);
    std::vector<double> work;
    for (std::int32_t node = block_.first; node < block_.last; ++node) work.push_back(work_of(block_.layer, node));
    return work;
  }

 private:
  // Of what a beam found in all layers above, what concerns the block.
  void take_matched(const SparseRows* matched) {
    if (!matched || block_.layer == 0) return;
    for (std::int64_t row = 0; row < X_.rows; ++row) {
      const auto own = layers_[static_cast<std::size_t>(block_.layer)][row];
      std::vector<std::int32_t> nodes(own.begin(), own.end());
      const SparseRow found = (*matched)[row];
      for (std::int64_t i = 0; i < found.size; ++i)
        if (found.indices[i] >= block_.first && found.indices[i] < block_.last) nodes.push_back(found.indices[i]);
      std::sort(nodes.begin(), nodes.end());
      nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
      matched_.items.insert(matched_.items.end(), nodes.begin(), nodes.end());
      matched_.close_list();
    }
  }

  // Rows that train a node: those that belong to it and, with a matcher, those that the beam sends there.
  void find_rows(int layer) {
    if (layer == 0) {
      Lists& everyone = rows_of_node_[0];
      everyone.items.resize(static_cast<std::size_t>(X_.rows));
      std::iota(everyone.items.begin(), everyone.items.end(), 0);
      everyone.close_list();
    } else {
      Lists nodes = matched_.owners() ? matched_ : layers_[static_cast<std::size_t>(layer)];
      if (!hard_.empty()) nodes = unite(nodes, hard_[static_cast<std::size_t>(layer)]);
      rows_of_node_[static_cast<std::size_t>(layer)] = invert(nodes, model_.tree().nodes(layer));
    }
    if (!options_.normalise) return;
    // A block may concern but a few rows.
    scales_.resize(static_cast<std::size_t>(X_.rows), 0.0f);
    for (const std::int32_t row : rows_of_node_[static_cast<std::size_t>(layer)].items)
      if (float& scale = scales_[static_cast<std::size_t>(row)]; scale == 0.0f) scale = unit_scale(X_[row]);
  }

  // The rows of a node and those that are only asked about there, ascending.
  std::vector<std::int32_t> with_visitors(const Task& task) const {
    const auto own = rows_of_node_[static_cast<std::size_t>(task.layer)][task.node];
    std::vector<std::int32_t> rows;
    if (!held_out_) return {own.begin(), own.end()};
    const auto& visitors = held_out_->visitors(task.node);
    std::set_union(own.begin(), own.end(), visitors.begin(), visitors.end(), std::back_inserter(rows));
    return rows;
  }

  void add_matched(int layer) {
    constexpr std::int64_t kBlock = 512;
    const std::int64_t blocks = (X_.rows + kBlock - 1) / kBlock;
    std::vector<std::vector<std::vector<std::int32_t>>> found(static_cast<std::size_t>(blocks));
    SearchOptions search;
    search.beam = search.k = options_.matcher_beam;
    search.normalise = options_.normalise;
    std::vector<Searcher> searchers(static_cast<std::size_t>(threads_), Searcher(model_));
    parallel_for(static_cast<std::size_t>(blocks), threads_, watch_, [&](std::size_t task, int worker) {
      const std::int64_t begin = static_cast<std::int64_t>(task) * kBlock;
      searchers[static_cast<std::size_t>(worker)].search(
          X_, begin, std::min(X_.rows, begin + kBlock), layer, search, watch_,
          [&](std::int64_t row, const std::vector<Ranked>& best) {
            const auto own = layers_[static_cast<std::size_t>(layer)][row];
            std::vector<std::int32_t> nodes(own.begin(), own.end());
            for (const Ranked& ranked : best) nodes.push_back(ranked.node());
            std::sort(nodes.begin(), nodes.end());
            nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
            found[task].push_back(std::move(nodes));
          });
    });
    matched_ = {};
    for (const auto& block : found)
      for (const auto& nodes : block) {
        matched_.items.insert(matched_.items.end(), nodes.begin(), nodes.end());
        matched_.close_list();
      }
  }

  std::int32_t lanes_of(int layer, std::int32_t node) const {
    return model_.tree().child_begin(layer, node + 1) - model_.tree().child_begin(layer, node);
  }

  double work_of(int layer, std::int32_t node) const {
    double entries = 0;
    for (const std::int32_t row : rows_of_node_[static_cast<std::size_t>(layer)][node])
      entries += static_cast<double>(X_[row].size) + 16;
    return entries * ((lanes_of(layer, node) + kLanes - 1) / kLanes);
  }

  void plan(const Block& block, std::vector<Task>& tasks) {
    const LabelTree& tree = model_.tree();
    const int layer = block.layer;
    double total = 0;
    const std::size_t first = tasks.size();
    for (std::int32_t node = block.first; node < block.last; ++node) {
      const std::int32_t lanes = lanes_of(layer, node);
      const int panels = (lanes + kLanes - 1) / kLanes;
      const double work = work_of(layer, node);
      Draft& draft = drafts_[static_cast<std::size_t>(tree.chunk(layer, node))];
      draft.panels.resize(static_cast<std::size_t>(panels));
      draft.bias.resize(static_cast<std::size_t>(lanes));
      draft.missing = panels;
      tasks.push_back({layer, node, 0, panels, work});
      total += work;
    }
    // A node that would keep one thread busy while the others have nothing left is cut into its panels.
    std::vector<Task> cut;
    for (std::size_t i = first; i < tasks.size(); ++i) {
      const Task task = tasks[i];
      if (task.last_panel == 1 || task.work * 4 * threads_ < total || threads_ == 1) {
        cut.push_back(task);
      } else {
        for (int panel = 0; panel < task.last_panel; ++panel)
          cut.push_back({task.layer, task.node, panel, panel + 1, task.work / task.last_panel});
      }
    }
    tasks.resize(first);
    tasks.insert(tasks.end(), cut.begin(), cut.end());
  }

  void train(std::vector<Task>& tasks, double share) {
    work(tasks, share, [&](const Task& task, std::size_t worker) { run_task(task, benches_[worker]); });
  }

  template <class Run>
  void work(std::vector<Task>& tasks, double share, Run run) {
    std::stable_sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) { return a.work > b.work; });
    double total = 0;
    for (const Task& task : tasks) total += task.work;
    watch_.plan(1.0);
    parallel_for(tasks.size(), threads_, watch_, [&](std::size_t i, int worker) {
      run(tasks[i], static_cast<std::size_t>(worker));
      watch_.advance(share * tasks[i].work / std::max(total, 1.0));
    });
  }

  // Whether something other than a hard negative brings a row to a node.
  bool here_by_right(const Task& task, std::int32_t row) const {
    if (hard_.empty() || task.layer == 0) return true;
    const auto nodes = matched_.owners() ? matched_[row] : layers_[static_cast<std::size_t>(task.layer)][row];
    return std::binary_search(nodes.begin(), nodes.end(), task.node);
  }

  float cost_at(const Task& task, std::int32_t row) const {
    return (costs_ ? costs_[row] : 1.0f) * (here_by_right(task, row) ? 1.0f : options_.negative_share);
  }

  void gather(const Task& task, PanelBench& bench) {
    const std::int64_t chunk = model_.tree().chunk(task.layer, task.node);
    if (bench.gathered == chunk) return;
    bench.gathered = chunk;
    bench.members.clear();
    bench.costs.clear();
    bench.costs_before.clear();
    const auto own = rows_of_node_[static_cast<std::size_t>(task.layer)][task.node];
    for (const std::int32_t row : with_visitors(task)) {
      const bool held = held_out_ && held_out_->has(row);
      float cost = cost_at(task, row);
      if (held && !std::binary_search(own.begin(), own.end(), row)) cost = 0;
      if (cost <= 0 && !held) continue;
      bench.members.push_back(row);
      bench.costs.push_back(cost);
      bench.costs_before.push_back(held ? 0.0f : cost);
    }
    bench.gather(X_, scales_.empty() ? nullptr : scales_.data(), options_.bias);
  }

  void run_task(const Task& task, PanelBench& bench) {
    gather(task, bench);
    const std::size_t chunk = static_cast<std::size_t>(model_.tree().chunk(task.layer, task.node));
    Draft& draft = drafts_[chunk];
    for (int panel = task.first_panel; panel < task.last_panel; ++panel) solve(task, panel, bench, draft);
    const int done = task.last_panel - task.first_panel;
    if (draft.missing.fetch_sub(done, std::memory_order_acq_rel) != done) return;
    ChunkShape shape;
    auto block = pack_chunk(model_.hash(), bench.rows.features(), draft.panels, draft.bias, shape);
    model_.set_chunk(chunk, std::move(block), shape);
    std::int64_t kept = 0;
    for (const PanelWeights& weights : draft.panels) kept += static_cast<std::int64_t>(weights.weights.size());
    kept_ += kept;
    draft.panels = {};
    draft.bias = {};
  }

  void solve(const Task& task, int panel, PanelBench& bench, Draft& draft) {
    const LabelTree& tree = model_.tree();
    const std::int32_t first = tree.child_begin(task.layer, task.node) + panel * kLanes;
    const std::int32_t last = std::min(tree.child_begin(task.layer, task.node + 1), first + kLanes);
    std::int32_t children[kLanes];
    std::iota(children, children + (last - first), first);
    PanelProblem problem = bench.problem(options_, layers_[static_cast<std::size_t>(task.layer) + 1],
                                         {children, static_cast<std::size_t>(last - first)},
                                         seed_of(task, static_cast<std::size_t>(panel)));
    WatchedSolver solver(watch_);
    if (held_out_) {
      problem.costs = bench.costs_before.data();
      solver.solve(problem);
      passes_ += problem.passes;
      ask(task, panel, problem, bench);
      problem.costs = bench.costs.data();
      problem.costs_before = bench.costs_before.data();
    }
    solver.solve(problem);
    passes_ += problem.passes;
    keep_weights(problem, options_.weight_threshold, draft.panels[static_cast<std::size_t>(panel)],
                 draft.bias.data() + panel * kLanes);
  }

  void amend_node(const Task& task, const Amendment& amendment, PanelBench& bench, ChunkMerge& merge) {
    const LabelTree &tree = model_.tree(), &old = amendment.old.tree();
    const auto chunk = static_cast<std::size_t>(tree.chunk(task.layer, task.node));
    const auto below = static_cast<std::size_t>(task.layer);  // of the children's layer, counted from 1
    const std::int32_t first = tree.child_begin(task.layer, task.node);
    const auto lanes = static_cast<std::size_t>(tree.child_begin(task.layer, task.node + 1) - first);

    // Which lanes there were before.
    const std::int32_t before = task.layer == 0 ? 0 : amendment.origins[below - 1][static_cast<std::size_t>(task.node)];
    const std::vector<std::int32_t> old_lane = old_lanes(old, tree, amendment.origins, task.layer, task.node);
    bool same = before >= 0 && old.child_begin(task.layer, before + 1) - old.child_begin(task.layer, before) ==
                                   static_cast<std::int32_t>(lanes);
    for (std::size_t lane = 0; lane < lanes; ++lane) same = same && old_lane[lane] == static_cast<std::int32_t>(lane);

    // How many positive rows each has, and how many of them it was not solved with.
    std::vector<std::int32_t>& solved = amendment.solved[below];
    std::vector<std::int64_t> all(lanes, 0), changed(lanes, 0);
    std::vector<std::int32_t> present;
    const Lists& children = layers_[below + 1];
    for (const std::int32_t row : rows_of_node_[below][task.node]) {
      if (cost_at(task, row) <= 0) continue;
      present.push_back(row);
      const std::int32_t arrived = amendment.arrived[static_cast<std::size_t>(row)];
      const auto nodes = children[row];
      for (auto at = std::lower_bound(nodes.begin(), nodes.end(), first);
           at != nodes.end() && *at < first + static_cast<std::int32_t>(lanes); ++at) {
        ++all[static_cast<std::size_t>(*at - first)];
        if (arrived > solved[static_cast<std::size_t>(*at)]) ++changed[static_cast<std::size_t>(*at - first)];
      }
    }
    std::vector<std::int32_t> again;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const std::size_t child = static_cast<std::size_t>(first) + lane;
      if (!lost_.empty()) changed[lane] += lost_[below + 1][child];
      const bool much =
          changed[lane] > 0 &&
          static_cast<double>(changed[lane]) >= static_cast<double>(amendment.renewal) * static_cast<double>(all[lane]);
      if (old_lane[lane] < 0 || much) {
        again.push_back(static_cast<std::int32_t>(lane));
        solved[child] = amendment.now;
      }
    }
    if (same && again.empty()) {
      const auto from = static_cast<std::size_t>(old.chunk(task.layer, before));
      const unsigned char* bytes = amendment.old.bytes(from);
      const ChunkShape& shape = amendment.old.shapes()[from];
      model_.set_chunk(chunk, {bytes, bytes + shape.bytes}, shape);
      return;
    }

    merge.start(X_.columns, lanes);
    if (before >= 0) merge.take_old(amendment.old.chunk(task.layer, before), old_lane);
    if (!again.empty()) solve_again(task, present, again, bench, merge);
    ChunkShape shape;
    auto block = merge.pack(model_.hash(), shape);
    model_.set_chunk(chunk, std::move(block), shape);
    kept_ += merge.weights() - merge.old_weights();
    solved_ += static_cast<std::int64_t>(again.size());
  }

  // Solves some lanes of a node; all of them give what training gives.
  void solve_again(const Task& task, const std::vector<std::int32_t>& rows, const std::vector<std::int32_t>& lanes,
                   PanelBench& bench, ChunkMerge& merge) {
    bench.members = rows;
    bench.costs.clear();
    for (const std::int32_t row : rows) bench.costs.push_back(cost_at(task, row));
    bench.gather(X_, scales_.empty() ? nullptr : scales_.data(), options_.bias);
    std::vector<PanelWeights> panels;
    std::vector<float> bias(lanes.size());
    WatchedSolver solver(watch_);
    for (std::size_t from = 0; from < lanes.size(); from += kLanes) {
      std::vector<std::int32_t> children;
      for (std::size_t i = from; i < std::min(lanes.size(), from + kLanes); ++i)
        children.push_back(model_.tree().child_begin(task.layer, task.node) + lanes[i]);
      PanelProblem problem = bench.problem(options_, layers_[static_cast<std::size_t>(task.layer) + 1], children,
                                           seed_of(task, panels.size()));
      solver.solve(problem);
      passes_ += problem.passes;
      keep_weights(problem, options_.weight_threshold, panels.emplace_back(), bias.data() + from);
    }
    merge.replace(lanes, bench.rows.features(), std::move(panels), bias);
  }

  std::uint64_t seed_of(const Task& task, std::size_t panel) const {
    return options_.seed ^ (static_cast<std::uint64_t>(model_.tree().chunk(task.layer, task.node)) << 16 | panel);
  }

  // Scores the visitors of a node by the weights so far, as they would be stored.
  void ask(const Task& task, int panel, const PanelProblem& problem, PanelBench& bench) {
    const SparseRows rows = bench.rows.view();
    const std::size_t width = static_cast<std::size_t>(problem.width);
    bench.rounded.resize(bench.weights.size());
    const std::size_t features = static_cast<std::size_t>(rows.columns) * width;
    for (std::size_t i = 0; i < features; ++i) {
      const float weight = bench.weights[i];
      bench.rounded[i] = std::fabs(weight) < options_.weight_threshold ? 0.0f : from_bfloat16(to_bfloat16(weight));
    }
    const float* bias = bench.weights.data() + features;
    float dots[kLanes];
    const auto& visitors = held_out_->visitors(task.node);
    for (std::size_t i = 0; i < bench.members.size(); ++i) {
      const std::int32_t row = bench.members[i];
      if (!std::binary_search(visitors.begin(), visitors.end(), row)) continue;
      const SparseRow x = rows[static_cast<std::int64_t>(i)];
      kernels().dot_panel(x.indices, x.values, x.size, bench.rounded.data(), problem.width, dots);
      float* scores = held_out_->scores(task.node, row) + panel * kLanes;
      for (int lane = 0; lane < problem.lanes; ++lane) scores[lane] = dots[lane] + bias[lane] * options_.bias;
    }
  }

  const SparseRows& X_;
  const float* costs_;
  const TrainOptions& options_;
  int threads_;
  Watch& watch_;
  TreeModel model_;
  Block block_;
  std::vector<Lists> layers_;
  std::vector<Lists> hard_;
  std::vector<Lists> rows_of_node_;
  Lists matched_;
  std::unique_ptr<HeldOut> held_out_;
  std::vector<float> scales_;
  std::vector<Draft> drafts_;
  std::vector<PanelBench> benches_;
  std::vector<ChunkMerge> merges_;
  std::vector<std::vector<std::int32_t>> lost_;  // of each node of each layer, rows that were positive before
  std::atomic<std::int64_t> passes_{0};
  std::atomic<std::int64_t> kept_{0};
  std::atomic<std::int64_t> solved_{0};
};

void check_block(const LabelTree& tree, const Block& block, const SparseRows& X, const SparseRows* matched) {
  if (block.layer < 0 || block.layer >= tree.depth())
    throw std::invalid_argument("the tree has no inner layer " + std::to_string(block.layer));
  if (block.first < 0 || block.first >= block.last || block.last > tree.nodes(block.layer))
    throw std::invalid_argument("layer " + std::to_string(block.layer) + " has no block of nodes from " +
                                std::to_string(block.first) + " to " + std::to_string(block.last));
  if (matched && matched->rows != X.rows)
    throw std::invalid_argument("the beam was run for " + std::to_string(matched->rows) + " rows, but X has " +
                                std::to_string(X.rows));
}

}  // namespace

TreeModel amend(const SparseRows& X, const SparseRows& Y, LabelTree tree, const float* costs,
                const SparseRows* negatives, const Amendment& amendment, const TrainOptions& options, int threads,
                Watch& watch, TrainReport& report) {
  if (amendment.old.members() != 1 || amendment.old.parts() != 1)
    throw std::invalid_argument("only a tree of one member in one part can be amended");
  const Block whole{0, 0, 1};
  const int lowest = tree.depth();
  return Trainer(X, Y, std::move(tree), costs, negatives, options, threads, watch, whole, lowest)
      .run_amended(amendment, report);
}

TrainedBlock train_block(const SparseRows& X, const SparseRows& Y, LabelTree tree, const float* costs,
                         const SparseRows* negatives, const SparseRows* matched, const Block& block,
                         const TrainOptions& options, int threads, Watch& watch) {
  check_block(tree, block, X, matched);
  if (options.matcher_beam > 0 && block.layer > 0 && !matched)
    throw std::invalid_argument("below the root, a matcher needs what the beam finds in the layers above");
  return Trainer(X, Y, std::move(tree), costs, negatives, options, threads, watch, block, block.layer + 1)
      .run_block(matched);
}

std::vector<double> work_of_layer(const SparseRows& X, const SparseRows& Y, LabelTree tree, const SparseRows* negatives,
                                  const SparseRows* matched, int layer) {
  check_block(tree, {layer, 0, 1}, X, matched);
  const Block block{layer, 0, tree.nodes(layer)};
  TrainOptions options;
  options.normalise = false;
  Watch watch;
  return Trainer(X, Y, std::move(tree), nullptr, negatives, options, 1, watch, block, layer + 1).work_of_block(matched);
}

TreeModel train(const SparseRows& X, const SparseRows& Y, LabelTree tree, const float* costs,
                const SparseRows* negatives, const TrainOptions& options, int threads, Watch& watch,
                TrainReport& report) {
  const Block whole{0, 0, 1};
  const int lowest = tree.depth();
  return Trainer(X, Y, std::move(tree), costs, negatives, options, threads, watch, whole, lowest).run(report);
}

TreeModel train_asked(const SparseRows& X, const SparseRows& Y, LabelTree tree, const float* costs,
                      const TrainOptions& options, const HeldOutRows& held_out, int threads, Watch& watch,
                      TrainReport& report, HeldOutVotes& votes) {
  const Block whole{0, 0, 1};
  const int lowest = tree.depth();
  Trainer trainer(X, Y, std::move(tree), costs, nullptr, options, threads, watch, whole, lowest);
  trainer.hold_out(held_out);
  TreeModel model = trainer.run(report);
  votes = trainer.take_votes();
  return model;
}

}  // namespace hedgerow
