// What a text is cut into, in lower case: words, or n-grams of characters.
//
// Words are runs of at least two word characters, the same as Python's re.findall(r"\w\w+", text.lower()), and n-grams
// are those of scikit-learn's analyzer "char_wb", for every text: also where lower-casing depends on the neighbours
// (final sigma) or gives two characters (U+0130). Scripts without spaces, and marks, may be read in another way: see
// Analyzer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace hedgerow {

// Spreads all bits of x over the result; the finaliser of MurmurHash3.
inline std::uint64_t mix_bits(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

// Part of the file format (little-endian machines only): a change needs a new format version.
inline std::uint64_t token_hash(std::string_view token) {
  std::uint64_t hash = 0x9e3779b97f4a7c15ULL ^ token.size();
  const char* at = token.data();
  std::size_t left = token.size();
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    hash = (hash ^ word) * 0xff51afd7ed558ccdULL;
    hash ^= hash >> 29;
  }
  std::uint64_t tail = 0;
  for (std::size_t i = 0; i < left; ++i) tail |= std::uint64_t{static_cast<unsigned char>(at[i])} << (8 * i);
  return mix_bits(hash ^ tail);
}
inline std::uint32_t token_fingerprint(std::string_view token) {
  return static_cast<std::uint32_t>(token_hash(token) >> 32);
}

struct Analyzer {
  bool characters = false;                // n-grams within what white space separates, a space on either side; or words
  bool bigrams = false;                   // words: a run of a script without spaces is cut into overlapping pairs
  bool marks = false;                     // words: marks on word characters, such as vowel signs, belong to them
  std::size_t shortest = 3, longest = 5;  // characters of an n-gram
};

// The tokens of one text, reused from text to text so that memory is taken only once.
struct Tokens {
  std::vector<char> bytes;  // at least ends.back() long
  std::vector<std::size_t> ends;
  std::vector<std::uint32_t> fingerprints;
  bool unspaced = false;  // whether this text, or one before it, had a run that was cut into pairs
  bool marked = false;    // the same of a mark that was kept in a word

  std::size_t size() const { return ends.size(); }
  std::string_view operator[](std::size_t i) const {
    const std::size_t start = i == 0 ? 0 : ends[i - 1];
    return {bytes.data() + start, ends[i] - start};
  }
};

// The words of a text as they stand in it, which must live as long.
struct WrittenWords {
  std::vector<std::string_view> words;  // one for each token
  std::size_t single = 0;               // letters and digits that stand alone, which are no words
};

// `text` should be UTF-8; malformed bytes separate words.
void tokenize(std::string_view text, const Analyzer& analyzer, Tokens& tokens);

// The same of words only: scripts without spaces are cut into pairs, and marks are kept.
void tokenize_words(std::string_view text, Tokens& tokens, WrittenWords& written);

// True if `bytes` is well-formed UTF-8 as Python decodes it.
bool is_utf8(std::string_view bytes);

}  // namespace hedgerow
