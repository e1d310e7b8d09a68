// Fits the classifiers of a label tree.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "held_out.h"
#include "kernels.h"
#include "memberships.h"
#include "parallel.h"
#include "scratch.h"
#include "sparse.h"
#include "tree_model.h"

namespace hedgerow {

struct TrainOptions {
  Loss loss = Loss::squared_hinge;
  float cost = 1.0f;           // C
  float positive_cost = 1.0f;  // factor on C for rows that have the label
  float negative_cost = 1.0f;
  float bias = 1.0f;
  float tolerance = 0.1f;
  int max_passes = 100;
  float weight_threshold = 1e-3f;  // smaller weights are dropped
  std::int32_t matcher_beam = 0;   // > 0: also train a node on the inputs whose beam of this width reaches it
  float negative_share = 1.0f;  // cost of a row at a node where only a hard negative brings it, relative to the others
  bool normalise = true;
  std::uint64_t seed = 0;
  Scratch scratch = {};  // for copies of rows that are too large for memory
};

struct TrainReport {
  std::int64_t passes = 0;   // over all panels
  std::int64_t weights = 0;  // kept; of an amended model, how many more than before
  std::int64_t solved = 0;   // classifiers that an amended model solved again
};

// `Y` holds, for every row of X, its labels; labels outside the tree are ignored. `costs`, if not null, multiplies C
// for each row; 0 leaves the row out. `negatives`, if not null, holds labels that are wrong for a row but hard to tell:
// the row also trains the nodes on the way to them.
TreeModel train(const SparseRows& X, const SparseRows& Y, LabelTree tree, const float* costs,
                const SparseRows* negatives, const TrainOptions& options, int threads, Watch& watch,
                TrainReport& report);

// Rows, ascending, that the model is asked about before it is trained on them, and their labels of interest, if any.
struct HeldOutRows {
  std::span<const std::int32_t> rows;
  const SparseRows* candidates = nullptr;
};

// As `train`; `votes` gets what the model said of the rows that were held out. Being asked, they do change it a little:
// what is solved with them starts from what was solved without them.
TreeModel train_asked(const SparseRows& X, const SparseRows& Y, LabelTree tree, const float* costs,
                      const TrainOptions& options, const HeldOutRows& held_out, int threads, Watch& watch,
                      TrainReport& report, HeldOutVotes& votes);

// What has changed since an older model was trained. A node's layer counts from 1, right below the root.
struct Amendment {
  const TreeModel& old;
  Origins origins;
  // Of each row: the number of the update that brought it, or its labels; 0 has been there from the start.
  std::span<const std::int32_t> arrived;
  // For each layer, of each node: the update that solved its classifier from nothing. Set for those solved now.
  std::vector<std::vector<std::int32_t>>& solved;
  std::int32_t now;        // the number of this update
  const SparseRows* lost;  // labels that rows had before, or null
  float renewal;           // a classifier is solved again when this share of its positive rows has changed
};

// The older model brought up to date. Classifiers of which many positive rows changed, and new ones, are solved from
// nothing with all rows of their node; the others keep their weights. Both trees may differ in labels and leaves; a
// classifier is new where its node has another parent. `X`, `Y` and `costs` are those of all rows.
TreeModel amend(const SparseRows& X, const SparseRows& Y, LabelTree tree, const float* costs,
                const SparseRows* negatives, const Amendment& amendment, const TrainOptions& options, int threads,
                Watch& watch, TrainReport& report);

// The chunks of a block, one after the other: the same bytes that they have in the whole model.
struct TrainedBlock {
  std::vector<ChunkShape> shapes;  // `begin` counts from the first chunk of the block
  std::vector<unsigned char> bytes;
  TrainReport report;
};

// As `train`, for a block only. A matcher looks at the layers above, which are not here: below the root `matched` then
// holds, for every row, the nodes of the block's layer that the beam finds. Throws std::invalid_argument when the
// tree has no such block, or when `matched` is missing or does not fit.
TrainedBlock train_block(const SparseRows& X, const SparseRows& Y, LabelTree tree, const float* costs,
                         const SparseRows* negatives, const SparseRows* matched, const Block& block,
                         const TrainOptions& options, int threads, Watch& watch);

// How much there is to do for each node of a layer: features of its rows, times panels of children.
std::vector<double> work_of_layer(const SparseRows& X, const SparseRows& Y, LabelTree tree, const SparseRows* negatives,
                                  const SparseRows* matched, int layer);

}  // namespace hedgerow
