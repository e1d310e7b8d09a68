#include "chunk.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>

namespace hedgerow {

static_assert(std::endian::native == std::endian::little, "model files are little-endian");

namespace {

constexpr std::size_t kSpareKeys = 8;
constexpr std::size_t kSpareBytes = 64;
constexpr std::uint32_t kMultiplier = 0x9e3779b1u;
// A masked row is half as fast as a dense one for the same lanes and smaller by up to this share of empty lanes.
constexpr double kDenseShare = 0.7;

std::uint32_t inverse_multiplier() {
  std::uint32_t inverse = kMultiplier;  // Newton's iteration doubles the correct low bits
  for (int i = 0; i < 5; ++i) inverse *= 2u - kMultiplier * inverse;
  return inverse;
}

std::size_t list_bytes(unsigned count) { return 1 + 3 * std::size_t{count}; }
std::size_t masked_bytes(unsigned count, unsigned groups) { return 2 * std::size_t{groups} + 2 * std::size_t{count}; }
std::size_t dense_bytes(unsigned groups) { return 32 * std::size_t{groups}; }

RowKind kind_of(unsigned count, unsigned lanes, unsigned groups) {
  if (count >= kDenseShare * lanes) return kDenseRow;
  const bool lists_reach = lanes <= 256 && count <= 255;
  return lists_reach && list_bytes(count) <= masked_bytes(count, groups) ? kListRow : kMaskedRow;
}

// Where lane `lane` of a dense row lies, in words: full pairs of groups are interleaved, a last odd group is not.
std::size_t dense_word(unsigned lane, unsigned groups) {
  const unsigned group = lane / 16, within = lane % 16;
  if (group == groups - 1 && groups % 2 == 1) return std::size_t{16} * group + within;
  return std::size_t{32} * (group / 2) + 2 * within + group % 2;
}

struct Parts {
  std::size_t directory, offsets, keys, payload;
};

Parts parts_of(std::uint64_t groups, std::uint64_t buckets, std::uint64_t rows) {
  Parts p;
  p.directory = groups * 64;
  p.offsets = p.directory + 4 * (buckets + 1);
  p.keys = p.offsets + 4 * (rows + 1);
  p.payload = p.keys + 2 * (rows + kSpareKeys);
  return p;
}

template <class T>
void put(unsigned char* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

template <class T>
T get(const unsigned char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

}  // namespace

FeatureHash::FeatureHash(std::int64_t features)
    : bits_(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(features - 1, 1))))),
      mask_(bits_ == 32 ? 0xffffffffu : (1u << bits_) - 1) {}

std::uint16_t to_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float from_bfloat16(std::uint16_t word) { return std::bit_cast<float>(static_cast<std::uint32_t>(word) << 16); }

