// The text format of the extreme classification repository: a header `rows features labels`, then one line a row,
// `label,label feature:value feature:value`. Ids start at 0; a row without labels starts with a space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parallel.h"

namespace hedgerow {

struct XmcShape {
  std::int64_t rows = 0;
  std::int64_t features = 0;
  std::int64_t labels = 0;
};

// What is wrong with the text, and in which line. Lines count from 0, over all that was fed.
struct XmcFault {
  std::int64_t line = 0;
  std::string message;
};

// The whole file as two CSR matrices that share their rows. Ids ascend within a row and none occurs twice.
struct XmcMatrices {
  std::vector<std::int64_t> feature_indptr, label_indptr;
  std::unique_ptr<std::int32_t[]> features, labels;
  std::unique_ptr<float[]> values;
};

// Reads the lines after the header block by block, so that the text never has to lie in memory as a whole.
class XmcTextParser {
 public:
  explicit XmcTextParser(XmcShape shape);
  ~XmcTextParser();
  XmcTextParser(const XmcTextParser&) = delete;
  XmcTextParser& operator=(const XmcTextParser&) = delete;

  // `block` holds whole lines; only the last line of the file may lack its line end. The fault reported is the first
  // one of the file, whatever the number of threads. After a fault the parser is of no use.
  std::optional<XmcFault> feed(std::string_view block, int threads, Watch& watch);

  std::int64_t rows() const noexcept { return rows_; }
  std::int64_t lines() const noexcept { return lines_; }

  // Hands over the matrices. The parts that were collected are freed while they are copied, so that the peak is
  // little more than the result itself.
  XmcMatrices finish();

 private:
  struct Slice;
  struct Chunk;

  void keep(const std::vector<std::size_t>& rows_of_slice);

  XmcShape shape_;
  std::int64_t rows_ = 0;
  std::int64_t lines_ = 0;
  std::vector<Slice> slices_;  // scratch that is used again for each block
  std::vector<Chunk> chunks_;
  std::vector<std::int64_t> feature_indptr_{0}, label_indptr_{0};
};

// Rows of a CSR matrix: row r holds the entries from indptr[r] - indptr[0] to indptr[r + 1] - indptr[0].
struct XmcRows {
  const std::int64_t* indptr = nullptr;
  const std::int32_t* indices = nullptr;
  const float* values = nullptr;  // unused for labels
};

// The lines of these rows. Values have the fewest digits that read back as the same float.
std::string format_xmc_rows(std::int64_t rows, XmcRows features, XmcRows labels, int threads, Watch& watch);

}  // namespace hedgerow
