#include "xmc_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

namespace hedgerow {

namespace {

// Small enough that all threads end a block together, large enough that a thread's start does not show.
constexpr std::size_t slice_bytes = 256 * 1024;
constexpr std::int64_t slice_rows = 512;

bool is_blank(char c) { return c == ' ' || c == '\t'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The text up to the next blank as it may be shown to a user: short, and printable whatever bytes the file has.
std::string shown(const char* from, const char* end) {
  constexpr std::ptrdiff_t limit = 40;
  std::string text = "'";
  const char* p = from;
  for (; p < end && !is_blank(*p) && p - from < limit; ++p) {
    const auto byte = static_cast<unsigned char>(*p);
    if (byte >= 0x20 && byte < 0x7f) {
      text += *p;
    } else {
      constexpr char digits[] = "0123456789abcdef";
      text += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    }
  }
  if (p < end && !is_blank(*p)) text += "...";
  return text + "'";
}

// A run of digits. Null if there is none or it has more than 18, which no id can have.
const char* parse_id(const char* p, const char* end, std::int64_t& id) {
  const char* const start = p;
  std::int64_t value = 0;
  for (; p < end && is_digit(*p); ++p) {
    if (p - start == 18) return nullptr;
    value = value * 10 + (*p - '0');
  }
  if (p == start) return nullptr;
  id = value;
  return p;
}

// A plain decimal such as 0.084556, if it is short enough that one division of two exact floats rounds it correctly.
// Most values are; it saves from_chars's general path and gives the same bits. Null if it is anything else.
const char* parse_short_decimal(const char* p, const char* end, float& value) {
  static constexpr float powers[] = {1e0f, 1e1f, 1e2f, 1e3f, 1e4f, 1e5f, 1e6f, 1e7f, 1e8f, 1e9f, 1e10f};
  const bool negative = p < end && *p == '-';
  if (negative) ++p;
  const char* const start = p;
  std::uint32_t digits = 0;
  while (p < end && is_digit(*p) && p - start < 9) digits = digits * 10 + static_cast<std::uint32_t>(*p++ - '0');
  if (p == start) return nullptr;
  std::ptrdiff_t decimals = 0;
  if (p < end && *p == '.') {
    const char* const point = p++;
    while (p < end && is_digit(*p) && p - start < 10) digits = digits * 10 + static_cast<std::uint32_t>(*p++ - '0');
    decimals = p - point - 1;
  }
  if ((p < end && !is_blank(*p)) || digits > (1u << 24)) return nullptr;
  value = static_cast<float>(digits) / powers[decimals];
  if (negative) value = -value;
  return p;
}

std::string id_fault(const char* kind, const char* from, const char* end, std::int64_t limit) {
  const std::string noun = kind;
  const std::string range = limit > 0 ? "ids run from 0 to " + std::to_string(limit - 1) : "there can be none";
  const std::string header = "the header says " + std::to_string(limit) + " " + noun + "s, so " + range;
  const bool negative = end - from > 1 && *from == '-' && is_digit(from[1]);
  if (negative) return noun + " " + shown(from, end) + " is negative; " + header;
  if (from < end && is_digit(*from))
    return noun + " " + shown(from, end) + " is out of range: " + header + "; correct the header or the row";
  return "expected a " + noun + " id, found " + shown(from, end) +
         "; a line reads `label,label feature:value feature:value`";
}

}  // namespace

// What one task parsed.
struct XmcTextParser::Slice {
  std::vector<std::int64_t> feature_ends, label_ends;  // one a row, relative to the slice
  std::vector<std::int32_t> features, labels;
  std::vector<float> values;
  std::vector<std::pair<std::int32_t, float>> order;
  std::optional<XmcFault> fault;  // its line is relative to the slice

  void clear() {
    feature_ends.clear();
    label_ends.clear();
    features.clear();
    labels.clear();
    values.clear();
    fault.reset();
  }

  std::size_t rows() const { return feature_ends.size(); }

  bool is_empty(std::size_t row) const {
    const auto begins_at_end = [row](const std::vector<std::int64_t>& ends) {
      return ends[row] == (row == 0 ? 0 : ends[row - 1]);
    };
    return begins_at_end(feature_ends) && begins_at_end(label_ends);
  }

