// The inner loops, compiled once for each SIMD level.
//
// Plain pointers and numbers only: no inline function of a header may be used by kernels.cpp (see CMakeLists.txt).
#pragma once

#include <cstdint>

namespace hedgerow {

inline constexpr int kLanes = 16;  // lanes of a group: one AVX-512 register of floats

enum class Loss : int { squared_hinge = 0, logistic = 1 };
enum class Transform : int { l3_hinge = 0, sigmoid = 1 };

// One panel of binary problems over the same rows: lane l asks whether a row belongs to child l.
// Features are renumbered from 0; `weights` has (features + 1) × width entries, the last row being the bias.
struct PanelProblem {
  std::int32_t rows;
  std::int32_t features;
  int lanes;  // lanes in use
  int width;  // lanes in memory: 8 or 16
  const std::int64_t* indptr;
  const std::int32_t* indices;
  const float* values;
  const float* squared_norms;        // of the rows, bias included
  const float* costs;                // per row; 0 leaves the row out
  const std::uint16_t* positives;    // per row, a bit for each lane
  float bias;
  float positive_cost;  // C of positive rows
  float negative_cost;
  float tolerance;
  int max_passes;
  Loss loss;
  std::uint64_t seed;

  float* weights;           // zeroed by the caller; the result
  float* duals;             // rows × width, scratch
  std::uint16_t* awake;     // rows, scratch: lanes that still want the row
  std::int32_t* order;      // rows, scratch
  float* totals;            // features + 1, scratch
  bool (*should_stop)(void*);  // asked every few thousand rows
  void* stop_context;

  int passes;           // result
  std::int64_t visits;  // result: rows looked at, over all passes
};

// A chunk of weights: the classifiers of all children of one node (native/chunk.h tells the layout).
struct ChunkView {
  const float* bias;               // groups × 16
  const std::uint32_t* directory;  // buckets + 1
  const std::uint32_t* offsets;    // rows + 1, kind of the row in the top two bits
  const std::uint16_t* keys;       // rows
  const unsigned char* payload;
  std::uint32_t lanes;
  std::uint32_t groups;
  int bucket_shift;
};

inline constexpr std::uint32_t kRowKindShift = 30;
inline constexpr std::uint32_t kRowOffsetMask = (1u << kRowKindShift) - 1;
enum RowKind : std::uint32_t { kListRow = 0, kMaskedRow = 1, kDenseRow = 2 };

// A row of a chunk that an input hits, and the input's value there.
struct Hit {
  std::uint32_t offset;
  float value;
};

struct Kernels {
  const char* level;
  void (*solve_panel)(PanelProblem& problem);
  // dots[l] = sum over entries of values[i] * table[indices[i]][l], width lanes (8 or 16)
  void (*dot_panel)(const std::int32_t* indices, const float* values, std::int64_t size, const float* table, int width,
                    float* dots);
  // Logits of all lanes of a chunk for one input; `hashes` are the input's feature hashes, `hits` is scratch for
  // 4 × size, `logits` has room for groups × 16.
  void (*score_chunk)(const ChunkView& chunk, const std::uint32_t* hashes, const float* values, std::int64_t size,
                      Hit* hits, float* logits);
  // logits[i] = parent + log of the transformed logit, in place
  void (*log_probabilities)(float* logits, std::int64_t size, float parent, Transform transform);
  // logs[i] = exp(logs[i]), in place
  void (*exponentials)(float* logs, std::int64_t size);
  // Positions of the values >= threshold, in order; returns how many.
  std::int64_t (*select_at_least)(const float* values, std::int64_t size, float threshold, std::uint32_t* positions);
};

// The best kernels this machine can run, or those named by HEDGEROW_SIMD (baseline, v3, v4).
const Kernels& kernels();

}  // namespace hedgerow
