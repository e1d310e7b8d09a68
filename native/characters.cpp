#include "characters.h"

namespace hedgerow {

std::array<std::uint16_t, Characters::kCodePoints> Characters::records_;

Characters::Characters() {
  const auto mark = [](const auto& ranges, std::uint16_t flag) {
    for (const auto& range : ranges)
      for (std::uint32_t c = range.first; c <= range.last; ++c) records_[c] |= flag;
  };
  mark(unicode::word, kWord);
  mark(unicode::cased, kCased);
  mark(unicode::ignorable, kIgnorable);
  mark(unicode::unspaced, kUnspaced);
  mark(unicode::mark, kMark);
  std::size_t used = 1;  // deltas_[0] is 0: no change
  for (const auto& range : unicode::lower) {
    deltas_[used] = range.delta;
    for (std::uint32_t c = range.first; c <= range.last; c += range.step)
      records_[c] = static_cast<std::uint16_t>(records_[c] | (used << kDeltaShift));
    ++used;
  }
}

// Final_Sigma of the Unicode standard: a cased character before, none behind, case-ignorable ones skipped. Every
// character is looked at by at most two sigmas, as a sigma itself stops the search.
std::uint32_t lower_sigma(const Characters& characters, const unsigned char* begin, const unsigned char* sigma,
                          const unsigned char* behind, const unsigned char* end) {
  bool cased_before = false;
  for (const unsigned char* at = sigma; at > begin && !cased_before;) {
    const unsigned char* before = at - 1;
    while (before > begin && continues(*before)) --before;
    const unsigned char* read = before;
    const std::uint32_t c = decode(read, at);
    if (!characters.ignorable(c)) {
      if (!characters.cased(c)) break;
      cased_before = true;
    }
    at = before;
  }
  if (!cased_before) return kSmallSigma;
  while (behind < end) {
    const std::uint32_t c = decode(behind, end);
    if (characters.ignorable(c)) continue;
    return characters.cased(c) ? kSmallSigma : kFinalSigma;
  }
  return kFinalSigma;
}

}  // namespace hedgerow