  void parse(std::string_view text, const XmcShape& shape) {
    const char* p = text.data();
    const char* const end = p + text.size();
    for (std::int64_t line = 0; p < end; ++line) {
      const auto* newline = static_cast<const char*>(std::memchr(p, '\n', static_cast<std::size_t>(end - p)));
      const char* line_end = newline ? newline : end;
      const char* next = newline ? newline + 1 : end;
      if (line_end > p && line_end[-1] == '\r') --line_end;
      std::string message = parse_row(p, line_end, shape);
      if (!message.empty()) {
        fault = XmcFault{line, std::move(message)};
        return;
      }
      feature_ends.push_back(static_cast<std::int64_t>(features.size()));
      label_ends.push_back(static_cast<std::int64_t>(labels.size()));
      p = next;
    }
  }

 private:
  // Returns what is wrong, or nothing.
  std::string parse_row(const char* p, const char* end, const XmcShape& shape) {
    if (p < end && !is_blank(*p)) {
      const char* after = p;
      std::string message = parse_labels(after, end, shape);
      if (!message.empty()) return message;
      p = after;
    }
    return parse_features(p, end, shape);
  }

  // Moves `p` behind the labels.
  std::string parse_labels(const char*& p, const char* end, const XmcShape& shape) {
    const std::size_t first = labels.size();
    const char* const line = p;
    bool ascending = true;
    for (;;) {
      std::int64_t id = 0;
      const char* after = parse_id(p, end, id);
      if (after && after < end && *after == ':' && labels.size() == first) {
        p = line;  // no labels, and the space that should say so is missing: `:` leaves no doubt
        return {};
      }
      if (!after || id >= shape.labels) return id_fault("label", p, end, shape.labels);
      if (labels.size() > first && id <= labels.back()) ascending = false;
      labels.push_back(static_cast<std::int32_t>(id));
      p = after;
      if (p == end || is_blank(*p)) break;
      if (*p != ',')
        return "expected `,` or a space after label " + std::to_string(id) + ", found " + shown(p, end) +
               "; labels are whole numbers separated by commas";
      ++p;
    }
    if (!ascending) {
      const auto begin = labels.begin() + static_cast<std::ptrdiff_t>(first);
      std::sort(begin, labels.end());
      const auto twice = std::adjacent_find(begin, labels.end());
      if (twice != labels.end())
        return "label " + std::to_string(*twice) + " occurs twice in the row; keep one of them";
    }
    return {};
  }

  std::string parse_features(const char* p, const char* end, const XmcShape& shape) {
    const std::size_t first = features.size();
    bool ascending = true;
    for (;;) {
      while (p < end && is_blank(*p)) ++p;
      if (p == end) break;
      std::int64_t id = 0;
      const char* colon = parse_id(p, end, id);
      if (!colon || id >= shape.features) return id_fault("feature", p, end, shape.features);
      if (colon == end || *colon != ':')
        return "expected feature:value, found " + shown(p, end) +
               "; a line reads `label,label feature:value feature:value`";
      float value = 0;
      const char* after = colon + 1;
      std::string message = parse_value(after, end, id, value);
      if (!message.empty()) return message;
      if (features.size() > first && id <= features.back()) ascending = false;
      features.push_back(static_cast<std::int32_t>(id));
      values.push_back(value);
      p = after;
    }
    return ascending ? std::string() : sort_features(first);
  }

  // Moves `p` behind the value.
  static std::string parse_value(const char*& p, const char* end, std::int64_t id, float& value) {
    if (const char* after = parse_short_decimal(p, end, value)) {
      p = after;
      return {};
    }
    const auto where = [&] { return "value " + shown(p, end) + " of feature " + std::to_string(id); };
    auto result = std::from_chars(p, end, value);
    if (result.ec == std::errc::result_out_of_range) {
      // Too large is an error; too small is a zero, as it is for everyone who reads a double and rounds it.
      double wide = 0;
      result = std::from_chars(p, end, wide);
      if (result.ec != std::errc() || std::abs(wide) > 1)
        return where() + " does not fit a 32-bit float; scale the feature";
      value = static_cast<float>(wide);
    }
    if (result.ec != std::errc() || (result.ptr < end && !is_blank(*result.ptr)))
      return where() + " is not a number; write it as 0.25 or 2.5e-1";
    if (!std::isfinite(value)) return where() + " is not finite; remove the entry or give it a number";
    p = result.ptr;
    return {};
  }

  std::string sort_features(std::size_t first) {
    order.clear();
    for (std::size_t i = first; i < features.size(); ++i) order.emplace_back(features[i], values[i]);
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i > 0 && order[i].first == order[i - 1].first)
        return "feature " + std::to_string(order[i].first) + " occurs twice in the row; keep one of them";
      features[first + i] = order[i].first;
      values[first + i] = order[i].second;
    }
    return {};
  }
};

