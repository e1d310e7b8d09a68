// The tree and the chunks of weights as a model file has them, past its checksums:
//
//   u8 depth · u8 members · u8 parts · u8 transform · u32 features · for each layer u16 length, i32[length] begins ·
//   u16 length, i32[length] labels · u16 rows, u64[rows][6] table of chunks · the weights, all that is left
//
// Either it is refused, or every search in it stays within its bytes and finds labels that it has.
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>

#include "beam_search.h"
#include "fuzz_target.h"
#include "uncertainty.h"

using namespace hedgerow;

namespace {

constexpr std::int32_t kMostLabels = 1 << 12;

// Memory of exactly this size, so that a read past its end is seen; aligned as sections are.
class Section {
 public:
  explicit Section(std::span<const std::uint8_t> bytes)
      : data_(static_cast<unsigned char*>(::operator new(bytes.size(), std::align_val_t{64}))) {
    std::copy(bytes.begin(), bytes.end(), data_);
  }
  ~Section() { ::operator delete(data_, std::align_val_t{64}); }
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;
  const unsigned char* data() const { return data_; }

 private:
  unsigned char* data_;
};

// A row with the first features, one with every third, one with the last, and an empty one.
struct Inputs {
  std::vector<std::int64_t> indptr{0};
  std::vector<std::int32_t> indices;
  std::vector<float> values;

  explicit Inputs(std::int64_t features) {
    constexpr std::int64_t most = 200;
    const std::int64_t firsts[] = {0, 0, std::max<std::int64_t>(features - most, 0), features};
    const std::int64_t steps[] = {1, 3, 1, 1};
    for (int row = 0; row < 4; ++row) {
      for (std::int64_t i = firsts[row]; i < std::min(features, firsts[row] + most); i += steps[row]) {
        indices.push_back(static_cast<std::int32_t>(i));
        values.push_back(i % 2 ? 0.5f : -1.0f);
      }
      indptr.push_back(static_cast<std::int64_t>(indices.size()));
    }
  }
};

void check_search(const TreeModel& model, const SparseRows& X) {
  const auto& labels = model.tree().labels();
  const auto k = static_cast<std::int32_t>(std::min<std::size_t>(labels.size(), 5));
  const auto room = static_cast<std::size_t>(X.rows * k);
  std::vector<bool> known(kMostLabels);
  for (const std::int32_t label : labels) known[static_cast<std::size_t>(label)] = true;
  const auto require_known = [&](const std::vector<std::int32_t>& found) {
    for (const std::int32_t label : found)
      require(label >= 0 && label < kMostLabels && known[static_cast<std::size_t>(label)]);
  };
  Watch watch;
  if (model.members() == 1) {
    std::vector<float> probabilities(room);
    for (const bool best_first : {false, true}) {
      std::vector<std::int32_t> found(room, -1);
      top_labels(model, X, {.beam = 2, .k = k, .normalise = true, .best_first = best_first}, 1, watch, found.data(),
                 probabilities.data());
      require_known(found);
    }
  }
  const Forest forest({&model}, kMostLabels, std::nullopt);
  for (const Missing missing : {Missing::exact, Missing::bound}) {
    std::vector<std::int32_t> found(room, -1);
    std::vector<float> of_labels(5 * room), of_inputs(7 * static_cast<std::size_t>(X.rows));
    float* const m = of_labels.data();
    float* const i = of_inputs.data();
    const std::int64_t n = X.rows;
    measure_uncertainty(forest, X, k, {.beam = 2, .top = 0, .missing = missing}, {}, 1, watch,
                        {found.data(), {m, m + room, m + 2 * room, m + 3 * room, m + 4 * room}},
                        {i, i + n, i + 2 * n, i + 3 * n, i + 4 * n, i + 5 * n, i + 6 * n, nullptr});
    require_known(found);
  }
}

}  // namespace

int run_target(std::span<const std::uint8_t> input) {
  InputReader reader(input);
  const int depth = reader.number<std::uint8_t>() % 9;
  const int members = reader.number<std::uint8_t>();
  const int parts = reader.number<std::uint8_t>();
  const auto transform = static_cast<Transform>(reader.number<std::uint8_t>() % 2);
  const auto features = static_cast<std::int64_t>(reader.number<std::uint32_t>());
  // As the bindings refuse it.
  if (members < 1 || parts < 1 || parts > 3 || features < 1 || features > INT32_MAX) return -1;
  std::vector<std::vector<std::int32_t>> begins;
  for (int layer = 0; layer < depth; ++layer)
    begins.push_back(reader.numbers<std::int32_t>(reader.number<std::uint16_t>()));
  auto labels = reader.numbers<std::int32_t>(reader.number<std::uint16_t>());
  for (const std::int32_t label : labels)
    if (label >= kMostLabels) return -1;
  const auto table = reader.numbers<std::uint64_t>(std::size_t{6} * reader.number<std::uint16_t>());
  std::vector<ChunkShape> shapes;
  for (std::size_t i = 0; i + 6 <= table.size(); i += 6) {
    const std::uint64_t* row = table.data() + i;
    if (row[2] > INT32_MAX || row[3] > INT32_MAX || row[4] > INT32_MAX || row[5] > 32) return -1;
    shapes.push_back({row[0], row[1], static_cast<std::uint32_t>(row[2]), static_cast<std::uint32_t>(row[3]),
                      static_cast<std::uint32_t>(row[4]), static_cast<std::uint32_t>(row[5])});
  }
  const Section weights(reader.rest());

  Watch watch;
  try {
    TreeModel model(LabelTree(std::move(begins), std::move(labels)), features, transform, members, parts,
                    std::move(shapes), weights.data(), reader.rest().size(), true, 1, watch);
    const Inputs inputs(features);
    const SparseRows X{4, features, inputs.indptr.data(), inputs.indices.data(), inputs.values.data()};
    check_search(model, X);
    for (std::size_t chunk = 0; chunk < model.shapes().size(); ++chunk) {
      const ChunkView view = view_chunk(model.bytes(chunk), model.shapes()[chunk], model.hash());
      for (const ChunkEntry& entry : unpack_chunk(view))
        require(entry.lane < view.lanes && std::isfinite(entry.weight));
    }
    const std::int64_t shared = std::max<std::int64_t>(features - 100, 0);
    model.expect({shared, shared, features}, 1, watch);
    check_search(model, X);
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
