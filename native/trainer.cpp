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

#include "aligned.h"
#include "beam_search.h"
#include "local_rows.h"

namespace hedgerow {

namespace {

struct Task {
  int layer;
  std::int32_t node;
  int first_panel, last_panel;
  double work;
};

// What one worker keeps from task to task.
struct Bench {
  LocalRows rows;
  std::int64_t gathered = -1;  // chunk whose rows are in `rows`
  std::vector<std::int32_t> members;
  std::vector<float> costs, squared_norms, totals;
  Aligned<float> weights, duals;
  std::vector<float> costs_before;
  Aligned<float> rounded;  // with rows held out
  std::vector<std::uint16_t> positives, awake;
  std::vector<std::int32_t> order;
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
    for (Bench& bench : benches_) bench.rows.spill_to(options.scratch);
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
      work(tasks, 1.0);
    } else {
      for (int layer = 0; layer < depth; ++layer) {
        if (layer > 0 && options_.matcher_beam > 0) add_matched(layer);
        find_rows(layer);
        std::vector<Task> tasks;
        plan({layer, 0, model_.tree().nodes(layer)}, tasks);
        work(tasks, 1.0 / depth);
        if (held_out_) held_out_->descend();
      }
    }
    model_.lay_out();
    report.passes = passes_;
    report.weights = kept_;
    return std::move(model_);
  }