XmcTextParser::XmcTextParser(XmcShape shape) : shape_(shape) {}
XmcTextParser::~XmcTextParser() = default;

std::optional<XmcFault> XmcTextParser::feed(std::string_view block, int threads, Watch& watch) {
  std::vector<std::string_view> texts;
  for (std::size_t from = 0; from < block.size();) {
    std::size_t to = block.size();
    if (to - from > slice_bytes) {
      const std::size_t newline = block.find('\n', from + slice_bytes - 1);
      if (newline != std::string_view::npos) to = newline + 1;
    }
    texts.push_back(block.substr(from, to - from));
    from = to;
  }
  if (slices_.size() < texts.size()) slices_.resize(texts.size());
  for (auto& slice : slices_) slice.clear();
  parallel_for(texts.size(), resolve_threads(threads), watch,
               [&](std::size_t task, int) { slices_[task].parse(texts[task], shape_); });

  std::vector<std::size_t> kept(texts.size());
  std::int64_t rows = rows_;
  std::int64_t line = lines_;
  for (std::size_t s = 0; s < texts.size(); ++s) {
    const Slice& slice = slices_[s];
    kept[s] =
        static_cast<std::size_t>(std::min<std::int64_t>(shape_.rows - rows, static_cast<std::int64_t>(slice.rows())));
    // Empty lines at the end of the file are no rows.
    for (std::size_t row = kept[s]; row < slice.rows(); ++row)
      if (!slice.is_empty(row))
        return XmcFault{line + static_cast<std::int64_t>(row), "the header says " + std::to_string(shape_.rows) +
                                                                   " rows, but here is one more; correct the header"};
    if (slice.fault) return XmcFault{line + slice.fault->line, slice.fault->message};
    rows += static_cast<std::int64_t>(kept[s]);
    line += static_cast<std::int64_t>(slice.rows());
  }
  keep(kept);
  rows_ = rows;
  lines_ = line;
  return std::nullopt;
}

void XmcTextParser::keep(const std::vector<std::size_t>& rows_of_slice) {
  for (std::size_t s = 0; s < rows_of_slice.size(); ++s) {
    const Slice& slice = slices_[s];
    const std::int64_t feature_base = matrices_.feature_indptr.back(), label_base = matrices_.label_indptr.back();
    for (std::size_t row = 0; row < rows_of_slice[s]; ++row) {
      matrices_.feature_indptr.push_back(feature_base + slice.feature_ends[row]);
      matrices_.label_indptr.push_back(label_base + slice.label_ends[row]);
    }
    matrices_.features.append(slice.features);
    matrices_.values.append(slice.values);
    matrices_.labels.append(slice.labels);
  }
}

XmcMatrices XmcTextParser::finish() {
  slices_.clear();
  rows_ = lines_ = 0;
  return std::exchange(matrices_, XmcMatrices());
}

std::string format_xmc_rows(std::int64_t rows, XmcRows features, XmcRows labels, int threads, Watch& watch) {
  const auto tasks = static_cast<std::size_t>((rows + slice_rows - 1) / slice_rows);
  std::vector<std::string> texts(tasks);
  parallel_for(tasks, resolve_threads(threads), watch, [&](std::size_t task, int) {
    std::string& text = texts[task];
    char number[32];
    const auto append = [&](auto value) {
      text.append(number, static_cast<std::size_t>(std::to_chars(number, number + sizeof(number), value).ptr - number));
    };
    const std::int64_t begin = static_cast<std::int64_t>(task) * slice_rows;
    for (std::int64_t row = begin; row < std::min(rows, begin + slice_rows); ++row) {
      const std::int64_t first_label = labels.indptr[row] - labels.indptr[0];
      for (std::int64_t i = first_label; i < labels.indptr[row + 1] - labels.indptr[0]; ++i) {
        if (i > first_label) text += ',';
        append(labels.indices[i]);
      }
      for (std::int64_t i = features.indptr[row] - features.indptr[0];
           i < features.indptr[row + 1] - features.indptr[0]; ++i) {
        text += ' ';
        append(features.indices[i]);
        text += ':';
        append(features.values[i]);
      }
      text += '\n';
    }
  });
  std::size_t size = 0;
  for (const auto& text : texts) size += text.size();
  std::string whole;
  whole.reserve(size);
  for (const auto& text : texts) whole += text;
  return whole;
}

}  // namespace hedgerow
