#include "tokens.h"

#include <array>

#include "unicode_tables.h"

namespace hedgerow {

namespace {

constexpr std::uint32_t kMalformed = 0xfffd;
constexpr std::uint32_t kCapitalSigma = 0x3a3, kSmallSigma = 0x3c3, kFinalSigma = 0x3c2, kCapitalDottedI = 0x130;

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
  std::uint32_t lower(std::uint32_t c) const { return c + static_cast<std::uint32_t>(deltas_[at(c) >> kDeltaShift]); }

 private:
  static constexpr std::uint16_t kWord = 1, kCased = 2, kIgnorable = 4;
  static constexpr int kDeltaShift = 3;

  Characters() {
    const auto mark = [](const auto& ranges, std::uint16_t flag) {
      for (const auto& range : ranges)
        for (std::uint32_t c = range.first; c <= range.last; ++c) records_[c] |= flag;
    };
    mark(unicode::word, kWord);
    mark(unicode::cased, kCased);
    mark(unicode::ignorable, kIgnorable);
    std::size_t used = 1;  // deltas_[0] is 0: no change
    for (const auto& range : unicode::lower) {
      deltas_[used] = range.delta;
      for (std::uint32_t c = range.first; c <= range.last; c += range.step)
        records_[c] = static_cast<std::uint16_t>(records_[c] | (used << kDeltaShift));
      ++used;
    }
  }

  std::uint16_t at(std::uint32_t c) const { return c < kCodePoints ? records_[c] : 0; }

  static constexpr std::uint32_t kCodePoints = 0x110000;
  static std::array<std::uint16_t, kCodePoints> records_;
  std::array<std::int32_t, std::size(unicode::lower) + 1> deltas_{};
};

std::array<std::uint16_t, Characters::kCodePoints> Characters::records_;

// Lower case of an ASCII word character, 0 for all other bytes.
constexpr auto kAsciiWord = [] {
  std::array<char, 256> table{};
  for (int c = '0'; c <= '9'; ++c) table[static_cast<std::size_t>(c)] = static_cast<char>(c);
  for (int c = 'a'; c <= 'z'; ++c) {
    table[static_cast<std::size_t>(c)] = static_cast<char>(c);
    table[static_cast<std::size_t>(c - 'a' + 'A')] = static_cast<char>(c);
  }
  table['_'] = '_';
  return table;
}();

bool continues(unsigned char byte) { return (byte & 0xc0) == 0x80; }

// Reads the character at `at` and moves behind it.
std::uint32_t decode(const unsigned char*& at, const unsigned char* end) {
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
char* encode(std::uint32_t c, char* to) {
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

}  // namespace

void tokenize(std::string_view text, Tokens& tokens) {
  const Characters& characters = Characters::get();
  tokens.ends.clear();
  tokens.fingerprints.clear();
  // Lower case needs up to 3 bytes where the capital has 2 (U+023A), plus room for one character to be dropped.
  if (const std::size_t most = text.size() + text.size() / 2 + 4; tokens.bytes.size() < most) tokens.bytes.resize(most);

  char* start = tokens.bytes.data();  // of the current token
  char* to = start;
  std::size_t length = 0;  // in characters
  const auto finish = [&] {
    if (length >= 2) {
      tokens.ends.push_back(static_cast<std::size_t>(to - tokens.bytes.data()));
      tokens.fingerprints.push_back(token_fingerprint({start, static_cast<std::size_t>(to - start)}));
      start = to;
    } else {
      to = start;
    }
    length = 0;
  };

  const auto* begin = reinterpret_cast<const unsigned char*>(text.data());
  const unsigned char* end = begin + text.size();
  for (const unsigned char* at = begin; at < end;) {
    if (*at < 0x80) {
      if (const char small = kAsciiWord[*at]; small != 0) {
        *to++ = small;
        ++length;
      } else if (length > 0) {
        finish();
      }
      ++at;
      continue;
    }
    const unsigned char* here = at;
    const std::uint32_t c = decode(at, end);
    if (c == kCapitalDottedI) {  // becomes "i" and a combining dot, which is no word character
      *to++ = 'i';
      ++length;
      finish();
    } else if (!characters.word(c)) {
      finish();
    } else {
      to = encode(c == kCapitalSigma ? lower_sigma(characters, begin, here, at, end) : characters.lower(c), to);
      ++length;
    }
  }
  finish();
}

bool is_utf8(std::string_view bytes) {
  const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
  const unsigned char* end = at + bytes.size();
  while (at < end) {
    if (*at < 0x80) {
      ++at;
      continue;
    }
    const unsigned char* here = at;
    const std::uint32_t c = decode(at, end);
    const auto used = at - here;
    if (used == 1) return false;  // malformed: a well-formed character beyond ASCII has at least two bytes
    const bool overlong = c < (used == 2 ? 0x80u : used == 3 ? 0x800u : 0x10000u);
    if (overlong || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return false;
  }
  return true;
}

}  // namespace hedgerow
