#include "tokens.h"

#include <algorithm>
#include <array>

#include "characters.h"

namespace hedgerow {

namespace {

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

void add_token(Tokens& tokens, const char* start, const char* end) {
  tokens.ends.push_back(static_cast<std::size_t>(end - tokens.bytes.data()));
  tokens.fingerprints.push_back(token_fingerprint({start, static_cast<std::size_t>(end - start)}));
}

std::string_view between(const unsigned char* from, const unsigned char* until) {
  return {reinterpret_cast<const char*>(from), static_cast<std::size_t>(until - from)};
}

// The characters of a run of a script without spaces, one after the other: every neighbouring two are a token, and a
// letter that stands alone is one, too.
template <bool kWritten>
class UnspacedRun {
 public:
  explicit UnspacedRun(WrittenWords* written) : written_(written) {}

  // Adds a character of the text; the token goes to `to`, which is moved behind it.
  void add(const unsigned char* begin, const unsigned char* end, bool letter, Tokens& tokens, char*& to) {
    if (length_ > 0) token(previous_, end, tokens, to);
    previous_ = begin;
    end_ = end;
    letter_ = letter;
    ++length_;
  }

  void finish(Tokens& tokens, char*& to) {
    if (length_ == 1 && letter_) token(previous_, end_, tokens, to);
    length_ = 0;
  }

 private:
  void token(const unsigned char* from, const unsigned char* until, Tokens& tokens, char*& to) {
    const char* start = to;
    to = std::copy(from, until, to);
    add_token(tokens, start, to);
    if constexpr (kWritten) written_->words.push_back(between(from, until));
    tokens.unspaced = true;
  }