std::vector<unsigned char> pack_chunk(const FeatureHash& hash, std::span<const std::int32_t> features,
                                      std::span<const PanelWeights> panels, std::span<const float> bias,
                                      ChunkShape& shape) {
  const unsigned lanes = static_cast<unsigned>(bias.size());
  const unsigned groups = static_cast<unsigned>(panels.size());

  // Where each feature's weights start in each panel, and how many lanes it has in all.
  struct Row {
    std::uint32_t hash;
    std::uint32_t local;
    std::uint32_t count;
  };
  std::vector<Row> rows;
  std::vector<std::uint32_t> starts(features.size() * groups);
  std::vector<std::uint32_t> next(groups, 0);
  for (std::uint32_t f = 0; f < features.size(); ++f) {
    std::uint32_t count = 0;
    for (unsigned g = 0; g < groups; ++g) {
      starts[std::size_t{f} * groups + g] = next[g];
      const auto here = static_cast<std::uint32_t>(std::popcount(panels[g].masks[f]));
      next[g] += here;
      count += here;
    }
    if (count) rows.push_back({hash(features[f]), f, count});
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.hash < b.hash; });

  // One or two rows a bucket, and few enough bits left for a 16-bit key.
  const int wanted = static_cast<int>(std::bit_width(rows.size() / 2));
  const int bucket_bits = std::clamp(wanted, std::max(0, hash.bits() - 16), hash.bits());
  const int shift = hash.bits() - bucket_bits;
  const std::size_t buckets = std::size_t{1} << bucket_bits;

  std::size_t payload_bytes = 0;
  for (const Row& row : rows) {
    switch (kind_of(row.count, lanes, groups)) {
      case kListRow: payload_bytes += list_bytes(row.count); break;
      case kMaskedRow: payload_bytes += masked_bytes(row.count, groups); break;
      case kDenseRow: payload_bytes += dense_bytes(groups); break;
    }
  }
  if (payload_bytes > kRowOffsetMask)
    throw std::length_error("a node of the label tree has too many weights (over 1 GB); use a smaller leaf_size or branching");

  const Parts parts = parts_of(groups, buckets, rows.size());
  const std::size_t bytes = (parts.payload + payload_bytes + kSpareBytes + 63) / 64 * 64;
  std::vector<unsigned char> block(bytes, 0);
  for (unsigned lane = 0; lane < lanes; ++lane) put(&block[4 * std::size_t{lane}], bias[lane]);

  std::size_t at = 0, bucket = 0;
  unsigned char* payload = block.data() + parts.payload;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const Row& row = rows[r];
    for (const std::size_t own = row.hash >> shift; bucket <= own; ++bucket)
      put(&block[parts.directory + 4 * bucket], static_cast<std::uint32_t>(r));
    put(&block[parts.keys + 2 * r], static_cast<std::uint16_t>(row.hash & ((1u << shift) - 1)));
    const RowKind kind = kind_of(row.count, lanes, groups);
    put(&block[parts.offsets + 4 * r], static_cast<std::uint32_t>(at) | kind << kRowKindShift);

    unsigned char* out = payload + at;
    std::size_t n = 0;
    if (kind == kListRow) out[0] = static_cast<unsigned char>(row.count);
    for (unsigned g = 0; g < groups; ++g) {
      const std::uint16_t mask = panels[g].masks[row.local];
      const std::uint16_t* weights = panels[g].weights.data() + starts[std::size_t{row.local} * groups + g];
      if (kind == kMaskedRow) put(out + 2 * g, mask);
      unsigned i = 0;
      for (unsigned bits = mask; bits; bits &= bits - 1, ++i, ++n) {
        const unsigned lane = 16 * g + static_cast<unsigned>(std::countr_zero(bits));
        if (kind == kListRow) {
          out[1 + n] = static_cast<unsigned char>(lane);
          put(out + 1 + row.count + 2 * n, weights[i]);
        } else if (kind == kMaskedRow) {
          put(out + 2 * groups + 2 * n, weights[i]);
        } else {
          put(out + 2 * dense_word(lane, groups), weights[i]);
        }
      }
    }
    at += kind == kListRow ? list_bytes(row.count)
                           : kind == kMaskedRow ? masked_bytes(row.count, groups) : dense_bytes(groups);
  }
  for (; bucket <= buckets; ++bucket)
    put(&block[parts.directory + 4 * bucket], static_cast<std::uint32_t>(rows.size()));
  put(&block[parts.offsets + 4 * rows.size()], static_cast<std::uint32_t>(at));

  shape = {0, bytes, lanes, static_cast<std::uint32_t>(rows.size()), static_cast<std::uint32_t>(bucket_bits)};
  return block;
}

ChunkView view_chunk(const unsigned char* data, const ChunkShape& shape, const FeatureHash& hash) {
  const int bucket_bits = static_cast<int>(shape.bucket_bits);
  if (shape.lanes == 0 || bucket_bits > hash.bits() || bucket_bits < hash.bits() - 16)
    throw std::invalid_argument("chunk with an impossible shape");
  const std::uint64_t groups = (std::uint64_t{shape.lanes} + 15) / 16;
  const Parts parts = parts_of(groups, std::uint64_t{1} << bucket_bits, shape.rows);
  if (parts.payload + kSpareBytes > shape.bytes) throw std::invalid_argument("chunk shorter than its parts");
  ChunkView view;
  view.bias = reinterpret_cast<const float*>(data);
  view.directory = reinterpret_cast<const std::uint32_t*>(data + parts.directory);
  view.offsets = reinterpret_cast<const std::uint32_t*>(data + parts.offsets);
  view.keys = reinterpret_cast<const std::uint16_t*>(data + parts.keys);
  view.payload = data + parts.payload;
  view.lanes = shape.lanes;
  view.groups = static_cast<std::uint32_t>(groups);
  view.bucket_shift = hash.bits() - bucket_bits;
  return view;
}

