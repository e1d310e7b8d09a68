// Products of vectors of bytes.
//
// Compiled once for each SIMD level, as a part of kernels.cpp and of nothing else.
#pragma once

#include "kernels.h"

namespace hedgerow::KERNEL_LEVEL {

namespace {

// The compiler knows sums of products of 16 bits, for which there are instructions.
void dot_bytes(const std::int8_t* vectors, std::int64_t rows, std::int64_t width, const std::int16_t* query,
               std::int32_t* dots) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int8_t* own = vectors + row * width;
    std::int32_t sum = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      const std::int16_t value = own[i];
      sum += std::int32_t{value} * std::int32_t{query[i]};
    }
    dots[row] = sum;
  }
}

}  // namespace

}  // namespace hedgerow::KERNEL_LEVEL