  TrainedBlock run_block(const SparseRows* matched) {
    take_matched(matched);
    find_rows(block_.layer);
    std::vector<Task> tasks;
    plan(block_, tasks);
    work(tasks, 1.0);
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

  void work(std::vector<Task>& tasks, double share) {
    std::stable_sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) { return a.work > b.work; });
    double total = 0;
    for (const Task& task : tasks) total += task.work;
    watch_.plan(1.0);
    parallel_for(tasks.size(), threads_, watch_, [&](std::size_t i, int worker) {
      run_task(tasks[i], benches_[static_cast<std::size_t>(worker)]);
      watch_.advance(share * tasks[i].work / std::max(total, 1.0));
    });
  }

  // Whether something other than a hard negative brings a row to a node.
  bool here_by_right(const Task& task, std::int32_t row) const {
    if (hard_.empty() || task.layer == 0) return true;
    const auto nodes = matched_.owners() ? matched_[row] : layers_[static_cast<std::size_t>(task.layer)][row];
    return std::binary_search(nodes.begin(), nodes.end(), task.node);
  }

  void gather(const Task& task, Bench& bench) {
    const std::int64_t chunk = model_.tree().chunk(task.layer, task.node);
    if (bench.gathered == chunk) return;
    bench.gathered = chunk;
    bench.members.clear();
    bench.costs.clear();
    bench.costs_before.clear();
    const auto own = rows_of_node_[static_cast<std::size_t>(task.layer)][task.node];
    for (const std::int32_t row : with_visitors(task)) {
      const bool held = held_out_ && held_out_->has(row);
      float cost = (costs_ ? costs_[row] : 1.0f) * (here_by_right(task, row) ? 1.0f : options_.negative_share);
      if (held && !std::binary_search(own.begin(), own.end(), row)) cost = 0;
      if (cost <= 0 && !held) continue;
      bench.members.push_back(row);
      bench.costs.push_back(cost);
      bench.costs_before.push_back(held ? 0.0f : cost);
    }
    bench.rows.gather(X_, bench.members, scales_.empty() ? nullptr : scales_.data());
    const SparseRows rows = bench.rows.view();
    bench.squared_norms.resize(bench.members.size());
    for (std::int64_t i = 0; i < rows.rows; ++i) {
      const SparseRow x = rows[i];
      float square = options_.bias * options_.bias;
      for (std::int64_t j = 0; j < x.size; ++j) square += x.values[j] * x.values[j];
      bench.squared_norms[static_cast<std::size_t>(i)] = square;
    }
  }

  void run_task(const Task& task, Bench& bench) {
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

  void solve(const Task& task, int panel, Bench& bench, Draft& draft) {
    const LabelTree& tree = model_.tree();
    const std::int32_t first = tree.child_begin(task.layer, task.node) + panel * kLanes;
    const std::int32_t last = std::min(tree.child_begin(task.layer, task.node + 1), first + kLanes);
    const SparseRows rows = bench.rows.view();

    PanelProblem problem{};
    problem.rows = static_cast<std::int32_t>(rows.rows);
    problem.features = static_cast<std::int32_t>(rows.columns);
    problem.lanes = last - first;
    problem.width = problem.lanes <= 8 ? 8 : 16;
    problem.indptr = rows.indptr;
    problem.indices = rows.indices;
    problem.values = rows.values;
    problem.squared_norms = bench.squared_norms.data();
    problem.costs = bench.costs.data();
    problem.bias = options_.bias;
    problem.positive_cost = options_.cost * options_.positive_cost;
    problem.negative_cost = options_.cost * options_.negative_cost;
    problem.tolerance = options_.tolerance;
    problem.max_passes = options_.max_passes;
    problem.loss = options_.loss;
    problem.seed = options_.seed ^
                   (static_cast<std::uint64_t>(tree.chunk(task.layer, task.node)) << 16 | static_cast<unsigned>(panel));

    const std::size_t count = static_cast<std::size_t>(rows.rows), width = static_cast<std::size_t>(problem.width);
    bench.positives.assign(count, 0);
    const Lists& children = layers_[static_cast<std::size_t>(task.layer) + 1];
    for (std::size_t i = 0; i < count; ++i) {
      const auto nodes = children[bench.members[i]];
      for (auto at = std::lower_bound(nodes.begin(), nodes.end(), first); at != nodes.end() && *at < last; ++at)
        bench.positives[i] = static_cast<std::uint16_t>(bench.positives[i] | 1u << (*at - first));
    }
    problem.positives = bench.positives.data();
    bench.weights.assign((static_cast<std::size_t>(rows.columns) + 1) * width, 0.0f);
    bench.duals.assign(count * width, 0.0f);
    bench.awake.resize(count);
    bench.order.resize(count);
    problem.weights = bench.weights.data();
    problem.duals = bench.duals.data();
    problem.awake = bench.awake.data();
    problem.order = bench.order.data();
    bench.totals.resize(static_cast<std::size_t>(rows.columns) + 1);
    problem.totals = bench.totals.data();

    struct Stop {
      Watch& watch;
      std::exception_ptr reason;
    } stop{watch_, nullptr};
    problem.stop_context = &stop;
    problem.should_stop = [](void* context) {
      auto& here = *static_cast<Stop*>(context);
      try {
        here.watch.check();
        return false;
      } catch (...) {
        here.reason = std::current_exception();
        return true;
      }
    };
    if (held_out_) {
      problem.costs = bench.costs_before.data();
      kernels().solve_panel(problem);
      passes_ += problem.passes;
      if (!stop.reason) ask(task, panel, problem, bench);
      problem.costs = bench.costs.data();
      problem.costs_before = bench.costs_before.data();
    }
    if (!stop.reason) kernels().solve_panel(problem);
    if (stop.reason) std::rethrow_exception(stop.reason);
    passes_ += problem.passes;

    PanelWeights& out = draft.panels[static_cast<std::size_t>(panel)];
    out.masks.resize(static_cast<std::size_t>(rows.columns));
    kernels().mark_kept(bench.weights.data(), rows.columns, problem.width, problem.lanes, options_.weight_threshold,
                        out.masks.data());
    std::size_t kept = 0;
    for (const std::uint16_t mask : out.masks) kept += static_cast<std::size_t>(std::popcount(mask));
    out.weights.reserve(kept);
    for (std::size_t f = 0; f < out.masks.size(); ++f)
      for (unsigned bits = out.masks[f]; bits; bits &= bits - 1) {
        const float weight = bench.weights[f * width + static_cast<std::size_t>(std::countr_zero(bits))];
        require_finite(weight);
        out.weights.push_back(to_bfloat16(weight));
      }
    for (int lane = 0; lane < problem.lanes; ++lane) {
      const float bias =
          bench.weights[static_cast<std::size_t>(rows.columns) * width + static_cast<std::size_t>(lane)] *
          options_.bias;
      require_finite(bias);
      draft.bias[static_cast<std::size_t>(panel * kLanes + lane)] = bias;
    }
  }

  // Scores the visitors of a node by the weights so far, as they would be stored.
  void ask(const Task& task, int panel, const PanelProblem& problem, Bench& bench) {
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

  static void require_finite(float weight) {
    if (!std::isfinite(weight))
      throw std::domain_error(
          "features, costs or the bias are too large for float32; scale them down, or use normalize=True");
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
  std::vector<Bench> benches_;
  std::atomic<std::int64_t> passes_{0};
  std::atomic<std::int64_t> kept_{0};
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
