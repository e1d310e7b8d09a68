#include "chunk_merge.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace hedgerow {

void ChunkMerge::start(std::int64_t features, std::size_t lanes) {
  new_lane_.clear();
  entries_.clear();
  bias_.assign(lanes, 0.0f);
  replaced_.assign(lanes, false);
  again_.clear();
  again_features_.clear();
  again_weights_.clear();
  starts_.clear();
  place_.resize(static_cast<std::size_t>(features), -1);  // all are -1 again after `pack`
  grown_.clear();
}

void ChunkMerge::take_old(const ChunkView& chunk, std::span<const std::int32_t> old_lane) {
  unpack_chunk(chunk, entries_);
  new_lane_.assign(chunk.lanes, -1);
  for (std::size_t lane = 0; lane < old_lane.size(); ++lane) {
    if (old_lane[lane] < 0) continue;
    new_lane_[static_cast<std::size_t>(old_lane[lane])] = static_cast<std::int32_t>(lane);
    bias_[lane] = chunk.bias[old_lane[lane]];
  }
}

void ChunkMerge::replace(std::span<const std::int32_t> lanes, std::span<const std::int32_t> features,
                         std::vector<PanelWeights> panels, std::span<const float> bias) {
  again_.assign(lanes.begin(), lanes.end());
  again_features_.assign(features.begin(), features.end());
  again_weights_ = std::move(panels);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    replaced_[static_cast<std::size_t>(lanes[i])] = true;
    bias_[static_cast<std::size_t>(lanes[i])] = bias[i];
  }
  for (std::size_t i = 0; i < features.size(); ++i)
    place_[static_cast<std::size_t>(features[i])] = static_cast<std::int32_t>(i);
  for (const PanelWeights& panel : again_weights_) {
    std::vector<std::uint32_t>& starts = starts_.emplace_back(features.size());
    std::uint32_t next = 0;
    for (std::size_t f = 0; f < features.size(); ++f) {
      starts[f] = next;
      next += static_cast<std::uint32_t>(std::popcount(panel.masks[f]));
    }
  }
}

void ChunkMerge::replace_with(std::span<const std::int32_t> lanes, const SparseRows& weights,
                              std::span<const std::int64_t> rows) {
  std::vector<std::int32_t> features;
  for (const std::int64_t row : rows) {
    const SparseRow own = weights[row];
    features.insert(features.end(), own.indices, own.indices + own.size);
  }
  std::sort(features.begin(), features.end());
  features.erase(std::unique(features.begin(), features.end()), features.end());
  std::vector<PanelWeights> panels((lanes.size() + kLanes - 1) / kLanes);
  for (std::size_t p = 0; p < panels.size(); ++p) {
    std::vector<std::uint64_t> found;  // feature, lane and weight
    for (std::size_t i = p * kLanes; i < std::min(lanes.size(), (p + 1) * kLanes); ++i) {
      const SparseRow own = weights[rows[i]];
      for (std::int64_t j = 0; j < own.size; ++j) {
        const auto at = std::lower_bound(features.begin(), features.end(), own.indices[j]) - features.begin();
        found.push_back(static_cast<std::uint64_t>(at) << 32 | std::uint64_t{i % kLanes} << 16 |
                        to_bfloat16(own.values[j]));
      }
    }
    std::sort(found.begin(), found.end());
    panels[p].masks.assign(features.size(), 0);
    for (const std::uint64_t one : found) {
      std::uint16_t& mask = panels[p].masks[static_cast<std::size_t>(one >> 32)];
      mask = static_cast<std::uint16_t>(mask | 1u << (one >> 16 & 0xffff));
      panels[p].weights.push_back(static_cast<std::uint16_t>(one & 0xffff));
    }
  }
  replace(lanes, features, std::move(panels), std::vector<float>(lanes.size(), 0.0f));
}

// The weights of a feature, whose old ones are the entries from `first` to `last` - 1.
void ChunkMerge::emit(std::int32_t feature, std::size_t first, std::size_t last) {
  row_.clear();
  const auto add = [&](std::int32_t lane, std::uint16_t weight) {
    row_.push_back(std::uint64_t{static_cast<std::uint32_t>(lane)} << 16 | weight);
  };
  for (std::size_t i = first; i < last; ++i) {
    const std::int32_t lane = new_lane_[entries_[i].lane];
    if (lane >= 0 && !replaced_[static_cast<std::size_t>(lane)]) add(lane, to_bfloat16(entries_[i].weight));
  }
  std::int32_t& place = place_[static_cast<std::size_t>(feature)];
  if (place >= 0) {
    const auto at = static_cast<std::size_t>(place);
    for (std::size_t p = 0; p < again_weights_.size(); ++p) {
      const std::uint16_t* weight = again_weights_[p].weights.data() + starts_[p][at];
      for (unsigned bits = again_weights_[p].masks[at]; bits; bits &= bits - 1)
        add(again_[p * kLanes + static_cast<std::size_t>(std::countr_zero(bits))], *weight++);
    }
    place = -1;
  }
  if (row_.empty()) return;
  std::sort(row_.begin(), row_.end());
  grown_.open(feature);
  for (const std::uint64_t one : row_)
    grown_.add(static_cast<std::uint32_t>(one >> 16), static_cast<std::uint16_t>(one & 0xffff));
}

std::vector<unsigned char> ChunkMerge::pack(const FeatureHash& hash, ChunkShape& shape) {
  for (std::size_t first = 0; first < entries_.size();) {
    std::size_t last = first + 1;
    while (last < entries_.size() && entries_[last].feature == entries_[first].feature) ++last;
    emit(entries_[first].feature, first, last);
    first = last;
  }
  for (const std::int32_t feature : again_features_)
    if (place_[static_cast<std::size_t>(feature)] >= 0) emit(feature, 0, 0);
  return pack_features(hash, grown_, bias_, shape);
}

}  // namespace hedgerow
