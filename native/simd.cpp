// Picks the kernels for this machine, once.
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "kernels.h"

namespace hedgerow {

namespace baseline {
extern const Kernels table;
}
#ifdef HEDGEROW_X86
namespace v3 {
extern const Kernels table;
}
namespace v4 {
extern const Kernels table;
}
namespace v4_vbmi2 {
extern const Kernels table;
}
#endif

namespace {

const Kernels& pick() {
  const char* wish = std::getenv("HEDGEROW_SIMD");
  const std::string level = wish ? wish : "";
  if (!level.empty() && level != "baseline" && level != "v3" && level != "v4" && level != "v4_vbmi2")
    throw std::invalid_argument("HEDGEROW_SIMD is '" + level +
                                "'; use baseline, v3, v4 or v4_vbmi2, or leave it unset");
#ifdef HEDGEROW_X86
  // Levels by instruction set, never by the name of a CPU model: a model test picks the slowest code on AMD.
  __builtin_cpu_init();
  const bool has_v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                      __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("avx");
  const bool has_v4 = has_v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  const bool has_vbmi2 = has_v4 && __builtin_cpu_supports("avx512vbmi2");
  // A wish for more than the machine has gets the best that it has.
  if (has_vbmi2 && (level.empty() || level == "v4_vbmi2")) return v4_vbmi2::table;
  if (has_v4 && level != "baseline" && level != "v3") return v4::table;
  if (has_v3 && level != "baseline") return v3::table;
#endif
  return baseline::table;
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& picked = pick();
  return picked;
}

}  // namespace hedgerow
