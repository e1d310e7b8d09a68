// Which vectors of bytes have the highest cosines with others.
#pragma once

#include <cstdint>

#include "parallel.h"

namespace hedgerow {

// Vectors one after the other, and their lengths. One of length 0 has no direction, and is near to nothing.
struct ByteVectors {
  const std::int8_t* numbers;
  const double* lengths;
  std::int64_t rows;
};

// The `count` vectors nearest to each query, nearest first, and of equally near ones the first; at least so many
// have a direction. Sums of integers do not depend on their order, so nor do the results on anything else.
void nearest_names(const ByteVectors& vectors, const ByteVectors& queries, std::int64_t width, std::int64_t count,
                   int threads, Watch& watch, std::int32_t* nearest, float* cosines);

}  // namespace hedgerow