  WrittenWords* written_;
  const unsigned char* previous_ = nullptr;
  const unsigned char* end_ = nullptr;
  std::size_t length_ = 0;
  bool letter_ = false;
};

// Where the words stand is noted only if somebody wants to know.
template <bool kBigrams, bool kMarks, bool kWritten = false>
void cut_words(std::string_view text, Tokens& tokens, WrittenWords* written = nullptr) {
  const Characters& characters = Characters::get();
  // Lower case needs up to 3 bytes where the capital has 2 (U+023A), plus room for one character to be dropped;
  // characters of overlapping pairs are written twice.
  const std::size_t most = text.size() + (kBigrams ? text.size() : text.size() / 2) + 4;
  if (tokens.bytes.size() < most) tokens.bytes.resize(most);

  char* start = tokens.bytes.data();  // of the current token
  char* to = start;
  std::size_t length = 0;                // in characters
  const unsigned char* from = nullptr;   // the first character of the current token in the text
  const unsigned char* until = nullptr;  // behind its last one
  UnspacedRun<kWritten> run(written);
  const auto finish = [&] {
    if constexpr (kBigrams) {
      run.finish(tokens, to);
      if (length == 0) start = to;
    }
    if (length >= 2) {
      add_token(tokens, start, to);
      if constexpr (kWritten) written->words.push_back(between(from, until));
      start = to;
    } else {
      if constexpr (kWritten) written->single += length;
      to = start;
    }
    length = 0;
  };

  const auto keep = [&](std::uint32_t mark) {
    to = encode(mark, to);
    ++length;
    tokens.marked = true;
  };

  const auto* begin = reinterpret_cast<const unsigned char*>(text.data());
  const unsigned char* end = begin + text.size();
  for (const unsigned char* at = begin; at < end;) {
    if (*at < 0x80) {
      if (const char small = kAsciiWord[*at]; small != 0) {
        if constexpr (kBigrams)
          if (length == 0) finish();
        if constexpr (kWritten) {
          if (length == 0) from = at;
          until = at + 1;
        }
        *to++ = small;
        ++length;
      } else if (kBigrams || length > 0) {
        finish();
      }
      ++at;
      continue;
    }
    const unsigned char* here = at;
    const std::uint32_t c = decode(at, end);
    if (kBigrams && characters.unspaced(c)) {
      if (length > 0) finish();
      run.add(here, at, characters.word(c), tokens, to);
      start = to;
      continue;
    }
    if constexpr (kBigrams)
      if (length == 0) finish();
    if constexpr (kWritten) {
      if (length == 0) from = here;
      if (characters.word(c) || (length > 0 && characters.mark(c))) until = at;
    }
    if (c == kCapitalDottedI) {  // becomes "i" and a combining dot, which is no word character
      *to++ = 'i';
      ++length;
      if constexpr (kMarks)
        keep(kCombiningDot);
      else
        finish();
    } else if (kMarks && length > 0 && characters.mark(c)) {
      keep(c);
    } else if (!characters.word(c)) {
      finish();
    } else {
      to = encode(c == kCapitalSigma ? lower_sigma(characters, begin, here, at, end) : characters.lower(c), to);
      ++length;
    }
  }
  finish();
}

// What str.split() takes for white space.
bool is_space(std::uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x9 && c <= 0xd) || (c >= 0x1c && c <= 0x1f);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
         c == 0x202f || c == 0x205f || c == 0x3000;
}

// The n-grams of a piece of text, whose characters begin at `starts`; the last is its end.
void add_grams(const std::vector<char>& piece, const std::vector<std::size_t>& starts, const Analyzer& analyzer,
               Tokens& tokens) {
  const std::size_t length = starts.size() - 1;
  for (std::size_t n = analyzer.shortest; n <= analyzer.longest; ++n) {
    for (std::size_t first = 0; first == 0 || first + n <= length; ++first) {
      const char* from = piece.data() + starts[first];
      const std::size_t size = starts[std::min(first + n, length)] - starts[first];
      const std::size_t before = tokens.ends.empty() ? 0 : tokens.ends.back();
      if (tokens.bytes.size() < before + size) tokens.bytes.resize(2 * (before + size));
      char* to = tokens.bytes.data() + before;
      add_token(tokens, to, std::copy(from, from + size, to));
    }
    if (length <= n) return;  // the whole piece counts once
  }
}

void cut_characters(std::string_view text, const Analyzer& analyzer, Tokens& tokens) {
  const Characters& characters = Characters::get();
  std::vector<char> piece;
  std::vector<std::size_t> starts;
  const auto add = [&](std::uint32_t c) {
    std::array<char, 4> bytes;
    starts.push_back(piece.size());
    piece.insert(piece.end(), bytes.data(), encode(c, bytes.data()));
  };
  const auto finish = [&] {
    if (piece.empty()) return;
    add(' ');
    starts.push_back(piece.size());
    add_grams(piece, starts, analyzer, tokens);
    piece.clear();
    starts.clear();
  };

  const auto* begin = reinterpret_cast<const unsigned char*>(text.data());
  const unsigned char* end = begin + text.size();
  for (const unsigned char* at = begin; at < end;) {
    const unsigned char* here = at;
    const std::uint32_t c = decode(at, end);
    if (is_space(c)) {
      finish();
      continue;
    }
    if (piece.empty()) add(' ');
    if (c == kCapitalDottedI) {
      add('i');
      add(kCombiningDot);
    } else {
      add(c == kCapitalSigma ? lower_sigma(characters, begin, here, at, end) : characters.lower(c));
    }
  }
  finish();
}

}  // namespace

void tokenize(std::string_view text, const Analyzer& analyzer, Tokens& tokens) {
  tokens.ends.clear();
  tokens.fingerprints.clear();
  if (analyzer.characters)
    cut_characters(text, analyzer, tokens);
  else if (analyzer.bigrams)
    analyzer.marks ? cut_words<true, true>(text, tokens) : cut_words<true, false>(text, tokens);
  else
    analyzer.marks ? cut_words<false, true>(text, tokens) : cut_words<false, false>(text, tokens);
}

void tokenize_words(std::string_view text, Tokens& tokens, WrittenWords& written) {
  tokens.ends.clear();
  tokens.fingerprints.clear();
  written.words.clear();
  written.single = 0;
  cut_words<true, true, true>(text, tokens, &written);
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
