// A matrix as it enters, whatever its arrays hold:
//
//   u8 flags · u8 rows · u16 entries · i32 columns · i64[rows + 1] indptr · i32[entries] indices · f32[entries] values
//
// Faults are found as a plain walk over the arrays finds them. A sound matrix is hashed, searched with and trained on;
// values too large for that are refused. What was trained passes the checks of a model file.
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include "beam_search.h"
#include "fuzz_target.h"
#include "label_tree.h"
#include "row_hash.h"
#include "sparse.h"
#include "trainer.h"
#include "uncertainty.h"

using namespace hedgerow;

namespace {

constexpr std::int64_t kFeatures = 64;
constexpr std::int32_t kLabels = 6;
enum Flags : std::uint8_t { kIndicator = 1, kTrain = 2, kLogistic = 4, kAsIs = 8, kMatcher = 16 };

// Labels of rows: row i has label i modulo kLabels, and that of its square.
struct RowLabels {
  std::vector<std::int64_t> indptr{0};
  std::vector<std::int32_t> indices;

  explicit RowLabels(std::int64_t rows) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto one = static_cast<std::int32_t>(row % kLabels), two = static_cast<std::int32_t>(row * row % kLabels);
      indices.push_back(std::min(one, two));
      if (one != two) indices.push_back(std::max(one, two));
      indptr.push_back(static_cast<std::int64_t>(indices.size()));
    }
  }
  SparseRows view() const {
    return {static_cast<std::int64_t>(indptr.size()) - 1, kLabels, indptr.data(), indices.data(), nullptr};
  }
};

TreeModel trained(const SparseRows& X, const TrainOptions& options) {
  const RowLabels Y(X.rows);
  Watch watch;
  TrainReport report;
  return train(X, Y.view(), LabelTree({{0, 2}, {0, 3, 6}}, {4, 0, 3, 1, 5, 2}), nullptr, nullptr, options, 1, watch,
               report);
}

// A model to search in, the same in every run.
const TreeModel& sound_model() {
  static const TreeModel model = [] {
    OwnedRows rows{{0}, {}, {}, kFeatures};
    for (std::int32_t row = 0; row < 24; ++row) {
      for (std::int32_t i = row % 5; i < kFeatures; i += 3 + row % kLabels) {
        rows.indices.push_back(i);
        rows.values.push_back(0.25f * static_cast<float>(1 + (row * i) % 7));
      }
      rows.indptr.push_back(static_cast<std::int64_t>(rows.indices.size()));
    }
    return trained(rows.view(), {});
  }();
  return model;
}

SparseFault::Kind walk(const SparseRows& matrix, std::int64_t entries) {
  if (matrix.indptr[0] != 0) return SparseFault::indptr;
  for (std::int64_t row = 0; row < matrix.rows; ++row)
    if (matrix.indptr[row + 1] < matrix.indptr[row] || matrix.indptr[row + 1] > entries) return SparseFault::indptr;
  SparseFault::Kind found = SparseFault::none;
  for (std::int64_t row = 0; row < matrix.rows; ++row)
    for (std::int64_t i = matrix.indptr[row]; i < matrix.indptr[row + 1]; ++i) {
      const std::int32_t column = matrix.indices[i];
      if (column < 0 || column >= matrix.columns) return SparseFault::index_range;
      if (matrix.values && !std::isfinite(matrix.values[i])) return SparseFault::not_finite;
      if (i == matrix.indptr[row] || matrix.indices[i - 1] < column) continue;
      if (matrix.indices[i - 1] == column) return SparseFault::duplicate;
      found = SparseFault::order;
    }
  return found;
}

void check_search(const TreeModel& model, const SparseRows& X, bool normalise) {
  constexpr std::int32_t k = 3;
  const auto room = static_cast<std::size_t>(X.rows * k);
  std::vector<float> probabilities(room);
  Watch watch;
  try {
    for (const bool best_first : {false, true}) {
      std::vector<std::int32_t> labels(room, -1);
      top_labels(model, X, {.beam = 1, .k = k, .normalise = normalise, .best_first = best_first}, 1, watch,
                 labels.data(), probabilities.data());
      for (std::size_t i = 0; i < room; ++i) {
        require(labels[i] >= 0 && labels[i] < kLabels);
        require(probabilities[i] >= 0 && probabilities[i] <= 1);
        require(i % k == 0 || probabilities[i] <= probabilities[i - 1]);
      }
    }
    const Forest forest({&model}, kLabels, std::nullopt);
    const VoteArrays votes = collect_votes(forest, X, k, {.beam = 1, .normalise = normalise}, {}, 1, watch);
    for (const float p : votes.probabilities) require(p >= 0 && p <= 1);
    for (const float bound : votes.bound) require(bound >= 0 && bound <= 1);
  } catch (const std::invalid_argument&) {
  }
}

void check_training(const SparseRows& X, std::uint8_t flags) {
  TrainOptions options;
  options.loss = flags & kLogistic ? Loss::logistic : Loss::squared_hinge;
  options.normalise = !(flags & kAsIs);
  options.matcher_beam = flags & kMatcher ? 1 : 0;
  options.max_passes = 20;
  std::optional<TreeModel> model;
  try {
    model.emplace(trained(X, options));
  } catch (const std::domain_error&) {
    return;
  } catch (const std::invalid_argument&) {
    return;
  }
  for (std::size_t chunk = 0; chunk < model->shapes().size(); ++chunk)
    validate_chunk(view_chunk(model->bytes(chunk), model->shapes()[chunk], model->hash()), model->shapes()[chunk]);
  check_search(*model, X, options.normalise);
}

}  // namespace

int run_target(std::span<const std::uint8_t> input) {
  InputReader reader(input);
  const auto flags = reader.number<std::uint8_t>();
  const auto rows = std::size_t{reader.number<std::uint8_t>()};
  const auto entries = std::size_t{reader.number<std::uint16_t>()};
  const auto columns = reader.number<std::int32_t>();
  const auto indptr = reader.numbers<std::int64_t>(rows + 1);
  const auto indices = reader.numbers<std::int32_t>(entries);
  const auto values = reader.numbers<float>(indices.size());
  // As the bindings refuse it.
  if (indptr.size() != rows + 1 || values.size() != indices.size() || columns < 0) return -1;
  const SparseRows X{static_cast<std::int64_t>(rows), columns, indptr.data(), indices.data(),
                     flags & kIndicator ? nullptr : values.data()};

  const SparseFault fault = find_fault(X, static_cast<std::int64_t>(indices.size()), 1);
  require(fault.kind == walk(X, static_cast<std::int64_t>(indices.size())));
  if (fault.kind != SparseFault::none) {
    require(fault.row >= 0 && fault.row < std::max<std::int64_t>(X.rows, 1));
    return 0;
  }
  std::vector<std::uint64_t> one(rows), two(rows);
  hash_rows(X, 1, one.data());
  hash_rows(X, 2, two.data());
  require(one == two);
  if (flags & kIndicator || columns != kFeatures) return 0;
  check_search(sound_model(), X, !(flags & kAsIs));
  if (flags & kTrain && rows > 0) check_training(X, flags);
  return 0;
}
