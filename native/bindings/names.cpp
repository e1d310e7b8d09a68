#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <tuple>
#include <vector>

#include "bindings.h"
#include "languages.h"
#include "name_matcher.h"
#include "name_trie.h"
#include "nearest_names.h"
#include "stems.h"
#include "texts.h"

namespace {

using hedgerow::NameMatch;
using hedgerow::NameTrie;
using hedgerow::Stems;

struct NameArrays {
  Numpy<std::int8_t> languages;
  Numpy<std::uint8_t> stem_bytes;
  Numpy<std::uint64_t> stem_starts;
  Numpy<std::uint32_t> language_ends, edges, edge_stems, names;
  Numpy<std::int32_t> entries;
  Numpy<std::uint8_t> flags;
  Numpy<std::uint64_t> written, lowered;
};

// Sums of so many products of two bytes fit 32 bits.
constexpr std::size_t kWidestDirection = std::numeric_limits<std::int32_t>::max() / (128 * 128);

using NearestFound = std::tuple<Numpy<std::int32_t, 2>, Numpy<float, 2>>;

struct NamesFound {
  Numpy<std::int64_t> indptr;
  Numpy<std::int32_t> entries, count, outer, same_case, exact;
  Numpy<float> first;
  Numpy<std::int32_t> words, ambiguity;
  Numpy<std::uint8_t> preferred, shortened;
  Numpy<std::int64_t> tokens;
};

template <class T>
std::span<const T> span(const Vector<T>& array) {
  return {array.data(), array.size()};
}

void check_stems(const Stems& stems) {
  if (!stems.guesses() || stems.usual() != hedgerow::kNoLanguage)
    throw nb::value_error("the stems must be of any language, without a usual one");
}

NameArrays build_names(const nb::tuple& texts, const Vector<std::int8_t>& languages,
                       const Vector<std::int32_t>& entries, const Vector<std::uint8_t>& flags, const Stems& stems) {
  check_stems(stems);
  const Texts read(texts);
  const std::size_t names = read.views.size();
  if (languages.size() != names || entries.size() != names || flags.size() != names)
    throw nb::value_error("the columns of names have different lengths");
  for (const std::int32_t entry : span(entries))
    if (entry < 0) throw nb::value_error("an entry is negative");
  for (const int language : span(languages))
    if (language < hedgerow::kNoLanguage || language >= static_cast<int>(hedgerow::language_count()))
      throw nb::value_error("there is no such language");
  PythonWatch watch;
  hedgerow::NameTrieArrays built = without_gil([&] {
    return hedgerow::build_name_trie({read.views, span(languages), span(entries), span(flags)}, stems, watch);
  });
  return {to_numpy(std::move(built.languages)),   to_numpy(std::move(built.stem_bytes)),
          to_numpy(std::move(built.stem_starts)), to_numpy(std::move(built.language_ends)),
          to_numpy(std::move(built.edges)),       to_numpy(std::move(built.edge_stems)),
          to_numpy(std::move(built.names)),       to_numpy(std::move(built.entries)),
          to_numpy(std::move(built.flags)),       to_numpy(std::move(built.written)),
          to_numpy(std::move(built.lowered))};
}

template <class T, class Member>
Numpy<T> column(const std::vector<NameMatch>& found, Member NameMatch::*member) {
  std::vector<T> values(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) values[i] = static_cast<T>(found[i].*member);
  return to_numpy(std::move(values));
}

// The arrays of a trie, checked and kept alive, not copied.
class BoundMatcher {
 public:
  BoundMatcher(Vector<std::int8_t> languages, Vector<std::uint8_t> stem_bytes, Vector<std::uint64_t> stem_starts,
               Vector<std::uint32_t> language_ends, Vector<std::uint32_t> edges, Vector<std::uint32_t> edge_stems,
               Vector<std::uint32_t> names, Vector<std::int32_t> entries, Vector<std::uint8_t> flags,
               Vector<std::uint64_t> written, Vector<std::uint64_t> lowered, const Stems& stems)
      : languages_(std::move(languages)),
        stem_bytes_(std::move(stem_bytes)),
        stem_starts_(std::move(stem_starts)),
        language_ends_(std::move(language_ends)),
        edges_(std::move(edges)),
        edge_stems_(std::move(edge_stems)),
        names_(std::move(names)),
        entries_(std::move(entries)),
        flags_(std::move(flags)),
        written_(std::move(written)),
        lowered_(std::move(lowered)),
        matcher_(checked(), stems) {
    check_stems(stems);
  }

  NamesFound match(const nb::tuple& texts, int threads) {
    const Texts read(texts);
    PythonWatch watch;
    const hedgerow::NameMatches matches =
        unlocked(read, [&] { return matcher_.match(read.views, read.threads(threads), watch); });
    const std::vector<NameMatch>& found = matches.found;
    return {to_numpy(std::vector(matches.indptr)),
            column<std::int32_t>(found, &NameMatch::entry),
            column<std::int32_t>(found, &NameMatch::count),
            column<std::int32_t>(found, &NameMatch::outer),
            column<std::int32_t>(found, &NameMatch::same_case),
            column<std::int32_t>(found, &NameMatch::exact),
            column<float>(found, &NameMatch::first),
            column<std::int32_t>(found, &NameMatch::words),
            column<std::int32_t>(found, &NameMatch::ambiguity),
            column<std::uint8_t>(found, &NameMatch::preferred),
            column<std::uint8_t>(found, &NameMatch::shortened),
            to_numpy(std::vector(matches.tokens))};
  }