void validate_chunk(const ChunkView& chunk, const ChunkShape& shape, const FeatureHash& hash) {
  const std::size_t buckets = std::size_t{1} << shape.bucket_bits;
  const std::size_t room = shape.bytes - kSpareBytes - parts_of(chunk.groups, buckets, shape.rows).payload;
  const auto require = [](bool fine, const char* what) {
    if (!fine) throw std::invalid_argument(what);
  };
  for (std::uint32_t lane = 0; lane < 16 * chunk.groups; ++lane)
    require(std::isfinite(chunk.bias[lane]), "chunk with a bias that is not finite");
  require(chunk.directory[0] == 0 && chunk.directory[buckets] == shape.rows, "chunk with a broken directory");
  for (std::size_t b = 0; b < buckets; ++b)
    require(chunk.directory[b] <= chunk.directory[b + 1], "chunk with a broken directory");
  const std::uint32_t key_limit = 1u << chunk.bucket_shift;
  require((chunk.offsets[shape.rows] & kRowOffsetMask) <= room, "chunk with rows past its end");
  const auto finite = [](const unsigned char* word) { return (get<std::uint16_t>(word) & 0x7f80) != 0x7f80; };
  for (std::uint32_t r = 0; r < shape.rows; ++r) {
    require(chunk.keys[r] < key_limit, "chunk with a key out of range");
    const std::size_t begin = chunk.offsets[r] & kRowOffsetMask;
    const std::size_t end = chunk.offsets[r + 1] & kRowOffsetMask;
    require(begin <= end && end <= room, "chunk with rows out of order");
    const unsigned char* row = chunk.payload + begin;
    const std::size_t length = end - begin;
    std::size_t first_weight = 0, weights = 0;
    switch (chunk.offsets[r] >> kRowKindShift) {
      case kListRow:
        require(length >= 1 && length == list_bytes(row[0]), "chunk with a broken list row");
        for (unsigned i = 0; i < row[0]; ++i) require(row[1 + i] < shape.lanes, "chunk with a lane out of range");
        weights = row[0];
        first_weight = 1 + weights;
        break;
      case kMaskedRow: {
        require(length >= 2 * std::size_t{chunk.groups}, "chunk with a broken masked row");
        for (std::uint32_t g = 0; g < chunk.groups; ++g) {
          const std::uint16_t mask = get<std::uint16_t>(row + 2 * g);
          if (16 * (g + 1) > shape.lanes)
            require(mask >> (shape.lanes - 16 * g) == 0, "chunk with a lane out of range");
          weights += static_cast<std::size_t>(std::popcount(mask));
        }
        first_weight = 2 * std::size_t{chunk.groups};
        require(length == first_weight + 2 * weights, "chunk with a broken masked row");
        break;
      }
      case kDenseRow:
        require(length == dense_bytes(chunk.groups), "chunk with a broken dense row");
        weights = length / 2;
        break;
      default: require(false, "chunk with a row of unknown kind");
    }
    for (std::size_t i = 0; i < weights; ++i)
      require(finite(row + first_weight + 2 * i), "chunk with a weight that is not finite");
  }
  (void)hash;
}

std::vector<ChunkEntry> unpack_chunk(const ChunkView& chunk, const ChunkShape& shape, const FeatureHash& hash) {
  const std::uint32_t mask = hash.bits() == 32 ? 0xffffffffu : (1u << hash.bits()) - 1;
  const std::uint32_t inverse = inverse_multiplier();
  std::vector<ChunkEntry> entries;
  const std::size_t buckets = std::size_t{1} << shape.bucket_bits;
  for (std::size_t b = 0; b < buckets; ++b) {
    for (std::uint32_t r = chunk.directory[b]; r < chunk.directory[b + 1]; ++r) {
      const std::uint32_t hashed = static_cast<std::uint32_t>(b << chunk.bucket_shift) | chunk.keys[r];
      const auto feature = static_cast<std::int32_t>((hashed * inverse) & mask);
      const unsigned char* row = chunk.payload + (chunk.offsets[r] & kRowOffsetMask);
      const auto add = [&](std::uint32_t lane, const unsigned char* word) {
        const float weight = from_bfloat16(get<std::uint16_t>(word));
        if (weight != 0) entries.push_back({feature, lane, weight});
      };
      switch (chunk.offsets[r] >> kRowKindShift) {
        case kListRow:
          for (unsigned i = 0; i < row[0]; ++i) add(row[1 + i], row + 1 + row[0] + 2 * i);
          break;
        case kMaskedRow: {
          const unsigned char* word = row + 2 * chunk.groups;
          for (std::uint32_t g = 0; g < chunk.groups; ++g)
            for (unsigned bits = get<std::uint16_t>(row + 2 * g); bits; bits &= bits - 1, word += 2)
              add(16 * g + static_cast<unsigned>(std::countr_zero(bits)), word);
          break;
        }
        default:
          for (std::uint32_t lane = 0; lane < chunk.lanes; ++lane) add(lane, row + 2 * dense_word(lane, chunk.groups));
      }
    }
  }
  return entries;
}

}  // namespace hedgerow
