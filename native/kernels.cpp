// Compiled once per SIMD level; KERNEL_LEVEL names the namespace. See kernels.h and CMakeLists.txt for the rules.
#include "kernels.h"

#include "kernels/byte_products.h"
#include "kernels/chunk_scores.h"
#include "kernels/exact_measures.h"
#include "kernels/judging.h"
#include "kernels/measures.h"
#include "kernels/panel_solver.h"
#include "kernels/vectors.h"
#include "kernels/vote_measures.h"

namespace hedgerow::KERNEL_LEVEL {

#define NAME_OF(level) NAME_OF_(level)
#define NAME_OF_(level) #level

extern const Kernels table;
const Kernels table = {NAME_OF(KERNEL_LEVEL),
                       solve_panel,
                       dot_panel,
                       find_hits,
                       fill_table,
                       look_up_hits,
                       add_listed,
                       add_whole,
                       score_chunk,
                       score_thinned,
                       log_probabilities,
                       exponentials,
                       log_means,
                       measure,
                       measure_votes,
                       measure_exactly,
                       count_at_least,
                       add_missed,
                       select_at_least,
                       judge_lanes,
                       move_lanes,
                       move_means,
                       mark_kept,
                       dot_bytes};

}  // namespace hedgerow::KERNEL_LEVEL
