// The XMC text parser: the input is a file of this format, header and all.
//
// What is read must be the same whether the file comes as a whole or line by line, and must read back as the same bits
// after it was written.
#include "xmc_text.h"

#include <charconv>
#include <cstring>
#include <vector>

#include "fuzz_target.h"

using namespace hedgerow;

namespace {

struct Outcome {
  std::optional<XmcFault> fault;
  std::int64_t rows = 0;
  XmcMatrices matrices;
};

Outcome parse(XmcShape shape, std::string_view text, bool by_line) {
  Outcome out;
  Watch watch;
  XmcTextParser parser(shape);
  while (!text.empty() && !out.fault) {
    const std::size_t newline = by_line ? text.find('\n') : std::string_view::npos;
    const std::size_t size = newline == std::string_view::npos ? text.size() : newline + 1;
    out.fault = parser.feed(text.substr(0, size), 1, watch);
    text.remove_prefix(size);
  }
  out.rows = parser.rows();
  if (!out.fault) out.matrices = parser.finish();
  return out;
}

template <class T>
bool same_bytes(const GrowingArray<T>& a, const GrowingArray<T>& b) {
  return a.size() == b.size() && (a.size() == 0 || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

bool same(const XmcMatrices& a, const XmcMatrices& b) {
  return a.feature_indptr == b.feature_indptr && a.label_indptr == b.label_indptr &&
         same_bytes(a.features, b.features) && same_bytes(a.labels, b.labels) && same_bytes(a.values, b.values);
}

template <class T>
void check_ascending(const std::vector<std::int64_t>& indptr, const GrowingArray<T>& ids, std::int64_t limit) {
  require(indptr.back() == static_cast<std::int64_t>(ids.size()));
  for (std::size_t row = 0; row + 1 < indptr.size(); ++row)
    for (std::int64_t i = indptr[row]; i < indptr[row + 1]; ++i) {
      require(ids.data()[i] >= 0 && ids.data()[i] < limit);
      require(i == indptr[row] || ids.data()[i] > ids.data()[i - 1]);
    }
}

// The bindings refuse other shapes.
bool read_number(std::string_view& text, std::int64_t& number, std::int64_t limit) {
  while (!text.empty() && text[0] == ' ') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > limit) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

int run_target(std::span<const std::uint8_t> input) {
  std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  const std::size_t newline = std::min(text.find('\n'), text.size());
  std::string_view header = text.substr(0, newline);
  text.remove_prefix(std::min(newline + 1, text.size()));
  XmcShape shape;
  if (!read_number(header, shape.rows, std::int64_t{1} << 62) || !read_number(header, shape.features, INT32_MAX) ||
      !read_number(header, shape.labels, INT32_MAX) || !header.empty())
    return -1;

  const Outcome whole = parse(shape, text, false);
  const Outcome by_line = parse(shape, text, true);
  require(whole.fault.has_value() == by_line.fault.has_value());
  if (whole.fault) {
    require(whole.fault->line == by_line.fault->line && whole.fault->message == by_line.fault->message);
    for (const char c : whole.fault->message) require(c >= 0x20 && c < 0x7f);
    return 0;
  }
  const XmcMatrices& m = whole.matrices;
  require(same(m, by_line.matrices));
  require(whole.rows <= shape.rows && m.feature_indptr.size() == static_cast<std::size_t>(whole.rows) + 1);
  check_ascending(m.feature_indptr, m.features, shape.features);
  check_ascending(m.label_indptr, m.labels, shape.labels);
  for (std::size_t i = 0; i < m.values.size(); ++i) require(m.values.data()[i] - m.values.data()[i] == 0);

  Watch watch;
  const std::string written = format_xmc_rows(whole.rows, {m.feature_indptr.data(), m.features.data(), m.values.data()},
                                              {m.label_indptr.data(), m.labels.data(), nullptr}, 1, watch);
  const Outcome again = parse({whole.rows, shape.features, shape.labels}, written, false);
  require(!again.fault && same(again.matrices, m));
  return 0;
}
