// Characters: what they are, their lower case, and how UTF-8 holds them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "unicode_tables.h"

namespace hedgerow {

inline constexpr std::uint32_t kMalformed = 0xfffd;
inline constexpr std::uint32_t kCapitalSigma = 0x3a3, kSmallSigma = 0x3c3, kFinalSigma = 0x3c2;
inline constexpr std::uint32_t kCapitalDottedI = 0x130, kCombiningDot = 0x307;

// The ranges of unicode_tables.h unfolded to one load a character. Pages that no range touches cost no memory.
class Characters {
 public:
  static const Characters& get() {
    static const Characters table;
    return table;
  }

  bool word(std::uint32_t c) const { return (at(c) & kWord) != 0; }
  bool cased(std::uint32_t c) const { return (at(c) & kCased) != 0; }
  bool ignorable(std::uint32_t c) const { return (at(c) & kIgnorable) != 0; }
  // On another character; no word character itself.
  bool mark(std::uint32_t c) const { return (at(c) & kMark) != 0; }
  // Of a script that puts no spaces between words.
  bool unspaced(std::uint32_t c) const { return (at(c) & kUnspaced) != 0; }
  std::uint32_t lower(std::uint32_t c) const { return c + static_cast<std::uint32_t>(deltas_[at(c) >> kDeltaShift]); }

 private:
  static constexpr std::uint16_t kWord = 1, kCased = 2, kIgnorable = 4, kUnspaced = 8, kMark = 16;
  static constexpr int kDeltaShift = 5;
  static_assert(std::size(unicode::lower) < 1 << (16 - kDeltaShift), "a record has 16 bits");

  Characters();

  std::uint16_t at(std::uint32_t c) const { return c < kCodePoints ? records_[c] : 0; }

  static constexpr std::uint32_t kCodePoints = 0x110000;
  static std::array<std::uint16_t, kCodePoints> records_;
  std::array<std::int32_t, std::size(unicode::lower) + 1> deltas_{};
};

inline bool continues(unsigned char byte) { return (byte & 0xc0) == 0x80; }

// Reads the character at `at` and moves behind it.
inline std::uint32_t decode(const unsigned char*& at, const unsigned char* end) {
  const unsigned char lead = *at++;
  if (lead < 0x80) return lead;
  const int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
  if (lead < 0xc0 || lead > 0xf7 || end - at < more) return kMalformed;
  std::uint32_t c = lead & (0x3fu >> more);
  for (int i = 0; i < more; ++i) {
    if (!continues(at[i])) return kMalformed;
    c = (c << 6) | (at[i] & 0x3fu);
  }
  at += more;
  return c;
}

// `to` has room for 4 bytes.
inline char* encode(std::uint32_t c, char* to) {
  const auto byte = [](std::uint32_t bits) { return static_cast<char>(static_cast<unsigned char>(bits)); };
  if (c < 0x80) {
    *to++ = byte(c);
  } else if (c < 0x800) {
    *to++ = byte(0xc0 | (c >> 6));
    *to++ = byte(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    *to++ = byte(0xe0 | (c >> 12));
    *to++ = byte(0x80 | ((c >> 6) & 0x3f));
    *to++ = byte(0x80 | (c & 0x3f));
  } else {
    *to++ = byte(0xf0 | (c >> 18));
    *to++ = byte(0x80 | ((c >> 12) & 0x3f));
    *to++ = byte(0x80 | ((c >> 6) & 0x3f));
    *to++ = byte(0x80 | (c & 0x3f));
  }
  return to;
}

// The lower case of the capital sigma at `sigma`, which depends on its neighbours in [begin, end); `behind` is the
// character after it.
std::uint32_t lower_sigma(const Characters& characters, const unsigned char* begin, const unsigned char* sigma,
                          const unsigned char* behind, const unsigned char* end);

}  // namespace hedgerow
