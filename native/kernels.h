// The inner loops, compiled once for each SIMD level.
//
// Plain pointers and numbers only: no inline function of a header may be used by kernels.cpp (see CMakeLists.txt).
#pragma once

#include <cstddef>
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
  const float* squared_norms;      // of the rows, bias included
  const float* costs;              // per row; 0 leaves the row out
  const std::uint16_t* positives;  // per row, a bit for each lane
  float bias;
  float positive_cost;  // C of positive rows
  float negative_cost;
  float tolerance;
  int max_passes;
  Loss loss;
  std::uint64_t seed;

  const float* costs_before;   // of an earlier solution with fewer rows, to go on from; null starts from nothing
  float* weights;              // zeroed by the caller, or to go on from; the result
  float* duals;                // rows × width, zeroed by the caller, or to go on from
  std::uint16_t* awake;        // rows, scratch: lanes that still want the row
  std::int32_t* order;         // rows, scratch
  float* totals;               // features + 1, scratch
  bool (*should_stop)(void*);  // asked every few thousand rows
  void* stop_context;

  int passes;  // result
};

// One cache line of the table that leads from a feature to its row (native/chunk.h tells the layout).
struct Bucket {
  static constexpr int kSlots = 14;
  std::uint16_t keys[kSlots];
  std::uint16_t spots[kSlots];  // where the row starts after `base`, in units, shifted by 2; its kind in the low bits
  std::uint32_t base;
  std::uint32_t overflows;  // 1: some rows of this bucket had to move on to the next
};
static_assert(sizeof(Bucket) == 64);

enum RowKind : std::uint32_t { kPairRow = 0, kMaskedRow = 1, kDenseRow = 2, kNoRow = 3 };

// A chunk of weights: the classifiers of all children of one node.
struct ChunkView {
  const float* bias;  // groups × 16
  const Bucket* buckets;
  const unsigned char* payload;
  std::uint32_t lanes;
  std::uint32_t groups;
  std::uint32_t homes;         // buckets that features hash to
  std::uint32_t bucket_count;  // and a few more for the overflow of the last
  int hash_bits;
  int unit_shift;
  const std::uint32_t* expected = nullptr;  // codes of the features that nearly every input has, if there are any
};

// Rows of a chunk that an input hits, by kind, and the input's values there. Scratch; each list has room for the
// input's features and kHitsSlack more.
struct Hits {
  std::uint32_t* codes;  // for each feature, the code of its row
  std::uint32_t* offsets[kNoRow];
  float* values[kNoRow];
  std::int64_t counts[kNoRow];
};
inline constexpr std::int64_t kHitsSlack = 16;

// The code of a row: where it lies in the payload, and its kind in the top two bits.
inline constexpr int kCodeKindShift = 30;
inline constexpr std::uint32_t kNoCode = 0xffffffffu;

// Which rows of a chunk each pass of a dropout leaves out: a row draws an entry of `masks` by chance, 32 bits a word, a
// bit for each pass.
struct Thinning {
  static constexpr int kEntryBits = 12, kPassesAtOnce = 32;
  const std::uint32_t* masks;
  int words;  // of an entry
  int passes;
  float scale;  // of what a pass keeps
  std::uint32_t seed;
};

// Where the measures of uncertainty of some labels go.
struct Measures {
  float* probability;
  float* total;
  float* data;
  float* knowledge;
  float* variance;
};

struct ExactMeasures {
  double* probability;
  double* total;
  double* data;
  double* knowledge;
  double* variance;
};

inline constexpr int kMeasures = 5;

// Candidates that a judge hears of at once, and the most numbers that it sees of one; see judge.h. What it says is kept
// within these log-odds, so that floats can tell it from certainty.
inline constexpr int kJudgedAtOnce = 16, kMostSeen = 8;
inline constexpr double kMostSurprise = 4.4;
inline constexpr float kLeastLogOdds = -20.0f, kMostLogOdds = 13.5f;

// Some candidates, one in each lane of kJudgedAtOnce.
struct JudgeLanes {
  const float* coefficients;
  const float* range;
  int seen, members;
  float* evidence;  // `seen` rows: nothing yet, what each scorer says, the logarithm of the frequency
  float* votes;     // a row for each member; what they say becomes what they say after the judge
};