 private:
  NameTrie checked() const {
    const NameTrie trie{span(languages_), span(stem_bytes_), span(stem_starts_), span(language_ends_),
                        span(edges_),     span(edge_stems_), span(names_),       span(entries_),
                        span(flags_),     span(written_),    span(lowered_)};
    const nb::gil_scoped_release release;
    trie.validate();
    return trie;
  }

  Vector<std::int8_t> languages_;
  Vector<std::uint8_t> stem_bytes_;
  Vector<std::uint64_t> stem_starts_;
  Vector<std::uint32_t> language_ends_, edges_, edge_stems_, names_;
  Vector<std::int32_t> entries_;
  Vector<std::uint8_t> flags_;
  Vector<std::uint64_t> written_, lowered_;
  hedgerow::NameMatcher matcher_;
};

NearestFound nearest_names(const Array<std::int8_t, 2>& directions, const Vector<double>& lengths,
                           const Array<std::int8_t, 2>& queries, const Vector<double>& query_lengths,
                           std::int64_t count, int threads) {
  const std::size_t names = directions.shape(0), width = directions.shape(1), inputs = queries.shape(0);
  if (lengths.size() != names || query_lengths.size() != inputs || queries.shape(1) != width)
    throw nb::value_error("directions, queries and their lengths do not fit");
  if (names > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()) || width > kWidestDirection)
    throw nb::value_error("there are too many names, or their vectors are too wide");
  const auto lengths_read = span(lengths);
  if (count < 0 || count > std::ranges::count_if(lengths_read, [](double length) { return length > 0; }))
    throw nb::value_error("fewer names have a direction than are asked for");
  const std::size_t found = inputs * static_cast<std::size_t>(count);
  auto nearest = std::make_unique_for_overwrite<std::int32_t[]>(found);
  auto cosines = std::make_unique_for_overwrite<float[]>(found);
  {
    PythonWatch watch;
    nb::gil_scoped_release release;
    hedgerow::nearest_names({directions.data(), lengths.data(), static_cast<std::int64_t>(names)},
                            {queries.data(), query_lengths.data(), static_cast<std::int64_t>(inputs)},
                            static_cast<std::int64_t>(width), count, hedgerow::resolve_threads(threads), watch,
                            nearest.get(), cosines.get());
  }
  return {matrix(std::move(nearest), inputs, static_cast<std::size_t>(count)),
          matrix(std::move(cosines), inputs, static_cast<std::size_t>(count))};
}

}  // namespace

void bind_names(nb::module_& m) {
  using namespace nb::literals;
  Results<NameArrays>(m, "NameArrays", "Arrays of a trie of names.")
      .field("languages", &NameArrays::languages)
      .field("stem_bytes", &NameArrays::stem_bytes)
      .field("stem_starts", &NameArrays::stem_starts)
      .field("language_ends", &NameArrays::language_ends)
      .field("edges", &NameArrays::edges)
      .field("edge_stems", &NameArrays::edge_stems)
      .field("names", &NameArrays::names)
      .field("entries", &NameArrays::entries)
      .field("flags", &NameArrays::flags)
      .field("written", &NameArrays::written)
      .field("lowered", &NameArrays::lowered);
  Results<NamesFound>(m, "NamesFound", "Entries whose names texts have, in the form of CSR.")
      .field("indptr", &NamesFound::indptr)
      .field("entries", &NamesFound::entries)
      .field("count", &NamesFound::count)
      .field("outer", &NamesFound::outer)
      .field("same_case", &NamesFound::same_case)
      .field("exact", &NamesFound::exact)
      .field("first", &NamesFound::first)
      .field("words", &NamesFound::words)
      .field("ambiguity", &NamesFound::ambiguity)
      .field("preferred", &NamesFound::preferred)
      .field("shortened", &NamesFound::shortened)
      .field("tokens", &NamesFound::tokens);
  m.attr("PREFERRED_NAME") = static_cast<int>(hedgerow::kPreferredName);
  m.attr("SHORTENED_NAME") = static_cast<int>(hedgerow::kShortenedName);
  m.attr("MOST_NAME_WORDS") = hedgerow::kMostNameWords;
  m.def("build_names", &build_names, "texts"_a, "languages"_a, "entries"_a, "flags"_a, "stems"_a,
        "The arrays of names, which are parallel columns.");
  m.def("nearest_names", &nearest_names, "directions"_a, "lengths"_a, "queries"_a, "query_lengths"_a, "count"_a,
        "threads"_a,
        "The names whose directions have the highest cosines with each query, and these: (queries, count) both.");
  nb::class_<BoundMatcher>(m, "NameMatcher", "Finds names by a trie, whose arrays are checked here.")
      .def(nb::init<Vector<std::int8_t>, Vector<std::uint8_t>, Vector<std::uint64_t>, Vector<std::uint32_t>,
                    Vector<std::uint32_t>, Vector<std::uint32_t>, Vector<std::uint32_t>, Vector<std::int32_t>,
                    Vector<std::uint8_t>, Vector<std::uint64_t>, Vector<std::uint64_t>, const Stems&>(),
           "languages"_a, "stem_bytes"_a, "stem_starts"_a, "language_ends"_a, "edges"_a, "edge_stems"_a, "names"_a,
           "entries"_a, "flags"_a, "written"_a, "lowered"_a, "stems"_a, nb::keep_alive<1, 13>())
      .def("match", &BoundMatcher::match, "texts"_a, "threads"_a, "Entries whose names each text has.");
}
