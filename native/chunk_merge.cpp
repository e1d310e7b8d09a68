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
  features_.clear();
  panels_.assign((lanes + kLanes - 1) / kLanes, {});
  words_.assign(panels_.size() * kLanes, 0);
  masks_.assign(panels_.size(), 0);
  weights_ = 0;
}

void ChunkMerge::take_old(std::vector<ChunkEntry> entries, std::span<const float> bias,
                          std::span<const std::int32_t> old_lane) {
  entries_ = std::move(entries);
  new_lane_.assign(bias.size(), -1);
  for (std::size_t lane = 0; lane < old_lane.size(); ++lane) {
    if (old_lane[lane] < 0) continue;
    new_lane_[static_cast<std::size_t>(old_lane[lane])] = static_cast<std::int32_t>(lane);
    bias_[lane] = bias[static_cast<std::size_t>(old_lane[lane])];
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

void ChunkMerge::add(std::int32_t lane, std::uint16_t weight) {
  words_[static_cast<std::size_t>(lane)] = weight;
  std::uint16_t& mask = masks_[static_cast<std::size_t>(lane) / kLanes];
  mask = static_cast<std::uint16_t>(mask | 1u << lane % kLanes);
}

// The weights of a feature, whose old ones are the entries from `first` to `last` - 1.
void ChunkMerge::emit(std::int32_t feature, std::size_t first, std::size_t last) {
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
  features_.push_back(feature);
  for (std::size_t p = 0; p < panels_.size(); ++p) {
    panels_[p].masks.push_back(masks_[p]);
    for (unsigned bits = masks_[p]; bits; bits &= bits - 1)
      panels_[p].weights.push_back(words_[p * kLanes + static_cast<std::size_t>(std::countr_zero(bits))]);
    weights_ += std::popcount(masks_[p]);
    masks_[p] = 0;
  }
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
  return pack_chunk(hash, features_, panels_, bias_, shape);
}

}  // namespace hedgerow