struct Kernels {
  const char* level;
  void (*solve_panel)(PanelProblem& problem);
  // dots[l] = sum over entries of values[i] * table[indices[i]][l], width lanes (8 or 16)
  void (*dot_panel)(const std::int32_t* indices, const float* values, std::int64_t size, const float* table, int width,
                    float* dots);
  // The rows of a chunk that an input hits; `hashes` are the input's feature hashes. The last `expected` of its
  // features are those that the chunk expects.
  void (*find_hits)(const ChunkView& chunk, const std::uint32_t* hashes, const float* values, std::int64_t size,
                    std::int64_t expected, Hits& hits);
  // Sets table[numbers[hash]] to the code of the row for every row of a chunk. There is one number more than hashes,
  // and what table[that number] becomes means nothing.
  void (*fill_table)(const ChunkView& chunk, const std::uint32_t* numbers, std::uint32_t* table);
  // The rows that an input hits from a table with the code of each row; `numbers` are the places of the input's
  // features in it.
  void (*look_up_hits)(const ChunkView& chunk, const std::uint32_t* table, const std::uint32_t* numbers,
                       const float* values, std::int64_t size, Hits& hits);
  // sums[entry >> 16] += value times the bfloat16 in the low half of the entry
  void (*add_listed)(const std::uint32_t* entries, float value, std::uint32_t size, float* sums);
  // The same for all sums: word i of 16 has the bfloat16 of sum i in its low half and that of sum i + 16 in the high
  // one
  void (*add_whole)(const std::uint32_t* words, float value, std::uint32_t size, float* sums);
  // Logits of all lanes; `logits` has room for 16 lanes a group, and an even number of groups.
  void (*score_chunk)(const ChunkView& chunk, const Hits& hits, float* logits);
  // Logits in each pass of a dropout. Pass p is at logits + p · stride; `dropped`, one for each pass up to
  // kPassesAtOnce and each with room for as much as `hits`, and `whole` are scratch, and so are the codes of `hits`.
  void (*score_thinned)(const ChunkView& chunk, const Hits& hits, const Thinning& thinning, std::size_t stride,
                        Hits* dropped, float* whole, float* logits);
  // logs[i] = parent + log of the transformed logit; may be in place
  void (*log_probabilities)(const float* logits, std::int64_t size, float parent, Transform transform, float* logs);
  // logs[i] = exp(logs[i]), in place
  void (*exponentials)(float* logs, std::int64_t size);
  // out[i] = log of the mean over members of exp(logs[m · stride + i])
  void (*log_means)(const float* logs, std::size_t stride, int members, std::int64_t size, float* out);
  // The measures of uncertainty of `size` labels whose members' log-probabilities are logs[m · stride + i].
  void (*measure)(const float* logs, std::size_t stride, int members, std::int64_t size, const Measures& out);
  // The same of labels whose members' probabilities are probs[i · members + m]; `sums` gets the sums of the measures
  // over all labels. `room` is scratch for 16 · (members + 3) floats.
  void (*measure_votes)(const float* probs, int members, std::int64_t size, const Measures& out, double* sums,
                        float* room);
  // The same in double precision.
  void (*measure_exactly)(const float* probs, int members, std::int64_t size, const ExactMeasures& out, double* sums,
                          float* room);
  // How many values are above the threshold, and how many equal it.
  void (*count_at_least)(const float* values, std::int64_t size, float threshold, std::int64_t& above,
                         std::int64_t& equal);
  // Adds counts[i] · exp(logs[i]) over all entries.
  void (*add_missed)(const float* logs, const float* counts, std::int64_t size, double& mass);
  // Positions of the values >= threshold, in order; returns how many.
  std::int64_t (*select_at_least)(const float* values, std::int64_t size, float threshold, std::uint32_t* positions);
  void (*judge_lanes)(const JudgeLanes& lanes);
  // The members' probabilities of kJudgedAtOnce candidates, a row for each member, moved to where the log-odds are.
  void (*move_lanes)(const float* log_odds, float* votes, int members);
  // The same where their mean is to be `wanted`, from 0 to 1.
  void (*move_means)(const float* wanted, float* votes, int members);
  // masks[f] = the lanes in use whose weight is not within the threshold and not 0; what is no number is kept.
  void (*mark_kept)(const float* weights, std::int64_t features, int width, int lanes, float threshold,
                    std::uint16_t* masks);
  // dots[i] = sum over j of vectors[i · width + j] · query[j], in integers; `query` has numbers of a byte, too.
  void (*dot_bytes)(const std::int8_t* vectors, std::int64_t rows, std::int64_t width, const std::int16_t* query,
                    std::int32_t* dots);
};

// The best kernels this machine can run, or those named by HEDGEROW_SIMD (baseline, v3, v4, v4_vbmi2).
const Kernels& kernels();

}  // namespace hedgerow
